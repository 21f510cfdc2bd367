"""Projection. Oracle: torch indexing of the full values, found by walking the Layout coordinate by coordinate."""

from __future__ import annotations

import gc
import threading

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import strideweave as sw
from strideweave.carriers.tiled_evictable import AwaitProjection, TiledEvictable, TileSelection, TileSet
from strideweave.testing import Fault, fail_at, gated, sweep

ALL = TileSelection([[0, 1, 2, 3], [0], [0]])
SOME = TileSelection([[3, 0, 2], [0], [0]])


@pytest.mark.spec("A33", "C29", "PRJ.result", "GATH.order", "GATH.layout")
@pytest.mark.parametrize("order", ["canonical", "tile"])
@pytest.mark.parametrize("layout", [TiledEvictable.canonical_layout, TiledEvictable.row_major_layout])
def test_three_experts_in_router_order(tiled, layout, order):
    made = tiled.make(grid=(20, 1, 1), layout=layout)
    selection = TileSelection([[7, 2, 19], [0], [0]])
    compact = made.carrier.project(made.tensor, selection, order=order).wait()
    full = tiled.dense(made.tensor, made.values)
    assert torch.equal(tiled.by_mode(compact), full[[7, 2, 19]])
    assert type(compact.carrier) is sw.CPU and compact.offset == 0
    if order == "canonical":
        assert compact.layout == sw.Layout((3, 3, 2))


@pytest.mark.spec("A9", "A33", "PRJ.result", "GATH.layout", "GATH.dtype")
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_grid_layout_type_and_selection(tiled, data):
    rank = data.draw(st.integers(1, 3))
    grid = data.draw(st.lists(st.integers(1, 3), min_size=rank, max_size=rank))
    tile = data.draw(st.lists(st.integers(1, 4), min_size=rank, max_size=rank))
    dtype = data.draw(st.sampled_from([sw.Float32, sw.BFloat16, sw.Int64, sw.UInt8, sw.Float8E4M3, sw.Bool]))
    layout = data.draw(st.sampled_from([TiledEvictable.canonical_layout, TiledEvictable.row_major_layout]))
    where = data.draw(st.sampled_from(["primary", "secondary"]))
    count = torch.tensor(grid).prod().item()
    capacity = count if where == "primary" else data.draw(st.integers(1, count))
    made = tiled.make(grid, tile, where, dtype, layout, primary_capacity=capacity)
    selection = TileSelection(
        [data.draw(st.lists(st.integers(0, g - 1), min_size=1, unique=True)) for g in grid]
    )
    order = data.draw(st.sampled_from(["canonical", "tile"]))
    compact = made.carrier.project(made.tensor, selection, order=order).wait()
    full = tiled.dense(made.tensor, made.values.view(torch.uint8) if dtype.itemsize == 1 else made.values)
    found = tiled.by_mode(compact)
    found = found.view(torch.uint8) if dtype.itemsize == 1 else found
    assert torch.equal(found, tiled.pick(full, selection, tile))
    assert len(made.carrier.primary_tiles) <= capacity


@pytest.mark.spec("A31", "C31", "PRJ.eager", "PRJ.no_wait", "PRJ.handle")
def test_the_handle_returns_before_the_transfer(experts, tiled):
    with gated("copy") as gate:
        handle = experts.carrier.project(experts.tensor, SOME)
        assert isinstance(handle, AwaitProjection) and isinstance(handle, sw.AwaitResult)
        assert gate.reached.wait(10) and not handle.done
        assert sw.ones(3).tolist() == [1.0] * 3
        gate.open()
        compact = handle.wait()
    assert torch.equal(tiled.by_mode(compact), tiled.dense(experts.tensor, experts.values)[[3, 0, 2]])
    assert handle.done


@pytest.mark.spec("A32", "PRJ.repeat")
def test_waits_from_everywhere_give_one_tensor(experts):
    handle = experts.carrier.project(experts.tensor, SOME)
    found = []
    threads = [threading.Thread(target=lambda: found.append(handle.wait())) for _ in range(8)]
    [t.start() for t in threads]
    found += [handle.wait() for _ in range(3)]
    [t.join() for t in threads]
    assert len(found) == 11 and len({id(f) for f in found}) == 1


@pytest.mark.spec("A34", "PRJ.types")
def test_arguments_of_another_kind(experts, tiled):
    other = tiled.make()
    for tensor in (None, 3, sw.ones((4, 3, 2)), other.tensor, experts.carrier.project(experts.tensor, SOME)):
        with pytest.raises(TypeError, match="project"):
            experts.carrier.project(tensor, SOME)
    for selection in ([[0], [0], [0]], None, TileSet([(0, 0, 0)])):
        with pytest.raises(TypeError, match="TileSelection"):
            experts.carrier.project(experts.tensor, selection)


