"""What is refused inside a policy, and what a policy's own failure leaves behind. Oracle: everything visible before."""

from __future__ import annotations

import pytest

import strideweave as sw
from strideweave.carriers.tiled_evictable import Bundle, Prefetcher, TileSelection, TileSet
from strideweave.testing import fail_at

ONE, SET = TileSelection([[1], [0], [0]]), TileSet([(0, 0, 0)])


@pytest.mark.spec("A87")
def test_nothing_is_asked_of_a_carrier_from_inside_its_policy(tiled):
    """Requests, transitions and writes, through every door; each is refused by name and the request goes on."""
    refused = []

    class Reentrant:
        def plan(self, required, purpose):
            ones = sw.ones((1, 3, 2))
            for call in (
                lambda: made.carrier.project(made.tensor, ONE),
                lambda: made.carrier.scatter(ones, made.tensor, ONE),
                lambda: made.carrier.update(ONE, ones),
                lambda: made.carrier.set_value(0, 9.0),
                lambda: made.carrier.hold(SET),
                *(lambda name=name: getattr(made.carrier, name)(SET) for name in TRANSITIONS),
                lambda: prefetcher.promote(SET),
                lambda: prefetcher.project(made.tensor, ONE),
                lambda: bundle.promote(SET),
                lambda: bundle.evict(SET),
                lambda: sw.add(made.tensor, made.tensor),
                lambda: earlier.backward(ones),
                lambda: direct.backward(sw.ones((4, 3, 2))),
            ):
                with pytest.raises(RuntimeError, match="inside this carrier's own residency policy"):
                    call()
                refused.append(purpose)
            return sw.ResidencyPlan()

    TRANSITIONS = ("promote", "evict", "promote_async", "evict_async")
    policy = tiled.Recorder()
    made = tiled.make(residency_policy=policy)
    prefetcher, bundle = Prefetcher(made.carrier), Bundle([made.carrier])
    earlier, direct = made.carrier.project(made.tensor, ONE).wait(), sw.add(made.tensor, made.tensor)
    policy.plan = Reentrant().plan
    before = tiled.snapshot(made.carrier)[:2]
    compact = made.carrier.project(made.tensor, ONE).wait()
    assert refused == ["projection"] * 16 and tiled.snapshot(made.carrier)[:2] == before
    assert compact.carrier.get_value(0) == 7.0 and made.tensor.grad is None


@pytest.mark.spec("A84", "POL.result", "POL.raises")
@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (lambda: None, TypeError),
        (lambda: sw.ResidencyPlan(promote=TileSet([(9, 0, 0)])), ValueError),
        (OSError("the policy's own"), OSError),
    ],
)
@pytest.mark.parametrize("node", ["project", "scatter", "direct"])
def test_a_bad_plan_for_a_backward_writes_no_gradient_and_keeps_the_graph(tiled, node, answer, kind):
    policy = tiled.Recorder()
    made = tiled.make(residency_policy=policy)
    piece = sw.ones((1, 3, 2))
    root = {
        "project": lambda: made.carrier.project(made.tensor, ONE).wait(),
        "scatter": lambda: made.carrier.scatter(piece, made.tensor, ONE, "add").wait(),
        "direct": lambda: sw.relu(made.tensor),
    }[node]()
    gradient = sw.Tensor(sw.CPU(root.size()).new_like([1.0] * root.size()), 0, sw.Layout(root.shape))
    before = tiled.snapshot(made.carrier)
    policy.plans.append(answer)
    with pytest.raises(kind):
        root.backward(gradient)
    assert tiled.snapshot(made.carrier) == before and made.tensor.grad is None and piece.grad is None
    if node != "scatter":
        # A scatter's backward projects the incoming gradient before it asks about the template.
        policy.plans.append(answer)
        with fail_at(1) as counter, pytest.raises(kind):
            root.backward(gradient)
        assert counter.calls == 0
    root.backward(gradient)
    assert made.tensor.grad.carrier.get_value(6) == 1.0
