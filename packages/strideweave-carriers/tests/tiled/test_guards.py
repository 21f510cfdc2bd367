"""What work keeps from happening while it needs a value, and what a plan may not do. Oracle: values and places."""

from __future__ import annotations

import threading
import time

import pytest
import torch
from expert_tiles import BOTH, choose, tiles

import strideweave as sw
from strideweave.testing import fail_at, gated


def plan(**fields):
    return sw.ResidencyPlan(**{name: tiles(*experts) for name, experts in fields.items()})


def within(seconds, condition):
    """Whether ``condition`` comes to hold in that time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.001)
    return True


@pytest.mark.spec("A99", "POL.deferred")
def test_a_policys_eviction_that_was_written_back_keeps_the_tile_while_it_is_needed(tiled):
    made = tiled.make(where="primary", residency_policy=tiled.Recorder(plan(evict=[1])))
    with gated("copy") as gate:
        made.carrier.project(made.tensor, choose(1)).wait()
        assert gate.reached.wait(10)
        with made.carrier.hold(tiles(1)) as held:
            pool, rows = held.slots
            gate.open()
            # The write-back ends, and with it nothing but the tile's dirtiness.
            assert within(10, lambda: made.carrier.tile_state((1, 0, 0)) == BOTH)
            assert not within(0.05, lambda: made.carrier.tile_state((1, 0, 0)) != BOTH)
            assert torch.equal(pool[list(rows)], made.values.view(4, 6)[[1]])
        made.carrier.wait_idle()
    assert made.carrier.tile_state((1, 0, 0)).location == "secondary"


@pytest.mark.spec("POL.retain", "POL.promote")
@pytest.mark.parametrize("keep", [0, 1])
def test_what_a_plan_promotes_takes_no_place_of_what_it_retains(tiled, keep):
    """Both places hold required tiles; the one that is not retained gives way and is read past primary."""
    policy = tiled.Recorder()
    made = tiled.make(primary_capacity=2, residency_policy=policy)
    made.carrier.promote(tiles(0, 1))
    policy.plans.append(plan(promote=[2], retain=[keep]))
    compact = made.carrier.project(made.tensor, choose(1, 0)).wait()
    assert torch.equal(tiled.by_mode(compact), tiled.dense(made.tensor, made.values)[[1, 0]])
    assert made.carrier.primary_tiles == tiles(keep, 2)


@pytest.mark.spec("POL.promote", "RES.invalid")
@pytest.mark.parametrize("request_of", ["project", "scatter", "backward"])
def test_a_plan_that_promotes_a_tile_without_a_value_is_refused_before_work(tiled, request_of):
    policy = tiled.Recorder()
    made = tiled.make(where="none", residency_policy=policy)
    made.carrier.update(choose(1), sw.ones((1, 3, 2))).wait()
    compact, piece = made.carrier.project(made.tensor, choose(1)).wait(), sw.ones((1, 3, 2))
    call = {
        "project": lambda: made.carrier.project(made.tensor, choose(1)),
        "scatter": lambda: made.carrier.scatter(piece, made.tensor, choose(1)),
        "backward": lambda: compact.backward(piece),
    }[request_of]
    before = tiled.snapshot(made.carrier)
    policy.plans.append(plan(promote=[2]))
    with fail_at(1) as counter, pytest.raises(RuntimeError, match=r"\(2, 0, 0\) has no value"):
        call()
    assert counter.calls == 0 and tiled.snapshot(made.carrier) == before and made.tensor.grad is None


@pytest.mark.parametrize("name", ["relu", "mul", "matmul"])
def test_a_later_write_forbids_the_backward_of_a_direct_operation(tiled, name):
    made = tiled.make((2, 2), (2, 2))
    other = sw.Tensor(sw.CPU(16), 0, sw.Layout(made.tensor.shape))
    root = {
        "relu": lambda: sw.relu(made.tensor),
        "mul": lambda: sw.mul(other, made.tensor),
        "matmul": lambda: sw.matmul(made.tensor, other),
    }[name]()
    gradient = sw.Tensor(sw.CPU(16), 0, sw.Layout(root.shape))
    root.backward(gradient, retain_graph=True)
    first = made.tensor.grad
    made.carrier.set_value(3, made.carrier.get_value(3))
    with pytest.raises(RuntimeError, match="version 0 then, 1 now"):
        root.backward(gradient)
    assert made.tensor.grad is first


def test_a_value_that_an_update_writes_is_not_read_meanwhile(tiled):
    made = tiled.make()
    with gated("kernel") as gate:
        handle = made.carrier.update(choose(1), sw.ones((1, 3, 2)))
        assert gate.reached.wait(10)
        with pytest.raises(RuntimeError, match=r"incomplete update.*wait\(\)"):
            made.carrier.get_value(6)
        assert made.carrier.get_value(0) == 1.0
        gate.open()
        handle.wait()
    assert made.carrier.get_value(6) == 1.0


def test_the_ordinary_operand_of_a_direct_operation_stays_while_it_runs(tiled):
    made = tiled.make((2, 2), (2, 2))
    other = sw.Tensor(sw.CPU(16), 0, sw.Layout(made.tensor.shape))
    found = []
    with gated("copy") as gate:
        thread = threading.Thread(target=lambda: found.append(sw.add(made.tensor, other)))
        thread.start()
        assert gate.reached.wait(10)
        for act in (lambda: other.carrier.set_value(0, 5.0), other.carrier.release, made.carrier.release):
            with pytest.raises(RuntimeError, match="wait"):
                act()
        gate.open()
        thread.join(20)
    assert torch.equal(tiled.by_mode(found[0]), tiled.dense(made.tensor, made.values))
    other.carrier.set_value(0, 5.0)