@pytest.mark.spec("A30", "PRJ.values", "SEL.bind", "GATH.validate")
@pytest.mark.parametrize("per_axis", [[[0], [0]], [[4], [0], [0]], [[0], [0], [1]]])
def test_a_selection_that_does_not_fit_moves_nothing(experts, tiled, per_axis):
    before = tiled.snapshot(experts.carrier)
    with fail_at(1), pytest.raises(ValueError, match="project"):
        experts.carrier.project(experts.tensor, TileSelection(per_axis))
    assert tiled.snapshot(experts.carrier) == before
    with pytest.raises(ValueError, match="order"):
        experts.carrier.project(experts.tensor, SOME, order="column")


@pytest.mark.spec("A35", "PRJ.released")
def test_a_released_carrier_is_refused(experts):
    experts.carrier.release()
    with pytest.raises(RuntimeError, match="released"):
        experts.carrier.project(experts.tensor, SOME)


@pytest.mark.spec("A20", "FIT.entry", "FIT.reject")
@pytest.mark.parametrize(
    "layout",
    [
        sw.Layout((4, 3, 2)),
        sw.Layout((4, 3, 2), (6, 0, 3)),
        sw.Layout((2, 3, 2), (6, 1, 3)),
        sw.Layout((4, 3, 2), (6, 1, 1)),
    ],
)
def test_every_entry_point_refuses_a_tensor_that_does_not_fit(experts, tiled, layout):
    carrier = experts.carrier
    tensor = sw.Tensor(carrier, 0, layout)
    before = tiled.snapshot(carrier)
    compact = sw.ones((3, 3, 2))
    with fail_at(1) as counter:
        for entry in (
            lambda: carrier.project(tensor, SOME),
            lambda: carrier.scatter(compact, tensor, SOME),
            lambda: sw.relu(tensor),
            lambda: sw.add(tensor, tensor),
            lambda: sw.mul(tensor, 2),
            lambda: sw.elementwise_mul(tensor, tensor),
            lambda: sw.reduce_sum(tensor, "a b c -> a b"),
        ):
            with pytest.raises(ValueError):
                entry()
    assert counter.calls == 0
    assert tiled.snapshot(carrier) == before


@pytest.mark.spec("A14", "A20", "FIT.entry")
def test_an_offset_and_a_bad_gradient_are_refused(tiled):
    made = tiled.make(grid=(2, 1), tile=(1, 2))
    shifted = sw.Tensor(made.carrier, 1, sw.Layout((1, 2), (0, 1)))
    with pytest.raises(ValueError):
        made.carrier.project(shifted, TileSelection([[0], [0]]))
    matrix = tiled.make(grid=(1, 2), tile=(2, 1))
    with pytest.raises(ValueError):
        sw.matmul(sw.Tensor(matrix.carrier, 0, sw.Layout((2, 2), (2, 1))), sw.ones((2, 2)))
    root = sw.relu(made.tensor)
    bad = sw.Tensor(tiled.make(grid=(2, 1), tile=(1, 2)).carrier, 0, sw.Layout((2, 2)))
    with pytest.raises(ValueError):
        root.backward(bad)
    assert made.tensor.grad is None


@pytest.mark.spec("A36", "PRJ.destination_class")
def test_destinations_of_another_class(experts, tiled):
    for bad in (tiled.make().carrier, sw.Evictable(sw.CPU(18), sw.CPU(0)), sw.Generic([0.0] * 18), object()):
        with pytest.raises(TypeError, match="destination"):
            experts.carrier.project(experts.tensor, SOME, bad)


@pytest.mark.spec("A37", "PRJ.destination_state")
def test_destinations_that_cannot_be_written(experts):
    gone, fixed, owned = sw.CPU(18), sw.CPU(18, mutable=False), sw.CPU(18)
    gone.release()
    keeper = sw.Evictable(owned, sw.CPU(0))
    for bad in (gone, fixed, owned):
        with pytest.raises(RuntimeError):
            experts.carrier.project(experts.tensor, SOME, bad)
    assert keeper.size() == 18


@pytest.mark.spec("A38", "PRJ.destination_type", "PRJ.destination_size", "PRJ.destination")
def test_destination_type_and_size(experts, tiled):
    with pytest.raises(TypeError, match="Int32"):
        experts.carrier.project(experts.tensor, SOME, sw.CPU(18, dtype=sw.Int32))
    with pytest.raises(ValueError, match="17 slots"):
        experts.carrier.project(experts.tensor, SOME, sw.CPU(17))
    for size in (0, 18, 25):
        given = sw.CPU(size)
        compact = experts.carrier.project(experts.tensor, SOME, given).wait()
        assert compact.carrier is given and given.size() == max(18, size) and given.version == 1
        assert torch.equal(tiled.by_mode(compact), tiled.dense(experts.tensor, experts.values)[[3, 0, 2]])


