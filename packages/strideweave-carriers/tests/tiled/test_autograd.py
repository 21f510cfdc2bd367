"""Gradients of projections, their sums and their place. Oracle: torch autograd on the dense values."""

from __future__ import annotations

import threading

import pytest
import torch

import strideweave as sw
from strideweave.carriers.tiled_evictable import TiledEvictable, TileSelection, TileSet, TileState
from strideweave.testing import Fault, fail_at, gated, sweep

ZERO = TileState("none", True, False)


def choose(*experts):
    return TileSelection([experts, [0], [0]])


def whole(tensor):
    return tensor.carrier.project(tensor, TileSelection([range(n) for n in tensor.carrier.grid_shape])).wait()


def weigh(compact, factor):
    sw.mul(compact, factor).backward(sw.ones(compact.shape))


@pytest.mark.spec("A46", "GRD.node", "GRD.handle_no_node")
def test_exactly_one_gather_node(experts):
    compact = experts.carrier.project(experts.tensor, choose(1, 0)).wait()
    assert compact.autograd_ctx.inputs() == (experts.tensor,) and experts.tensor.autograd_ctx is None
    with sw.no_grad():
        assert experts.carrier.project(experts.tensor, choose(1)).wait().autograd_ctx is None
    ints = sw.carriers.tiled_evictable.TiledEvictable(
        sw.CPU(0, dtype=sw.Int32), sw.CPU(4, dtype=sw.Int32), (2,), (2,)
    )
    assert ints.project(ints.full_tensor(), TileSelection([[0]])).wait().autograd_ctx is None


@pytest.mark.spec("A46")
def test_grad_mode_is_the_callers(experts):
    with gated("copy") as gate:
        with sw.no_grad():
            handle = experts.carrier.project(experts.tensor, choose(1))
        found = []
        thread = threading.Thread(target=lambda: found.append(handle.wait()))
        thread.start()
        gate.open()
        thread.join()
    assert found[0].autograd_ctx is None and not found[0].is_differentiable()


@pytest.mark.spec("A47", "GRD.scatter_add", "GRD.captures")
@pytest.mark.parametrize("layout", [TiledEvictable.canonical_layout, TiledEvictable.row_major_layout])
def test_backward_through_an_operation(tiled, layout):
    made = tiled.make(layout=layout)
    compact = made.carrier.project(made.tensor, choose(2, 0)).wait()
    weight = torch.randn(2, 3, 2)
    sw.relu(sw.mul(compact, sw.from_torch(weight))).backward(sw.ones((2, 3, 2)))
    full = tiled.dense(made.tensor, made.values).requires_grad_()
    torch.relu(full[[2, 0]] * weight).sum().backward()
    gradient = made.tensor.grad
    assert type(gradient.carrier) is TiledEvictable and gradient.carrier is not made.carrier
    assert gradient.layout == made.tensor.layout and gradient.carrier.geometry == made.carrier.geometry
    assert (gradient.carrier.primary_class, gradient.carrier.secondary_class) == (sw.CPU, sw.CPU)
    assert torch.equal(tiled.by_mode(whole(gradient)), full.grad)


@pytest.mark.spec("A48", "C32", "GRD.overlap", "GRD.zero")
@pytest.mark.parametrize("capacity", [None, 1])
def test_overlapping_projections_sum(tiled, capacity):
    made = tiled.make(primary_capacity=capacity)
    first = made.carrier.project(made.tensor, choose(0, 1)).wait()
    second = made.carrier.project(made.tensor, choose(1, 2)).wait()
    weigh(first, 1)
    weigh(second, 10)
    carrier = made.tensor.grad.carrier
    assert [carrier.get_value(6 * e) for e in range(4)] == [1.0, 11.0, 10.0, 0.0]
    assert carrier.tile_state((3, 0, 0)) == ZERO
    core = carrier._core
    assert core.primary.allocated() + core.secondary.allocated() <= 3 + (capacity is not None)
    if capacity:
        assert len(carrier.primary_tiles) == 1 and carrier.stats().peak_resident_tiles == 1


@pytest.mark.spec("A48", "GRD.overlap")
def test_overlaps_within_one_graph_sum(experts, tiled):
    first = experts.carrier.project(experts.tensor, choose(0, 1)).wait()
    second = experts.carrier.project(experts.tensor, choose(1, 2)).wait()
    sw.add(sw.mul(first, 1), sw.mul(second, 10)).backward(sw.ones((2, 3, 2)))
    assert [experts.tensor.grad.carrier.get_value(6 * e) for e in range(4)] == [1.0, 11.0, 10.0, 0.0]


@pytest.mark.spec("A49", "GRD.captures")
def test_a_later_write_forbids_backward(experts):
    compact = experts.carrier.project(experts.tensor, choose(0)).wait()
    experts.carrier.set_value(23, 1.0)
    with pytest.raises(RuntimeError, match="version 0 then, 1 now"):
        weigh(compact, 1)
    assert experts.tensor.grad is None


