"""Scatter, update and their gradients. Oracle: torch indexing of dense values."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import save_file

import strideweave as sw
from strideweave.carriers.tiled_evictable import TiledEvictable, TileSelection, TileSet, TileState
from strideweave.testing import gated, sweep

THREE = TileSelection([[3, 0, 2], [0], [0]])
DIRTY = TileState("primary", True, True)


def compact(seed=0, shape=(3, 3, 2), dtype=torch.float32):
    values = torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)
    return sw.from_torch(values), values


@pytest.mark.spec(
    "A73", "SCT.replace", "SCT.fresh", "SCT.inputs", "SCT.version", "SCT.unselected", "SCT.handle"
)
def test_replace(experts, tiled):
    piece, _ = compact()
    handle = experts.carrier.scatter(piece, experts.tensor, THREE)
    assert isinstance(handle, sw.AwaitMove)
    result = handle.wait()
    made = result.carrier
    assert type(made) is TiledEvictable and made is not experts.carrier
    assert (result.layout, result.dtype(), made.geometry) == (
        experts.tensor.layout,
        sw.Float32,
        experts.carrier.geometry,
    )
    assert (made.primary_class, made.secondary_class) == (sw.CPU, sw.CPU)
    assert [made.tile_state((e, 0, 0)) for e in range(4)] == [
        DIRTY,
        TileState("none", False, False),
        DIRTY,
        DIRTY,
    ]
    assert result.version == 1 and piece.version == 0 and experts.tensor.version == 0
    assert handle.wait() is result and not piece.carrier.is_released() and not experts.carrier.is_released()


@pytest.mark.spec("A74", "SCT.roundtrip", "SCT.replace")
@pytest.mark.parametrize("capacity", [None, 1, 2])
@pytest.mark.parametrize("dtype", [sw.Float32, sw.BFloat16, sw.Float8E5M2])
def test_projecting_what_was_scattered_gives_it_back(tiled, capacity, dtype):
    made = tiled.make(dtype=dtype, primary_capacity=capacity, layout=TiledEvictable.row_major_layout)
    piece, values = compact(1, dtype=dtype.torch())
    result = made.carrier.scatter(piece, made.tensor, THREE).wait()
    if capacity:
        assert len(result.carrier.primary_tiles) == capacity and result.carrier.primary_capacity == capacity
    back = result.carrier.project(result, THREE).wait()
    assert torch.equal(tiled.by_mode(back).view(torch.uint8), values.contiguous().view(torch.uint8))


@pytest.mark.spec("A75", "SCT.add", "SCT.reductions")
@pytest.mark.parametrize("capacity", [None, 1])
@pytest.mark.parametrize("how", ["position", "keyword"])
def test_add(tiled, capacity, how):
    made = tiled.make(primary_capacity=capacity)
    piece, values = compact(2)
    call = {
        "position": lambda: made.carrier.scatter(piece, made.tensor, THREE, "add"),
        "keyword": lambda: made.carrier.scatter(piece, made.tensor, THREE, reduction="add"),
    }[how]
    result = call().wait()
    back = result.carrier.project(result, THREE).wait()
    assert torch.equal(tiled.by_mode(back), tiled.dense(made.tensor, made.values)[[3, 0, 2]] + values)


@pytest.mark.spec("A75", "SCT.add", "RES.invalid")
def test_add_onto_nothing_and_onto_zero(tiled):
    piece, values = compact(3)
    empty = tiled.make(where="none")
    with pytest.raises(RuntimeError, match="no value"):
        empty.carrier.scatter(piece, empty.tensor, THREE, "add")
    made = tiled.make()
    sw.relu(made.carrier.project(made.tensor, TileSelection([[1], [0], [0]])).wait()).backward(
        sw.ones((1, 3, 2))
    )
    zeros = made.tensor.grad
    result = zeros.carrier.scatter(piece, zeros, THREE, "add").wait()
    assert torch.equal(tiled.by_mode(result.carrier.project(result, THREE).wait()), values)
    assert result.carrier.tile_state((1, 0, 0)) == TileState("none", True, False), "a gradient's rest is zero"


def test_integer_sums_are_checked_before_anything_is_seen(tiled):
    made = tiled.make(dtype=sw.Int32)
    big = sw.full((3, 3, 2), 2**31 - 1, dtype=sw.Int32)
    with pytest.raises(OverflowError):
        made.carrier.scatter(big, made.tensor, THREE, "add").wait()
    with pytest.raises(OverflowError):
        made.carrier.update(THREE, big, "add").wait()
    assert made.carrier.version == 0 and [made.carrier.get_value(i) for i in range(24)] == list(range(1, 25))


@pytest.mark.spec("A76", "SCT.reductions")
@pytest.mark.parametrize("reduction", ["max", "", None, 1])
def test_other_reductions(experts, reduction):
    with pytest.raises(ValueError, match="reduction"):
        experts.carrier.scatter(compact()[0], experts.tensor, THREE, reduction)
    eight = TiledEvictable(
        sw.CPU(0, dtype=sw.Float8E4M3), sw.CPU(24, dtype=sw.Float8E4M3), (4, 1, 1), (1, 3, 2)
    )
    with pytest.raises(TypeError, match="Float8E4M3"):
        eight.scatter(
            sw.from_torch(torch.zeros(3, 3, 2).to(torch.float8_e4m3fn)), eight.full_tensor(), THREE, "add"
        )


@pytest.mark.spec("A77", "SCT.types", "SCT.values", "SCT.released", "SCT.validation")
def test_arguments(experts, tiled):
    carrier, tensor = experts.carrier, experts.tensor
    piece, _ = compact()
    before = tiled.snapshot(carrier)
    evictable = sw.Tensor(sw.Evictable(sw.CPU(18), sw.CPU(0)), 0, sw.Layout((3, 3, 2)))
    generic = sw.Tensor(sw.Generic([0.0] * 18), 0, sw.Layout((3, 3, 2)))
    for bad in (None, 3, evictable, generic, tensor, sw.zeros((3, 3, 2), dtype=sw.Int32)):
        with pytest.raises(TypeError, match="scatter"):
            carrier.scatter(bad, tensor, THREE)
    for bad in (None, piece, tiled.make().tensor):
        with pytest.raises(TypeError, match="template"):
            carrier.scatter(piece, bad, THREE)
    for bad in (None, [[0], [0], [0]], TileSet([(0, 0, 0)])):
        with pytest.raises(TypeError, match="TileSelection"):
            carrier.scatter(piece, tensor, bad)
    for shape in ((2, 3, 2), (3, 2, 3), (18,), (3, 6)):
        with pytest.raises(ValueError, match="compact"):
            carrier.scatter(sw.zeros(shape), tensor, THREE)
    for bad in (TileSelection([[0], [0]]), TileSelection([[4, 1, 2], [0], [0]])):
        with pytest.raises(ValueError):
            carrier.scatter(piece, tensor, bad)
    gone = sw.ones((3, 3, 2))
    gone.carrier.release()
    with pytest.raises(RuntimeError, match="released"):
        carrier.scatter(gone, tensor, THREE)
    assert tiled.snapshot(carrier) == before


def test_shapes_are_compared_by_mode_size_and_never_by_form(experts, tiled):
    values = torch.arange(18.0)
    nested = sw.Tensor(sw.from_torch(values).carrier, 0, sw.Layout(((3, 1), 3, (2,))))
    result = experts.carrier.scatter(nested, experts.tensor, THREE).wait()
    back = result.carrier.project(result, THREE).wait()
    assert back.tolist() == values.tolist()


@pytest.mark.spec("A78", "SCT.failure", "LIFE.before", "LIFE.failure")
@pytest.mark.parametrize("reduction", ["replace", "add"])
@pytest.mark.parametrize("capacity", [None, 1])
def test_a_failure_of_any_provider_call_publishes_nothing(tiled, reduction, capacity):
    made = tiled.make(primary_capacity=capacity)
    piece, _ = compact()
    before = tiled.snapshot(made.carrier)

    def verify():
        made.carrier.wait_idle()
        assert tiled.snapshot(made.carrier)[:3] == before[:3]
        assert piece.carrier.is_mutable() and not any(r.needed() for r in made.carrier._core.table.touched())
        piece.carrier.hold_for_write("a probe")
        piece.carrier.drop_write(False)

    assert sweep(lambda: made.carrier.scatter(piece, made.tensor, THREE, reduction).wait(), verify) >= 2


def test_inputs_are_kept_while_a_scatter_is_pending(tiled):
    made = tiled.make()
    piece, _ = compact()
    with gated("kernel") as gate:
        handle = made.carrier.scatter(piece, made.tensor, THREE)
        for action in (
            lambda: piece.carrier.set_value(0, 1.0),
            piece.carrier.release,
            lambda: made.carrier.set_value(0, 1.0),
            made.carrier.release,
        ):
            with pytest.raises(RuntimeError):
                action()
        gate.open()
        handle.wait()


@pytest.mark.spec("A79", "SCG.replace", "SCG.node", "SCG.compact")
def test_the_gradient_of_replace(experts, tiled):
    piece, _ = compact()
    result = experts.carrier.scatter(piece, experts.tensor, THREE).wait()
    assert result.autograd_ctx.inputs() == (piece, experts.tensor)
    back = result.carrier.project(result, THREE).wait()
    weight, values = compact(5)
    sw.mul(back, weight).backward(sw.ones((3, 3, 2)))
    assert torch.equal(sw.to_torch(piece.grad), values)
    assert experts.tensor.grad is None


@pytest.mark.spec("A79", "SCG.add")
def test_the_gradient_of_add_reaches_both(experts, tiled):
    piece, _ = compact()
    result = experts.carrier.scatter(piece, experts.tensor, THREE, "add").wait()
    part = TileSelection([[0, 3], [0], [0]])
    weight, values = compact(6, (2, 3, 2))
    sw.mul(result.carrier.project(result, part).wait(), weight).backward(sw.ones((2, 3, 2)))
    expected = torch.zeros(4, 3, 2)
    expected[[0, 3]] = values
    assert torch.equal(sw.to_torch(piece.grad), expected[[3, 0, 2]])
    assert torch.equal(tiled.by_mode(_whole(experts.tensor.grad)), expected)


def _whole(tensor):
    return tensor.carrier.project(tensor, TileSelection([range(n) for n in tensor.carrier.grid_shape])).wait()


@pytest.mark.spec("SCG.node")
def test_no_node_without_grad_mode(experts):
    with sw.no_grad():
        result = experts.carrier.scatter(compact()[0], experts.tensor, THREE).wait()
    assert result.autograd_ctx is None and not result.is_differentiable()


def test_update_writes_in_place_once(tiled):
    made = tiled.make(primary_capacity=3)
    piece, values = compact()
    full = tiled.dense(made.tensor, made.values)
    result = made.carrier.update(THREE, piece).wait()
    assert result.carrier is made.carrier and result.autograd_ctx is None and made.carrier.version == 1
    full[[3, 0, 2]] = values
    assert torch.equal(tiled.by_mode(_whole(made.tensor)), full)
    made.carrier.update(THREE, piece, reduction="add").wait()
    full[[3, 0, 2]] += values
    assert torch.equal(tiled.by_mode(_whole(made.tensor)), full) and made.carrier.version == 2
    assert made.carrier.dirty_tiles == THREE.tile_set


@pytest.mark.parametrize("source", ["from_torch", "copied", "safetensors", "scatter", "gradient"])
def test_an_update_goes_where_the_tensor_that_was_handed_out_has_it(source, tmp_path):
    """Oracle: torch indexing, last axis fastest, of what was handed out before."""
    values = torch.randn(4, 3, 2, generator=torch.Generator().manual_seed(3))
    tensor = _handed_out(source, values, tmp_path)
    piece, update = compact(5)
    with sw.no_grad():
        result = tensor.carrier.update(THREE, piece).wait()
        found = tensor.carrier.project(tensor, THREE).wait()
    assert torch.equal(sw.to_torch(found), update)
    assert result.layout == tensor.layout == tensor.carrier.full_tensor().layout


def _handed_out(source: str, values: torch.Tensor, folder) -> sw.Tensor:
    experts = TiledEvictable.from_torch(values, (1, 3, 2), copy=source == "copied" or None)
    if source == "safetensors":
        save_file({"w": values}, folder / "experts.safetensors")
        return TiledEvictable.from_safetensors(folder / "experts.safetensors", "w", (1, 3, 2))
    if source == "scatter":
        return experts.carrier.scatter(compact()[0], experts, THREE).wait()
    if source == "gradient":
        sw.reduce_sum(experts.carrier.project(experts, THREE).wait(), "a b c -> a b").backward(
            sw.ones((3, 3))
        )
        return experts.grad
    return experts


@pytest.mark.parametrize("reduction", ["replace", "add"])
def test_a_failed_update_changes_nothing(tiled, reduction):
    made = tiled.make(primary_capacity=3)
    piece, _ = compact()
    made.carrier.promote(TileSet([(1, 0, 0), (0, 0, 0)]))
    before = tiled.snapshot(made.carrier)

    def verify():
        made.carrier.wait_idle()
        assert tiled.snapshot(made.carrier)[:4] == before[:4]

    assert sweep(lambda: made.carrier.update(THREE, piece, reduction).wait(), verify) >= 2
    assert made.carrier.version == 1


def test_update_beyond_capacity_and_of_needed_tiles(tiled):
    made = tiled.make(primary_capacity=2)
    with pytest.raises(ValueError, match="primary_capacity"):
        made.carrier.update(THREE, compact()[0])
    with made.carrier.hold(TileSet([(0, 0, 0)])), pytest.raises(RuntimeError, match="hold"):
        made.carrier.update(TileSelection([[0], [0], [0]]), sw.ones((1, 3, 2)))


def test_update_refuses_values_that_lie_in_its_own_tiles(tiled):
    # One tile would be overwritten before it is read: every tile as it was is the oracle.
    made = tiled.make(primary_capacity=4)
    everything = TileSelection([[0, 1, 2, 3], [0], [0]])
    with made.carrier.hold(everything) as held:
        pool, _ = held.slots
        before = pool.clone()
    own = sw.from_torch(pool[:2].reshape(2, 3, 2))
    with pytest.raises(RuntimeError, match="shares storage with a tier"):
        made.carrier.update(TileSelection([[1, 0], [0], [0]]), own)
    assert torch.equal(pool, before) and made.carrier.version == 0
