"""Policies, prefetch, bundles. Oracle: what the policy was asked, and which tiles must be where."""

from __future__ import annotations

import threading

import pytest
import torch

import strideweave as sw
from strideweave.carriers.tiled_evictable import (
    PURPOSES,
    Bundle,
    DeviceBudget,
    Prefetcher,
    TileSelection,
    TileSet,
)
from strideweave.testing import Fault, fail_at, gated, sweep


def tiles(*experts):
    return TileSet((e, 0, 0) for e in experts)


def choose(*experts):
    return TileSelection([experts, [0], [0]])


def plan(**fields):
    return sw.ResidencyPlan(**{k: tiles(*v) for k, v in fields.items()})


@pytest.mark.spec("A84", "POL.result", "POL.raises", "LIFE.before")
@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (lambda: None, TypeError),
        (lambda: TileSet(), TypeError),
        (lambda: sw.ResidencyPlan(promote=TileSet([(9, 0, 0)])), ValueError),
        (lambda: sw.ResidencyPlan(retain=TileSet([(0,)])), ValueError),
        (lambda: sw.ResidencyPlan(evict=TileSet([(0, 0, 1)])), ValueError),
        (OSError("the policy's own"), OSError),
    ],
)
def test_a_bad_plan_is_refused_before_any_provider_call(tiled, answer, kind):
    policy = tiled.Recorder(*[answer] * 3)
    made = tiled.make(residency_policy=policy)
    before = tiled.snapshot(made.carrier)
    with fail_at(1, "copy", "kernel", "submit", "allocate") as counter:
        with pytest.raises(kind):
            made.carrier.project(made.tensor, choose(1))
        with pytest.raises(kind):
            sw.relu(made.tensor)
    piece = sw.ones((1, 3, 2))
    with fail_at(1) as scattering, pytest.raises(kind):
        made.carrier.scatter(piece, made.tensor, choose(1))
    assert counter.calls == scattering.calls == 0
    assert tiled.snapshot(made.carrier) == before


@pytest.mark.spec("A85", "C29", "POL.evict")
def test_a_required_tile_may_be_evicted_afterwards(tiled):
    made = tiled.make(grid=(6, 1, 1), residency_policy=tiled.Recorder(plan(evict=[5])))
    compact = made.carrier.project(made.tensor, choose(5, 1, 3)).wait()
    assert torch.equal(tiled.by_mode(compact), tiled.dense(made.tensor, made.values)[[5, 1, 3]])
    made.carrier.wait_idle()
    assert made.carrier.primary_tiles == tiles(1, 3)


@pytest.mark.spec("A86", "POL.required")
def test_a_policy_that_promotes_nothing_changes_no_value(tiled):
    made = tiled.make(residency_policy=tiled.Recorder())
    assert torch.equal(
        tiled.by_mode(made.carrier.project(made.tensor, choose(2)).wait()),
        tiled.dense(made.tensor, made.values)[[2]],
    )


@pytest.mark.spec("A87")
def test_requests_from_inside_the_policy_are_refused(tiled):
    errors = []

    class Reentrant:
        def plan(self, required, purpose):
            for call in (
                lambda: made.carrier.project(made.tensor, choose(0)),
                lambda: made.carrier.promote(tiles(0)),
                lambda: made.carrier.hold(tiles(0)),
                lambda: sw.relu(made.tensor),
            ):
                try:
                    call()
                except RuntimeError as error:
                    errors.append(str(error))
            return sw.ResidencyPlan()

    made = tiled.make(residency_policy=Reentrant())
    done = []
    thread = threading.Thread(target=lambda: done.append(made.carrier.project(made.tensor, choose(1)).wait()))
    thread.start()
    thread.join(20)
    assert done and len(errors) == 4 and all("policy" in e for e in errors)


@pytest.mark.spec("A88", "POL.retain")
def test_a_retained_tile_outlasts_a_concurrent_eviction(tiled):
    made = tiled.make(residency_policy=tiled.Recorder(plan(retain=[0])))
    made.carrier.promote(tiles(0))
    with gated("copy") as gate:
        handle = made.carrier.project(made.tensor, choose(1))
        eviction = made.carrier.evict_async(tiles(0))
        assert not eviction.done and made.carrier.primary_tiles == tiles(0)
        gate.open()
        handle.wait()
        eviction.wait()
    assert made.carrier.primary_tiles == tiles(1)


