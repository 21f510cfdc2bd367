"""Which refusal comes first, and what others may do meanwhile. Oracle: the order as it is written down here."""

from __future__ import annotations

import threading
from itertools import combinations

import pytest
from expert_tiles import choose, tiles

import strideweave as sw
from strideweave.testing import gated

CHECKS = {
    "tensor's carrier": (TypeError, "not backed by this carrier"),
    "selection's type": (TypeError, "expected a TileSelection"),
    "destination's type": (TypeError, "expected exactly a CPU"),
    "released": (RuntimeError, "released"),
    "selection's range": (ValueError, "outside the grid"),
    "footprint": (ValueError, "neighbouring tiles"),
    "destination's state": (RuntimeError, "immutable"),
    "destination's size": (ValueError, "has 5 slots"),
    "conflict": (RuntimeError, "incomplete evict"),
    "policy": (OSError, "the policy's own"),
}
"""In order; a destination that is there but of another kind is an argument of another type."""

# Both cannot be wrong at once.
APART = [{"selection's type", "selection's range"}, {"tensor's carrier", "footprint"}]
APART += [{"destination's type", "destination's size"}, {"destination's type", "destination's state"}]
APART += [{"released", "conflict"}]


@pytest.mark.parametrize(
    "pair", [p for p in combinations(CHECKS, 2) if set(p) not in APART], ids=" before ".join
)
def test_of_two_refusals_the_earlier_is_raised(tiled, pair):
    made = tiled.make(where="primary", residency_policy=tiled.Recorder(OSError("the policy's own")))
    kind, says = CHECKS[pair[0]]
    arguments = {"tensor": made.tensor, "selection": choose(1, 0), "destination": None}
    if "selection's type" in pair:
        arguments["selection"] = [[1, 0], [0], [0]]
    if "selection's range" in pair:
        arguments["selection"] = choose(1, 4)
    if "tensor's carrier" in pair:
        arguments["tensor"] = tiled.make().tensor
    if "footprint" in pair:
        arguments["tensor"] = sw.Tensor(made.carrier, 0, sw.Layout((4, 3, 2)))
    if "destination's type" in pair:
        arguments["destination"] = sw.Generic([0.0] * 12)
    if "destination's state" in pair:
        arguments["destination"] = sw.CPU(12, mutable=False)
    if "destination's size" in pair:
        arguments["destination"] = sw.CPU(5, mutable="destination's state" not in pair)
    if "released" in pair:
        made.carrier.release()
    with gated("copy") as gate:
        handle = made.carrier.evict_async(tiles(0)) if "conflict" in pair else None
        with pytest.raises(kind, match=says):
            made.carrier.project(**arguments)
        gate.open()
        if handle is not None:
            handle.wait()
    assert made.carrier.residency_policy.asked == [], "the policy is asked after all other checks"


@pytest.mark.spec("RES.invalid")
@pytest.mark.parametrize("use", ["project", "add", "operation"])
def test_no_policy_is_asked_about_a_tile_without_a_value(tiled, use):
    made = tiled.make(where="none", residency_policy=tiled.Recorder())
    with pytest.raises(RuntimeError, match="has no value"):
        {
            "project": lambda: made.carrier.project(made.tensor, choose(1)),
            "add": lambda: made.carrier.scatter(sw.ones((1, 3, 2)), made.tensor, choose(1), "add"),
            "operation": lambda: sw.relu(made.tensor),
        }[use]()
    assert made.carrier.residency_policy.asked == []


@pytest.mark.spec("TRN.refuse_hidden")
@pytest.mark.parametrize("use", ["scatter", "add", "operation"])
def test_no_policy_is_asked_while_another_request_has_the_tile(tiled, use):
    made = tiled.make(residency_policy=tiled.Recorder())
    with gated("copy") as gate:
        handle = made.carrier.promote_async(tiles(1))
        with pytest.raises(RuntimeError, match=r"incomplete promote; wait\(\)"):
            {
                "scatter": lambda: made.carrier.scatter(sw.ones((1, 3, 2)), made.tensor, choose(1)),
                "add": lambda: made.carrier.scatter(sw.ones((1, 3, 2)), made.tensor, choose(1), "add"),
                "operation": lambda: sw.relu(made.tensor),
            }[use]()
        assert made.carrier.residency_policy.asked == []
        gate.open()
        handle.wait()


@pytest.mark.spec("TRN.refuse_hidden")
def test_what_others_begin_while_the_policy_is_asked_is_a_conflict_too(tiled):
    """The policy is asked with no lock held: another thread's eviction begins meanwhile, and is not joined."""
    begun = []

    def plan():
        thread = threading.Thread(target=lambda: begun.append(made.carrier.evict_async(tiles(1))))
        thread.start()
        thread.join(20)
        assert not thread.is_alive(), "the policy is asked under a lock"
        return sw.ResidencyPlan()

    made = tiled.make(where="primary", residency_policy=tiled.Recorder(plan, plan))
    before = tiled.snapshot(made.carrier)[0]
    for request in (
        lambda: made.carrier.project(made.tensor, choose(1, 0)),
        lambda: sw.relu(made.tensor),
    ):
        with gated("copy") as gate:
            with pytest.raises(RuntimeError, match=r"incomplete evict; wait\(\)"):
                request()
            gate.open()
            begun.pop().wait()
        # On primary again, and dirty, so that its eviction takes a copy.
        made.carrier.set_value(6, 7.0)
    assert [v for _, v in tiled.snapshot(made.carrier)[0].values()] == [v for _, v in before.values()]
    assert made.carrier.project(made.tensor, choose(1, 0)).wait().size() == 12


@pytest.mark.spec("A44", "PRJ.keeps", "PRJ.captured")
@pytest.mark.parametrize("way", ["fresh", "destination", "policy"])
def test_no_slot_is_written_while_a_projection_is_pending(tiled, way):
    """Not even of a tile that it does not read: its version is the one that backward compares with."""
    made = tiled.make(residency_policy=tiled.Recorder() if way == "policy" else None)
    destination = sw.CPU(0) if way == "destination" else None
    with gated("copy") as gate:
        handle = made.carrier.project(made.tensor, choose(3, 0), destination)
        with pytest.raises(RuntimeError, match="wait"):
            made.carrier.set_value(6, 9.0)
        assert made.carrier.get_value(6) == 7.0
        gate.open()
        compact = handle.wait()
    compact.backward(sw.ones((2, 3, 2)))
    assert made.tensor.grad is not None and made.carrier.version == 0
    made.carrier.set_value(6, 9.0)
    assert made.carrier.get_value(6) == 9.0
