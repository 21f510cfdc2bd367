"""TileSelection against itertools.product and hand-written expectations."""

from __future__ import annotations

import itertools
import pickle
import time

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import strideweave as sw
from strideweave.carriers.tiled_evictable.geometry import TileGeometry
from strideweave.carriers.tiled_evictable.selection import TileSelection, as_tile_set
from strideweave.carriers.tiled_evictable.tile_set import TileSet

axes = st.lists(st.lists(st.integers(0, 6), min_size=1, max_size=4, unique=True), min_size=1, max_size=4)


@pytest.mark.spec("A21", "SEL.order", "SEL.map")
def test_the_first_axis_varies_fastest():
    assert TileSelection([[7, 2], [4, 9]]).coordinates == ((7, 4), (2, 4), (7, 9), (2, 9))


@pytest.mark.spec("A22", "SEL.product")
def test_every_corner_of_the_product_is_there():
    assert (1, 1) in TileSelection([[0, 1], [0, 1]]).coordinates


@pytest.mark.spec("SEL.order", "SEL.map", "SEL.product", "GATH.map")
@given(axes)
def test_coordinates_equal_the_stated_map(per_axis):
    # Oracle: the formula source(c) = per_axis[i][c[i]], with c counted first axis fastest.
    selection = TileSelection(per_axis)
    compact = [c[::-1] for c in itertools.product(*[range(len(a)) for a in per_axis[::-1]])]
    assert selection.coordinates == tuple(
        tuple(per_axis[i][c[i]] for i in range(len(per_axis))) for c in compact
    )


@pytest.mark.spec("A91", "SEL.rank", "SET.of_selection")
@given(axes)
def test_rank_grid_and_tile_set(per_axis):
    selection = TileSelection(per_axis)
    assert selection.rank == len(per_axis)
    assert selection.compact_grid_shape == tuple(map(len, per_axis))
    assert set(selection.tile_set.coordinates) == set(itertools.product(*per_axis))
    assert len(selection) == len(selection.coordinates) == len(selection.tile_set)


@pytest.mark.spec("A23", "SEL.expose")
def test_generators_are_read_once():
    reads = []

    def axis(values):
        for v in values:
            reads.append(v)
            yield v

    selection = TileSelection(axis(v) for v in ((3, 1), (2,)))
    assert selection.per_axis == ((3, 1), (2,))
    assert reads == [3, 1, 2]


@pytest.mark.spec("A24", "SEL.immutable")
def test_later_changes_of_the_lists_are_not_seen():
    lists = [[2, 7], [0]]
    selection = TileSelection(lists)
    lists[0].append(9)
    lists.append([1])
    assert selection.per_axis == ((2, 7), (0,))
    with pytest.raises(AttributeError):
        selection.per_axis = ((1,),)
    assert selection == TileSelection([(2, 7), (0,)])
    assert hash(selection) == hash(TileSelection([(2, 7), (0,)]))
    assert selection != TileSelection([(7, 2), (0,)])
    assert pickle.loads(pickle.dumps(selection)) == selection


@pytest.mark.spec("A25", "A26", "SEL.types")
@pytest.mark.parametrize(
    "bad", [5, None, [1, 2], "12", b"12", [b"\1\2"], ["12"], [[True]], [[1.0]], [["1"]], [[None]]]
)
def test_what_is_no_iterable_of_integers_is_a_type_error(bad):
    with pytest.raises(TypeError):
        TileSelection(bad)


@pytest.mark.spec("A26", "SEL.types")
@pytest.mark.parametrize("bad", [[np.array([True])], [torch.tensor([True])], [torch.tensor([1.0])]])
def test_truth_values_and_floats_of_arrays_are_refused(bad):
    with pytest.raises(TypeError):
        TileSelection(bad)


@pytest.mark.spec("A26", "SEL.types")
def test_type_errors_come_before_value_errors():
    with pytest.raises(TypeError):
        TileSelection([[-1], ["x"]])


@pytest.mark.spec("A27", "SEL.expose")
def test_index_likes_become_plain_ints():
    (axis,) = TileSelection([[np.int64(2), torch.tensor(3)]]).per_axis
    assert axis == (2, 3)
    assert {type(c) for c in axis} == {int}


@pytest.mark.spec("A28", "SEL.types")
def test_an_endless_axis_is_refused_soon():
    begun = time.perf_counter()
    with pytest.raises(TypeError, match="no length"):
        TileSelection([itertools.count()])
    assert time.perf_counter() - begun < 1


@pytest.mark.spec("A29", "SEL.values")
@pytest.mark.parametrize("bad", [[], [[]], [[1], []], [[2, 3, 2]], [[-1]]])
def test_empty_repeated_and_negative_are_value_errors(bad):
    with pytest.raises(ValueError, match="TileSelection"):
        TileSelection(bad)