@pytest.mark.spec("A89", "POL.purposes", "POL.executes")
def test_the_four_purposes_and_no_call_for_what_does_not_run(tiled):
    policy = tiled.Recorder()
    made = tiled.make(residency_policy=policy)
    compact = made.carrier.project(made.tensor, choose(1)).wait()
    direct = sw.mul(made.tensor, 2)
    made.carrier.scatter(sw.ones((1, 3, 2)), made.tensor, choose(2)).wait()
    assert [p for _, p in policy.asked] == ["projection", "operation", "scatter"]
    assert [r for r, _ in policy.asked] == [tiles(1), tiles(0, 1, 2, 3), tiles(2)]
    policy.asked.clear()
    other = sw.ones((1, 3, 2))
    sw.mul(other, 3).backward(sw.ones((1, 3, 2)))
    assert policy.asked == []
    sw.relu(compact).backward(sw.ones((1, 3, 2)))
    assert [p for _, p in policy.asked] == ["backward"]
    direct.backward(sw.ones(direct.shape))
    assert [p for _, p in policy.asked] == ["backward", "backward"] and set(PURPOSES) == {
        *("operation", "projection", "scatter", "backward")
    }


@pytest.mark.spec("A97", "POL.promote")
def test_promotions_beside_the_requirement(tiled):
    policy = tiled.Recorder(plan(promote=[0, 3]))
    made = tiled.make(residency_policy=policy)
    made.carrier.project(made.tensor, choose(1)).wait()
    assert made.carrier.primary_tiles == tiles(0, 1, 3)
    policy.plans.append(plan(promote=[2]))
    with fail_at(1, "copy"), pytest.raises(Fault):
        made.carrier.project(made.tensor, choose(1)).wait()
    assert made.carrier.primary_tiles == tiles(0, 1, 3)


@pytest.mark.spec("A97")
def test_one_question_per_carrier(tiled):
    first, second = tiled.Recorder(), tiled.Recorder()
    a, b = tiled.make(residency_policy=first), tiled.make(residency_policy=second)
    sw.mul(a.tensor, b.tensor)
    assert len(first.asked) == len(second.asked) == 1
    sw.mul(a.tensor, a.tensor)
    assert len(first.asked) == 2


@pytest.mark.spec("A99", "POL.deferred")
def test_a_trailing_eviction_gives_way_to_a_newer_request(tiled):
    made = tiled.make(where="primary", residency_policy=tiled.Recorder(plan(evict=[1])))
    full = tiled.dense(made.tensor, made.values)
    compact = made.carrier.project(made.tensor, choose(1)).wait
    with gated("copy") as gate:
        first = compact()
        assert gate.reached.wait(10)
        hold = made.carrier.hold(tiles(1))
        with hold:
            second = made.carrier.project(made.tensor, choose(1)).wait()
            with pytest.raises(RuntimeError, match="policy's eviction"):
                made.carrier.release()
            gate.open()
            assert made.carrier.tile_state((1, 0, 0)).location in ("primary", "both")
        made.carrier.wait_idle()
    assert torch.equal(tiled.by_mode(first), full[[1]]) and torch.equal(tiled.by_mode(second), full[[1]])
    assert made.carrier.tile_state((1, 0, 0)).location == "secondary"


def test_a_failed_policy_eviction_does_not_fail_the_request(tiled):
    made = tiled.make(where="primary", residency_policy=tiled.Recorder(plan(evict=[1])))
    with fail_at(1, "copy"):
        compact = made.carrier.project(made.tensor, choose(1)).wait()
        made.carrier.wait_idle()
    assert compact.size() == 6 and made.carrier.tile_state((1, 0, 0)).dirty
    made.carrier.release()


def test_a_request_that_fails_evicts_nothing(tiled):
    """Its residency stays as it was; what the policy wanted after it was for a request that had its values."""
    policy = tiled.Recorder()
    made = tiled.make(residency_policy=policy)
    made.carrier.promote(tiles(0, 1))
    policy.plans.append(plan(evict=[0, 1]))
    with fail_at(1, "copy"), pytest.raises(Fault):
        made.carrier.project(made.tensor, choose(1, 2)).wait()
    made.carrier.wait_idle()
    assert made.carrier.primary_tiles == tiles(0, 1)


@pytest.mark.spec("A93")
def test_a_plan_beyond_capacity(tiled):
    made = tiled.make(primary_capacity=2, residency_policy=tiled.Recorder(plan(promote=[0, 1], retain=[2])))
    with fail_at(1), pytest.raises(ValueError, match="primary_capacity"):
        made.carrier.project(made.tensor, choose(3))


def test_a_prefetcher_waits_for_its_own_handles_only(tiled):
    made = tiled.make(grid=(6, 1, 1))
    prefetcher = Prefetcher(made.carrier)
    with gated("copy") as gate:
        handle = prefetcher.promote(tiles(0, 1))
        again = prefetcher.promote(tiles(0, 1))
        assert again.done and not handle.done
        with pytest.raises(RuntimeError, match="wait"):
            made.carrier.project(made.tensor, choose(0))
        found = []
        thread = threading.Thread(
            target=lambda: found.append(prefetcher.project(made.tensor, choose(1, 5)).wait())
        )
        thread.start()
        thread.join(0.2)
        assert thread.is_alive()
        gate.open()
        thread.join(20)
    assert torch.equal(tiled.by_mode(found[0]), tiled.dense(made.tensor, made.values)[[1, 5]])
    stats = made.carrier.stats()
    assert stats.prefetched == 2 and stats.hits == 1 and stats.misses == 1
    made.carrier.evict(tiles(0, 1))
    assert made.carrier.stats().wasted_prefetch == 1
    prefetcher.wait()


