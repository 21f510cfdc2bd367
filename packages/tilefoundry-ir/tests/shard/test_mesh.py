"""Meshes: construction, slices, participants. Oracle: enumeration of coordinates, and stated messages."""

from __future__ import annotations

import copy
import pickle
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilefoundry.ir.errors import UnsupportedError
from tilefoundry.ir.types import DimVar, ceildiv
from tilefoundry.ir.types.shard import (
    PERSISTENT,
    Layout,
    Mesh,
    Topology,
    axis_groups,
    level_axes,
    local_index,
    make_mesh,
    participants,
)

CTA, THREAD = Topology("cta", 2), Topology("thread", 128)
N = DimVar("N", 1, 100)


@pytest.mark.spec("mesh.spelling")
def test_a_mesh_reads_by_position_and_by_keyword() -> None:
    mesh = Mesh(("cta",), (8,), ("b",))
    assert mesh == Mesh(topologies=("cta",), layout=Layout((8,)), names=("b",)) == Mesh("cta", (8,), "b")
    assert mesh.b.extent == 8
    assert mesh.layout.strides == (1,)
    assert pickle.loads(pickle.dumps(mesh)) == copy.deepcopy(mesh) == mesh


def test_the_last_axis_is_fastest() -> None:
    assert Mesh(("cta", "thread"), (2, 4, 32), ("x", "y", "t")).layout.strides == (128, 32, 1)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Mesh((), (8,)), "at least one level"),
        (lambda: Mesh(("cta",), ()), "at least one axis"),
        (lambda: Mesh(("cta", "cta"), (2, 2)), "names each level once"),
        (lambda: Mesh(("cta", "thread"), (8,)), "2 levels need at least as many axes, got 1"),
        (lambda: Mesh(("cta",), (8,), ("a", "b")), "needs 1 names"),
        (lambda: Mesh(("cta",), (8, 2), ("a", "a")), "axis names must differ"),
        (lambda: Mesh(("cta",), (8,), ("layout",)), "member of Mesh itself"),
        (lambda: Mesh(("cta",), (0,)), "at least 1, got 0"),
        (lambda: Topology("cta", -1), "at least 1, got -1"),
        (lambda: Topology("1", 4), "must be an identifier"),
    ],
)
def test_parts_that_do_not_fit_are_refused(build, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build()


@pytest.mark.spec("mesh.several-gpus")
@pytest.mark.parametrize("level", ["gpu", "device", "node", "host", "rank"])
def test_meshes_over_several_gpus_are_refused_by_name(level: str) -> None:
    with pytest.raises(UnsupportedError, match=f"'{level}' spans several GPUs"):
        Mesh((Topology(level, 2), "cta"), (2, 4))


def test_an_unknown_axis_lists_the_axes_there_are() -> None:
    with pytest.raises(AttributeError, match="no axis 'z'; its axes: x, y"):
        _ = Mesh(("cta",), (2, 2), ("x", "y")).z


def test_an_unknown_level_lists_the_levels_in_force() -> None:
    with pytest.raises(KeyError, match="uses the level 'warp'; levels in force: cta, thread"):
        Mesh(("warp",), (2,)).resolved((CTA, THREAD))


@pytest.mark.spec("mesh.slices")
def test_slices_keep_axes_and_select_participants() -> None:
    mesh = Mesh((CTA, THREAD), (2, 4, 32), ("x", "y", "t"))
    part = mesh[1, 1:3, 0:16]
    assert part.shape == (1, 2, 16)
    assert part.names == mesh.names
    found = participants(part)
    assert found["cta"] == (1,)
    assert found["thread"] == tuple(y * 32 + t for y in (1, 2) for t in range(16))


@pytest.mark.spec("mesh.slices")
@given(st.data())
def test_participants_are_the_instances_inside_the_window(data: st.DataObject) -> None:
    shape = (2, *data.draw(st.lists(st.sampled_from([1, 2, 3, 4]), min_size=1, max_size=3)))
    count = 1
    for extent in shape[1:]:
        count *= extent
    levels = (Topology("cta", 2), Topology("thread", count))
    try:
        groups = axis_groups(shape, (2, count))
    except ValueError:
        return
    mesh = Mesh(levels, shape)
    window = []
    for extent in shape:
        start = data.draw(st.integers(0, extent - 1))
        window.append(slice(start, data.draw(st.integers(start + 1, extent))))
    found = participants(mesh[tuple(window)])
    inside = [
        (cta, thread)
        for cta, thread in product(range(2), range(count))
        if all(
            w.start <= c < w.stop
            for w, c in zip(window, local_index(mesh, {"cta": cta, "thread": thread}), strict=True)
        )
    ]
    assert sorted(product(found["cta"], found["thread"])) == inside
    assert sorted(axis for group in groups for axis in group) == list(range(len(shape)))


@pytest.mark.parametrize("key", [2, -3, slice(1, 1), slice(0, 5), (0, 0), slice(0, 2, 2)])
def test_empty_and_strided_slices_are_refused(key) -> None:
    with pytest.raises(ValueError, match=r"selects no instance|step 1|2 indices"):
        _ = Mesh("cta", (2,))[key]


def test_a_sub_mesh_is_not_sliced_again_and_a_dynamic_axis_not_at_all() -> None:
    with pytest.raises(ValueError, match="slice the whole mesh once"):
        _ = Mesh("cta", (4,))[0:2][0]
    with pytest.raises(ValueError, match="unknown before launch"):
        _ = Mesh("cta", (N,))[0:2]


def test_dynamic_and_persistent_ctas_take_what_is_left() -> None:
    levels = (Topology("cta", ceildiv(N, 4)), Topology("thread", 64))
    mesh = Mesh(("cta", "thread"), (ceildiv(N, 4), 2, 32), ("b", "w", "t"))
    cta, thread = level_axes(mesh, levels)
    assert (cta.axes, thread.axes) == ((0,), (1, 2))
    assert Topology("cta", "persistent").extent is PERSISTENT
    with pytest.raises(ValueError, match="not known before launch"):
        participants(mesh, levels)


def test_strides_that_number_no_level_are_refused() -> None:
    with pytest.raises(ValueError, match="do not number the 8 instances of thread"):
        level_axes(Mesh((Topology("thread", 8),), Layout((2, 4), (2, 1))))


def test_make_mesh_covers_the_levels() -> None:
    assert make_mesh((CTA, THREAD)) == Mesh((CTA, THREAD), (2, 128), ("cta", "thread"))
    assert make_mesh((THREAD,), (4, 32), ("w", "t")).t.extent == 32