@pytest.mark.spec("A39", "PRJ.keeps")
def test_a_pending_destination_is_not_written_nor_taken_twice(experts):
    given = sw.CPU(18)
    with gated("copy") as gate:
        handle = experts.carrier.project(experts.tensor, SOME, given)
        for action in (
            lambda: given.set_value(0, 1.0),
            given.release,
            lambda: experts.carrier.project(experts.tensor, SOME, given),
        ):
            with pytest.raises(RuntimeError, match="request"):
                action()
        gate.open()
        handle.wait()
    given.set_value(0, 1.0)


@pytest.mark.spec("A40", "PRJ.captured")
def test_later_changes_of_inputs_are_not_seen(experts, tiled):
    lists = [[3, 0, 2], [0], [0]]
    with gated("copy") as gate:
        handle = experts.carrier.project(experts.tensor, TileSelection(lists))
        lists[0][:] = [1, 1, 1]
        gate.open()
        compact = handle.wait()
    assert torch.equal(tiled.by_mode(compact), tiled.dense(experts.tensor, experts.values)[[3, 0, 2]])


@pytest.mark.spec("A41", "RES.invalid")
def test_a_tile_without_a_value_is_refused_before_work(tiled):
    made = tiled.make(where="none")
    made.carrier.update(TileSelection([[1], [0], [0]]), sw.ones((1, 3, 2))).wait()
    with fail_at(1) as counter, pytest.raises(RuntimeError, match=r"\(0, 0, 0\) has no value"):
        made.carrier.project(made.tensor, TileSelection([[1, 0], [0], [0]]))
    assert counter.calls == 0


@pytest.mark.spec("A42", "LIFE.failure", "PRJ.repeat", "LIFE.before")
@pytest.mark.parametrize("order", ["canonical", "tile"])
def test_a_transfer_that_fails(experts, tiled, order):
    given = sw.CPU(18)
    before = tiled.snapshot(experts.carrier)
    with gated("copy") as gate:
        handle = experts.carrier.project(experts.tensor, SOME, given, order=order)
        assert gate.reached.wait(10)
        with fail_at(2, "copy", "kernel"):
            gate.open()
            errors = []
            for _ in range(3):
                with pytest.raises(Fault) as caught:
                    handle.wait()
                errors.append(caught.value)
    assert len({id(e) for e in errors}) == 1
    assert given.is_mutable() and given.version == 0 and tiled.snapshot(experts.carrier)[1:3] == before[1:3]
    compact = experts.carrier.project(experts.tensor, SOME, given, order=order).wait()
    assert torch.equal(tiled.by_mode(compact), tiled.dense(experts.tensor, experts.values)[[3, 0, 2]])


@pytest.mark.spec("A42", "A106", "LIFE.failure", "LIFE.before")
@pytest.mark.parametrize("capacity", [None, 1, 3])
def test_a_failure_of_any_provider_call_leaves_values_and_pins_as_before(tiled, capacity):
    made = tiled.make(primary_capacity=capacity)
    values = tiled.snapshot(made.carrier)[0]

    def verify():
        made.carrier.wait_idle()
        after = tiled.snapshot(made.carrier)
        assert [v for _, v in after[0].values()] == [v for _, v in values.values()]
        assert after[2] == [] and made.carrier.version == 0
        assert not any(r.needed() or r.transit or r.claim for r in made.carrier._core.table.touched())
        made.carrier.evict(ALL)
        assert made.carrier._core.primary.used == 0

    assert sweep(lambda: made.carrier.project(made.tensor, SOME).wait(), verify) >= 3


@pytest.mark.spec("A43")
def test_a_dropped_handle_completes(experts):
    with gated("copy") as gate:
        experts.carrier.project(experts.tensor, SOME)
        gc.collect()
        gate.open()
    experts.carrier.wait_idle()
    assert experts.carrier.primary_tiles == SOME.tile_set
    assert not any(r.needed() for r in experts.carrier._core.table.touched())


@pytest.mark.spec("A44", "PRJ.keeps", "LIFE.pinned")
def test_the_source_is_not_written_while_pending(experts):
    with gated("copy") as gate:
        handle = experts.carrier.project(experts.tensor, SOME)
        with pytest.raises(RuntimeError, match="wait"):
            experts.carrier.set_value(0, 9.0)
        with pytest.raises(RuntimeError, match=r"project.*wait"):
            experts.carrier.update(SOME, sw.ones((3, 3, 2)))
        gate.open()
        handle.wait()
    experts.carrier.set_value(0, 9.0)
    assert experts.carrier.get_value(0) == 9.0