def test_prefetching_elsewhere_does_not_delay_a_projection(tiled):
    made = tiled.make(grid=(6, 1, 1))
    made.carrier.promote(tiles(0))
    prefetcher = Prefetcher(made.carrier)
    with gated("copy") as gate:
        prefetcher.promote(tiles(3))
        assert gate.reached.wait(10)
        assert prefetcher.project(made.tensor, choose(0)).wait().size() == 6
        gate.open()
    made.carrier.wait_idle()


def test_a_bundle_promotes_as_one(tiled):
    members = [tiled.make(grid=(4, 1, 1)) for _ in range(3)]
    bundle = Bundle([m.carrier for m in members])
    for n in (1, 2, 3):
        with fail_at(n, "copy"), pytest.raises(Fault):
            bundle.promote(tiles(1))
        assert all(m.carrier.primary_tiles == tiles() for m in members)
    bundle.promote(choose(2, 1))
    assert all(m.carrier.primary_tiles == tiles(1, 2) for m in members)
    bundle.evict(tiles(1))
    assert all(m.carrier.primary_tiles == tiles(2) for m in members)


def test_bundles_share_one_budget(tiled):
    tile = 24
    budget = DeviceBudget(4 * tile)
    layers = [[tiled.make(grid=(4, 1, 1)) for _ in range(2)] for _ in range(2)]
    bundles = [Bundle([m.carrier for m in layer], budget=budget) for layer in layers]
    members = [m for layer in layers for m in layer]

    def resident():
        assert budget.used == tile * sum(len(m.carrier.primary_tiles) for m in members) <= budget.nbytes
        assert sum(m.carrier._core.primary.allocated() for m in members) * tile <= budget.nbytes
        return [m.carrier.primary_tiles for m in members]

    bundles[0].promote(tiles(0))
    bundles[1].promote(tiles(1))
    assert resident() == [tiles(0)] * 2 + [tiles(1)] * 2
    bundles[0].promote(tiles(2))
    assert resident() == [tiles(2)] * 2 + [tiles(1)] * 2, "the least recently used of all members made room"
    with pytest.raises(ValueError, match="budget"):
        bundles[0].promote(tiles(0, 1, 2))
    for member in members:
        compact = member.carrier.project(member.tensor, choose(3, 0)).wait()
        assert torch.equal(tiled.by_mode(compact), tiled.dense(member.tensor, member.values)[[3, 0]])
        resident()


@pytest.mark.parametrize("where", ["secondary", "none"])
def test_tiles_that_made_room_come_back_when_the_request_fails(tiled, where):
    """Oracle: everything visible of all members before, whichever provider call fails."""
    layers = [
        [tiled.make(grid=(4, 1, 1), tile=tile, where=where) for _ in range(2)]
        for tile in ((1, 3, 2), (1, 3, 4))
    ]
    budget = DeviceBudget(4 * 24)
    small, large = (Bundle([m.carrier for m in layer], budget=budget) for layer in layers)
    members = [m for layer in layers for m in layer]
    for member in members:
        whole = member.carrier.logical_shape
        for e in range(4):
            member.carrier.update(choose(e), sw.full((1, *whole[1:]), float(e + 1))).wait()
            member.carrier.wait_idle()
    small.promote(tiles(1, 3))
    # One tile is dirty.
    layers[0][0].carrier.update(choose(1), sw.full((1, 3, 2), 7.0)).wait()
    before = [tiled.snapshot(m.carrier) for m in members]
    used = budget.used

    def verify():
        for member in members:
            member.carrier.wait_idle()
        assert [tiled.snapshot(m.carrier)[:4] for m in members] == [b[:4] for b in before]
        assert budget.used == used

    count = sweep(lambda: large.promote(tiles(0)), verify, "copy", "submit")
    assert count >= 4
    assert all(m.carrier.primary_tiles == tiles(0) for m in layers[1])


def test_what_bundles_refuse(tiled):
    made = tiled.make()
    for bad in ([made.tensor], [3]):
        with pytest.raises(TypeError):
            Bundle(bad)
    for bad in ([], [made.carrier, made.carrier], [made.carrier, tiled.make(grid=(5, 1, 1)).carrier]):
        with pytest.raises(ValueError):
            Bundle(bad)
    with pytest.raises(ValueError, match="primary"):
        Bundle([tiled.make(where="primary").carrier], DeviceBudget(1000))
    Bundle([made.carrier])
    with pytest.raises(RuntimeError, match="already"):
        Bundle([made.carrier])