@pytest.mark.spec("A50", "POL.none")
def test_residency_between_does_not_matter(experts):
    compact = experts.carrier.project(experts.tensor, choose(0, 3)).wait()
    experts.carrier.evict(TileSet([(0, 0, 0), (3, 0, 0)]))
    experts.carrier.promote(TileSet([(1, 0, 0)]))
    weigh(compact, 3)
    assert [experts.tensor.grad.carrier.get_value(6 * e) for e in range(4)] == [3.0, 0.0, 0.0, 3.0]


@pytest.mark.spec("A51")
def test_a_second_backward(experts):
    compact = experts.carrier.project(experts.tensor, choose(0)).wait()
    root = sw.mul(compact, 2)
    root.backward(sw.ones((1, 3, 2)), retain_graph=True)
    root.backward(sw.ones((1, 3, 2)))
    assert experts.tensor.grad.carrier.get_value(0) == 4.0
    with pytest.raises(RuntimeError, match="retain_graph"):
        root.backward(sw.ones((1, 3, 2)))


@pytest.mark.spec("A52")
def test_no_graph_of_gradients(experts):
    compact = experts.carrier.project(experts.tensor, choose(0)).wait()
    with pytest.raises(TypeError, match="create_graph"):
        compact.backward(sw.ones((1, 3, 2)), create_graph=True)
    weigh(compact, 1)
    assert experts.tensor.grad.autograd_ctx is None and not experts.tensor.grad.is_differentiable()


@pytest.mark.spec("A105")
@pytest.mark.parametrize("tiled_first", [True, False])
def test_tiled_and_dense_contributions_sum(tiled, tiled_first):
    made = tiled.make(layout=TiledEvictable.row_major_layout)
    weight = torch.randn(4, 3, 2)

    def sparse():
        weigh(made.carrier.project(made.tensor, choose(1)).wait(), 5)

    def full():
        sw.mul(made.tensor, sw.from_torch(weight)).backward(sw.ones((4, 3, 2)))

    for action in (sparse, full) if tiled_first else (full, sparse):
        action()
    expected = weight.clone()
    expected[1] += 5
    gradient = made.tensor.grad
    assert gradient.layout == made.tensor.layout and type(gradient.carrier) is TiledEvictable
    assert torch.allclose(tiled.by_mode(whole(gradient)), expected)


def test_gradients_with_another_layout_are_laid_out_anew(tiled):
    made = tiled.make(grid=(2, 2), tile=(3, 2))
    other = tiled.make(grid=(2, 2), tile=(3, 2), layout=TiledEvictable.row_major_layout)
    view = sw.Tensor(made.carrier, 0, made.carrier.row_major_layout())
    compact = made.carrier.project(view, TileSelection([[1], [0, 1]])).wait()
    weight = torch.randn(3, 4)
    sw.mul(compact, sw.from_torch(weight)).backward(sw.ones((3, 4)))
    wanted = torch.zeros(6, 4)
    wanted[3:] = weight
    assert torch.equal(tiled.by_mode(whole(view.grad)), wanted)
    from strideweave.carriers.tiled_evictable.gradients import relaid

    moved = relaid(made.carrier, made.tensor.layout, view.grad)
    assert moved.layout == made.tensor.layout and torch.equal(tiled.by_mode(whole(moved)), wanted)
    assert other.tensor.layout == view.layout


def test_eight_bit_gradients_move_but_do_not_add(tiled):
    made = tiled.make(dtype=sw.Float8E5M2)
    ones = sw.from_torch(torch.ones(2, 3, 2).to(torch.float8_e5m2))
    made.carrier.project(made.tensor, choose(0, 1)).wait().backward(ones)
    first = made.tensor.grad
    assert first.dtype() is sw.Float8E5M2 and first.carrier.get_value(6) == 1.0
    with pytest.raises(TypeError, match=r"Float8E5M2.*no arithmetic"):
        made.carrier.project(made.tensor, choose(1, 2)).wait().backward(ones)
    assert made.tensor.grad is first
    made.carrier.project(made.tensor, choose(2, 3)).wait().backward(ones)
    assert [made.tensor.grad.carrier.get_value(6 * e) for e in range(4)] == [1.0] * 4


@pytest.mark.spec("LIFE.failure")
def test_a_failing_backward_writes_no_gradient(tiled):
    made = tiled.make(primary_capacity=2)
    compact = made.carrier.project(made.tensor, choose(0, 1, 2)).wait()
    root = sw.mul(compact, 2)
    ones = sw.ones((3, 3, 2))

    def attempt():
        root.backward(ones, retain_graph=True)

    def verify():
        assert made.tensor.grad is None
        made.carrier.wait_idle()

    assert sweep(attempt, verify) >= 2
    assert made.tensor.grad.carrier.get_value(0) == 2.0


def test_a_failing_sum_keeps_the_old_gradient(experts):
    for _ in range(2):
        weigh(experts.carrier.project(experts.tensor, choose(0)).wait(), 1)
    compact = experts.carrier.project(experts.tensor, choose(0)).wait()
    before, failures = experts.tensor.grad, 0
    for n in range(1, 30):
        with fail_at(n) as counter:
            try:
                weigh(compact, 1)
            except Fault:
                failures += 1
        if not counter.fired:
            break
        assert experts.tensor.grad is before
        compact = experts.carrier.project(experts.tensor, choose(0)).wait()
    assert failures >= 3 and experts.tensor.grad.carrier.get_value(0) == 3.0