@pytest.mark.spec("A30", "SEL.bind")
@pytest.mark.parametrize("per_axis", [[[0]], [[0], [0], [0]], [[4], [0]], [[0], [5]]])
def test_binding_checks_rank_and_range(per_axis):
    with pytest.raises(ValueError, match=r"selection|outside"):
        TileSelection(per_axis).bind(TileGeometry((4, 5), (2, 2)))


@pytest.mark.spec("SEL.bind", "OWN.map")
@given(axes)
def test_codes_number_the_tiles_first_axis_fastest(per_axis):
    geometry = TileGeometry([7] * len(per_axis), [2] * len(per_axis))
    selection = TileSelection(per_axis)
    assert selection.bind(geometry) == tuple(
        sum(c * 7**i for i, c in enumerate(t)) for t in selection.coordinates
    )
    assert [geometry.coordinate(k) for k in selection.bind(geometry)] == list(selection.coordinates)


@pytest.mark.spec("SEL.no_index_map")
def test_the_public_surface_has_no_index_maps():
    names = {n for n in dir(TileSelection) if not n.startswith("_")}
    assert names == {
        "from_tensor",
        "rank",
        "compact_grid_shape",
        "coordinates",
        "tile_set",
        "per_axis",
        "bind",
    }


@pytest.mark.spec("TRN.tile_set")
def test_a_selection_stands_for_its_set():
    selection = TileSelection([[3, 1]])
    assert as_tile_set(selection, "promote") == TileSet([(1,), (3,)])
    with pytest.raises(TypeError, match="promote"):
        as_tile_set([(1,)], "promote")


@pytest.mark.spec("POL.router")
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8])
@given(data=st.data())
def test_from_tensor_equals_torch_unique(dtype, data):
    extent = data.draw(st.integers(1, 9))
    shape = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    ids = torch.randint(0, extent, shape, dtype=dtype)
    selection, inverse = TileSelection.from_tensor(ids, (extent, 2), axis=0)
    distinct, where = torch.unique(ids, return_inverse=True)
    assert selection.per_axis == (tuple(distinct.tolist()), (0, 1))
    assert inverse.dtype == dtype and torch.equal(inverse.long(), where)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_from_tensor_chooses_on_any_axis_and_takes_all_of_the_others(axis):
    grid = (4, 5, 3)
    ids = torch.tensor([[2, 0], [2, 2]])
    for asked in (ids, sw.from_torch(ids)):
        selection, inverse = TileSelection.from_tensor(asked, grid, axis)
        wanted = [tuple(range(n)) for n in grid]
        wanted[axis] = (0, 2)
        assert selection.per_axis == tuple(wanted) and type(inverse) is type(asked)
        seen = inverse if asked is ids else sw.to_torch(inverse)
        assert seen.tolist() == [[1, 0], [1, 1]]


def test_from_tensor_makes_one_copy_to_the_host():
    # The flags are read with one tolist(); a second read would be a second synchronisation on a device.
    reads = []
    original = torch.Tensor.tolist
    torch.Tensor.tolist = lambda self: (reads.append(1), original(self))[1]
    try:
        TileSelection.from_tensor(torch.tensor([3, 1, 3]), (4,))
    finally:
        torch.Tensor.tolist = original
    assert reads == [1]


def test_from_tensor_refuses_what_names_no_tile():
    with pytest.raises(ValueError, match="no ids"):
        TileSelection.from_tensor(torch.zeros(0, dtype=torch.int64), (4,))
    with pytest.raises(ValueError, match="id 4 is outside"):
        TileSelection.from_tensor(torch.tensor([1, 4]), (4,))
    with pytest.raises(ValueError, match="id -1 is outside"):
        TileSelection.from_tensor(torch.tensor([-1, 1]), (4,))
    for bad in (torch.tensor([1.0]), torch.tensor([True]), [1]):
        with pytest.raises(TypeError):
            TileSelection.from_tensor(bad, (4,))
    for axis in (1, -1):
        with pytest.raises(ValueError, match="axis"):
            TileSelection.from_tensor(torch.tensor([1]), (4,), axis=axis)
    for axis in (True, "0", None, 0.0):
        with pytest.raises(TypeError, match="from_tensor axis"):
            TileSelection.from_tensor(torch.tensor([1]), (4,), axis=axis)
    for grid in ((), (-3,), (4, 0)):
        with pytest.raises(ValueError, match="from_tensor grid_shape"):
            TileSelection.from_tensor(torch.tensor([1]), grid)
    strange = torch.empty(2, dtype=torch.int64, device="meta"), torch.tensor([0, 3]).to_sparse()
    for ids in strange:
        with pytest.raises(TypeError, match="from_tensor"):
            TileSelection.from_tensor(ids, (4,))
