"""Layout records, sugar, strides. Oracles: the golden case, enumeration, and the layout algebra."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilefoundry.ir import layout as algebra
from tilefoundry.ir.types import DimVar, StorageKind
from tilefoundry.ir.types.shard import (
    B,
    Broadcast,
    ComposedLayout,
    Dynamic,
    Empty,
    Layout,
    Mesh,
    P,
    Partial,
    S,
    ShardLayout,
    Split,
    Topology,
    axis_factors,
    c_order,
    engine_strides,
    layout_from_sugar,
    settle_strides,
    shared_strides,
)

M = Mesh((Topology("cta", 2), Topology("thread", 128)), (2, 4, 32), ("x", "y", "t"))
N = DimVar("N", 0, 100)
GMEM, SMEM, RMEM, HOST = StorageKind.GMEM, StorageKind.SMEM, StorageKind.RMEM, StorageKind.HOST


def golden() -> ShardLayout:
    return layout_from_sugar((2, 1536), (2 @ M.x, 12 @ M.y, 128 @ M.t))  # type: ignore[return-value]  # sharded


@pytest.mark.spec("shard.golden")
def test_the_golden_case() -> None:
    shard = golden()
    assert shard.shape == (2, 4, 3, 32, 4)
    assert shard.attrs == (Split(0), Split(1), Split(3))
    assert shard.strides is None
    assert shard.local_shape == (1, 1, 3, 1, 4)
    assert settle_strides(shard, None, GMEM, RMEM).strides == (0, 0, 4, 0, 1)
    assert settle_strides(shard, None, RMEM, GMEM).strides == (1536, 384, 128, 4, 1)


@pytest.mark.spec("shard.strides-by-direction")
def test_strides_settle_by_direction() -> None:
    shard = golden()
    own, shared = engine_strides(shard), shared_strides(shard)
    for before, after in ((GMEM, SMEM), (SMEM, RMEM), (HOST, GMEM), (GMEM, RMEM)):
        assert settle_strides(shard, None, before, after).strides == own
        assert settle_strides(shard, None, after, before).strides == shared
    kept = shard.with_strides(own)
    assert settle_strides(shard, kept, RMEM, RMEM).strides == own
    assert settle_strides(shard, shard.with_strides(shared), RMEM, RMEM).strides == shared
    assert settle_strides(shard, None, GMEM, GMEM).strides == shared


@pytest.mark.spec("shard.strides-by-direction")
def test_written_strides_stay_verbatim() -> None:
    written = golden().with_strides((7, 5, 3, 2, 1))
    assert settle_strides(written, None, GMEM, RMEM) is written


@pytest.mark.spec("shard.partition")
@given(st.lists(st.sampled_from([1, 2, 3, 4]), min_size=1, max_size=4), st.randoms())
def test_parts_tile_the_whole_exactly_once(extents: list[int], random) -> None:
    split = [k for k in range(len(extents)) if random.random() < 0.5]
    mesh_shape = tuple(extents[k] for k in split) or (1,)
    attrs = tuple(Split(k) for k in split) or (Broadcast(),)
    shard = ShardLayout(Layout(tuple(extents)), attrs, Mesh("cta", mesh_shape))
    shared = shard.with_strides(shared_strides(shard))
    seen: dict[int, int] = {}
    for place in product(*map(range, mesh_shape)):
        base = shared.offset(place)
        local = shard.local_shape
        for at in product(*map(range, local)):
            index = base + sum(a * s for a, s in zip(at, shared.strides, strict=True))
            seen[index] = seen.get(index, 0) + 1
    size = len(list(product(*map(range, extents))))
    assert seen == dict.fromkeys(range(size), 1)
    # An engine of its own is dense: its offsets are exactly 0..local size - 1.
    own = engine_strides(shard)
    dense = {
        sum(a * s for a, s in zip(at, own, strict=True)) for at in product(*map(range, shard.local_shape))
    }
    assert dense == set(range(len(dense)))


@pytest.mark.spec("dsl.layout-sugar")
def test_sugar_splits_over_several_axes_and_states_partial_values() -> None:
    shard = layout_from_sugar((24, 5), (M.x.split_over(24, (M.x, M.y)), 5))
    assert isinstance(shard, ShardLayout)
    assert shard.shape == (2, 4, 3, 5)
    assert shard.attrs == (Split(0), Split(1), Broadcast())
    held = layout_from_sugar((4, 64), ((4 @ M.y, 64), {M.t @ P("sum")}))
    assert isinstance(held, ShardLayout)
    assert held.attrs == (Broadcast(), Split(0), Partial("sum"))
    assert str(held) == '(4@y, 64) {t@P("sum")}'


def test_sugar_without_axes_is_a_plain_layout_and_records_pass_through() -> None:
    assert layout_from_sugar((4, N), (4, N)) == Layout((4, N))
    shard = golden()
    assert layout_from_sugar((2, 1536), shard) is shard
    assert layout_from_sugar((2, 1536), None) is None


def test_dynamic_extents_split_where_the_division_is_exact() -> None:
    mesh = Mesh("cta", (DimVar("K", 1, 9),), ("b",))
    k = mesh.b.extent
    shard = layout_from_sugar((k * 4, 3), (k * 4 @ mesh.b, 3))
    assert isinstance(shard, ShardLayout)
    assert shard.shape == (k, 4, 3)


@pytest.mark.spec("shard.refused")
@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: layout_from_sugar((10,), (10 @ M.y,)), "mesh extent 4 does not divide 10"),
        (lambda: layout_from_sugar((2, 2), (2 @ M.x, 2 @ M.x)), "uses the mesh axis x twice"),
        (lambda: layout_from_sugar((2,), ((2 @ M.x,), {M.x @ P("sum")})), "uses the mesh axis x twice"),
        (lambda: layout_from_sugar((3, 4), (2 @ M.x, 4)), "has 8 elements"),
        (lambda: layout_from_sugar((4, 4), (4 @ M.y, 4 @ Mesh("cta", (4,), "q").q)), "different meshes"),
        (lambda: ShardLayout(Layout((2,)), (S(0),), M), "needs 3 attributes"),
        (lambda: ShardLayout(Layout((4,)), (S(0), B(), B()), M), "needs the extent 2 there"),
        (lambda: ShardLayout(Layout((2,)), (S(1), B(), B()), M), "outside the canonical shape"),
        (lambda: ShardLayout(Layout((4, 2)), (B(), S(0), S(0)), M), "both split canonical axis 0"),
        (lambda: P("median"), "unknown ReduceKind 'median'"),
        (lambda: S(-1), "at least 0"),
        (lambda: Layout((2, 3), (1,)), "2 extents"),
        (lambda: Layout((-2,)), "must be at least 0"),
    ],
)
def test_layouts_that_say_nothing_sensible_are_refused(build, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build()


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: layout_from_sugar((4,), 4), "a layout is a tuple of extents"),
        (lambda: layout_from_sugar((4,), ("a",)), "an extent or extent @ axis"),
        (lambda: layout_from_sugar((4,), ((4,), {P("sum")})), "set beside a layout holds"),
        (lambda: "4" @ M.x, "splits an int or a dim"),
        (lambda: M.x @ S(0), "an axis takes a partial state"),
        (lambda: Layout(((2, 2), 3)), "modes are flat"),
        (lambda: ShardLayout(Layout((2,)), ("S0", B(), B()), M), "an attribute is S"),
    ],
)
def test_things_of_another_kind_are_refused(build, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        build()


def test_attributes_may_stand_without_brackets() -> None:
    assert ShardLayout(Layout((4,)), (B, P, Dynamic), M).attrs == (Broadcast(), Partial("sum"), Dynamic())


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4))
def test_concrete_layouts_are_those_of_the_algebra(extents: list[int]) -> None:
    made = Layout(tuple(extents)).concrete({})
    assert isinstance(made, algebra.Layout)
    for at in product(*map(range, extents)):
        assert made(at) == sum(a * s for a, s in zip(at, c_order(tuple(extents)), strict=True))


def test_concrete_takes_values_of_dims_and_tells_empty_apart() -> None:
    record = Layout((N, 4), (8, 1))
    assert record.concrete({"N": 3}) == algebra.Layout((3, 4), (8, 1))
    assert record.concrete({"N": 0}) == Empty((0, 4))
    with pytest.raises(KeyError, match="N"):
        record.concrete({})


def test_composed_layouts_swizzle_the_index() -> None:
    record = ComposedLayout(algebra.Swizzle(1, 0, 1), 0, Layout((4,)))
    concrete = record.concrete({})
    assert [concrete(i) for i in range(4)] == [0, 1, 3, 2]
    assert [ComposedLayout(None, 5, Layout((3,))).concrete({})(i) for i in range(3)] == [5, 6, 7]


@pytest.mark.parametrize(
    ("shape", "canonical", "groups"),
    [
        ((2, 1536), (2, 4, 3, 32, 4), ((0,), (1, 2, 3, 4))),
        ((1, 1536), (1, 6, 256), ((0,), (1, 2))),
        ((8, 1, 4), (2, 4, 4), ((0, 1), (), (2,))),
        ((6,), (2, 3, 1), ((0, 1, 2),)),
        ((4, 6), (8, 3), None),
        ((), (), ()),
        ((N, 4), (N, 2, 2), ((0,), (1, 2))),
    ],
)
def test_canonical_axes_group_under_tensor_axes(shape, canonical, groups) -> None:
    assert axis_factors(shape, canonical) == groups