@pytest.mark.spec("A45", "OPS.handles", "GRD.handle_no_node")
def test_a_handle_is_no_operand(experts):
    handle = experts.carrier.project(experts.tensor, SOME)
    promotion = experts.carrier.promote_async(TileSet())
    for bad in (handle, promotion):
        for call in (lambda b: sw.add(b, b), sw.relu, lambda b: sw.mul(b, 2), lambda b: sw.matmul(b, b)):
            with pytest.raises(TypeError, match="wait"):
                call(bad)
        with pytest.raises(TypeError, match="wait"):
            sw.reduce_sum(bad, "a b -> a")
    assert not hasattr(handle, "__await__")
    handle.wait()


@pytest.mark.spec("A106")
def test_a_destination_in_a_tiers_memory_is_refused():
    memory = torch.zeros(24)
    secondary = sw.CPU(24, memory.data_ptr())
    carrier = TiledEvictable(sw.CPU(0), secondary, (4, 1, 1), (1, 3, 2))
    overlapping = sw.CPU(18, memory.data_ptr() + 24)
    with pytest.raises(RuntimeError, match="shares storage"):
        carrier.project(carrier.full_tensor(), SOME, overlapping)


@pytest.mark.spec("PRJ.unchanged")
def test_the_source_is_what_it_was(experts):
    before = (
        experts.tensor.layout,
        experts.tensor.carrier,
        experts.tensor.version,
        experts.tensor.autograd_ctx,
    )
    experts.carrier.project(experts.tensor, SOME).wait()
    assert (
        experts.tensor.layout,
        experts.tensor.carrier,
        experts.tensor.version,
        experts.tensor.autograd_ctx,
    ) == before
    assert experts.carrier.project(experts.tensor, ALL).wait().size() == 24


@pytest.mark.spec("A93")
def test_beyond_capacity_the_rest_streams(tiled):
    made = tiled.make(primary_capacity=2)
    compact = made.carrier.project(made.tensor, ALL).wait()
    assert torch.equal(tiled.by_mode(compact), tiled.dense(made.tensor, made.values))
    assert len(made.carrier.primary_tiles) == 2 and made.carrier.stats().bytes_streamed == 2 * 24


def test_generic_primaries_project_too(tiled):
    made = tiled.make(prototype=lambda n: sw.Generic([0.0] * n), primary_capacity=2)
    compact = made.carrier.project(made.tensor, SOME).wait()
    assert type(compact.carrier) is sw.Generic
    assert torch.equal(tiled.by_mode(compact), tiled.dense(made.tensor, made.values)[[3, 0, 2]])


def test_two_projections_share_one_transfer(experts, tiled):
    with gated("copy") as gate:
        first = experts.carrier.project(experts.tensor, SOME)
        second = experts.carrier.project(experts.tensor, ALL)
        gate.open()
        full = tiled.dense(experts.tensor, experts.values)
        assert torch.equal(tiled.by_mode(first.wait()), full[[3, 0, 2]])
        assert torch.equal(tiled.by_mode(second.wait()), full)
    assert experts.carrier.stats().bytes_promoted == 4 * 24


def test_a_shared_transfers_failure_is_one_exception(experts):
    with gated("copy") as gate:
        first = experts.carrier.project(experts.tensor, SOME)
        second = experts.carrier.project(experts.tensor, SOME)
        assert gate.reached.wait(10)
        with fail_at(1, "copy"):
            gate.open()
            errors = []
            for handle in (first, second):
                with pytest.raises(Fault) as caught:
                    handle.wait()
                errors.append(caught.value)
    assert errors[0] is errors[1]
    assert experts.carrier.project(experts.tensor, SOME).wait().size() == 18


def test_the_same_tensor_and_selection_in_both_orders(tiled):
    """What is remembered of one order is not taken for the other, and is not remembered for ever."""
    made = tiled.make(layout=TiledEvictable.row_major_layout)
    two = TileSelection([[2, 0], [0], [0]])
    wanted = tiled.dense(made.tensor, made.values)[[2, 0]]
    for order, stride in (("tile", (6, 2, 1)), ("canonical", (1, 2, 6)), ("tile", (6, 2, 1))):
        compact = made.carrier.project(made.tensor, two, order=order).wait()
        assert sw.to_torch(compact).stride() == stride and torch.equal(tiled.by_mode(compact), wanted)
    for _ in range(300):
        made.carrier.project(made.carrier.full_tensor(made.carrier.row_major_layout()), two).wait()
    assert len(made.carrier._forms) <= 256
