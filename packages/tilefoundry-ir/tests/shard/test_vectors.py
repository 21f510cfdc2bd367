"""Meshes and shards against the vector file that the C++ tests read too, and meshes of every small shape.

Oracles: the file, whose entries the C++ side compares with the compiled headers, and a brute-force numbering of a
level's instances that shares no code with the records.
"""

from __future__ import annotations

import json
from itertools import permutations, product
from pathlib import Path
from typing import Any

import pytest

from tilefoundry.ir.types.shard import (
    Broadcast,
    Layout,
    Mesh,
    Partial,
    ShardAttr,
    ShardLayout,
    Split,
    Topology,
    axis_groups,
    level_axes,
    local_index,
)

VECTORS = json.loads(
    (Path(__file__).parents[4] / "cpp-runtime" / "tests" / "vectors" / "shards.json").read_text()
)
CASES: list[dict[str, Any]] = VECTORS["cases"]


def mesh_of(case: dict[str, Any]) -> Mesh:
    mesh = case["mesh"]
    levels = tuple(Topology(name, case["levels"][name]) for name in mesh["topologies"])
    return Mesh(levels, Layout(tuple(mesh["shape"]), tuple(mesh["strides"])))


def ids_of(mesh: Mesh, instance: dict[str, Any]) -> dict[str, int]:
    return {name: instance[name] for name in mesh.level_names}


@pytest.mark.spec("mesh.axes-to-levels")
@pytest.mark.parametrize("case", CASES, ids=lambda c: c["name"])
def test_axes_map_to_levels_and_instances_to_coordinates(case: dict[str, Any]) -> None:
    mesh = mesh_of(case)
    owners = {axis: part.level.name for part in level_axes(mesh) for axis in part.axes}
    assert [owners[axis] for axis in range(mesh.rank)] == case["axis_levels"]
    for instance in case["instances"]:
        assert local_index(mesh, ids_of(mesh, instance)) == tuple(instance["coord"])


@pytest.mark.parametrize("case", VECTORS["refused"], ids=lambda c: c["name"])
def test_axes_that_do_not_fit_the_levels_are_refused(case: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"do not divide among levels|need at least as many axes"):
        level_axes(mesh_of(case))


def attr_of(text: str) -> ShardAttr:
    return Split(int(text[1:])) if text[0] == "S" else Broadcast() if text == "B" else Partial("sum")


@pytest.mark.spec("mesh.one-vector-file")
@pytest.mark.parametrize("case", CASES, ids=lambda c: c["name"])
def test_local_shapes_and_offsets(case: dict[str, Any]) -> None:
    mesh = mesh_of(case)
    for entry in case["shards"]:
        attrs = tuple(map(attr_of, entry["attrs"]))
        shard = ShardLayout(Layout(tuple(entry["shape"]), tuple(entry["strides"])), attrs, mesh)
        assert shard.local_shape == tuple(entry["local_shape"])
        for instance, offset in zip(case["instances"], entry["offsets"], strict=True):
            assert shard.offset(local_index(mesh, ids_of(mesh, instance))) == offset


def numbered(shape: tuple[int, ...], strides: tuple[int, ...]) -> list[tuple[int, ...]]:
    """The coordinates of one level in the order of their positions."""
    return sorted(
        product(*map(range, shape)), key=lambda c: sum(a * b for a, b in zip(c, strides, strict=True))
    )


@pytest.mark.parametrize("shape", [(4, 8), (2, 3, 4), (1, 6), (2, 1, 4), (5,)])
def test_every_order_of_a_levels_axes_numbers_its_instances(shape: tuple[int, ...]) -> None:
    count = 1
    for extent in shape:
        count *= extent
    for order in permutations(range(len(shape))):
        strides, step = [0] * len(shape), 3  # a level's unit need not be 1
        for axis in order:
            strides[axis] = step
            step *= shape[axis]
        mesh = Mesh((Topology("thread", count),), Layout(shape, tuple(strides)))
        table = numbered(shape, tuple(strides))
        for instance in range(count):
            assert local_index(mesh, {"thread": instance}) == table[instance]


@pytest.mark.spec("mesh.axes-to-levels")
@pytest.mark.parametrize(
    ("shape", "counts", "groups"),
    [
        ((2, 4, 32), (2, 128), ((0,), (1, 2))),
        ((2, 4, 32), (8, 32), ((0, 1), (2,))),
        ((1, 4), (1, 4), ((0,), (1,))),
        ((1, 2, 1, 8), (2, 8), ((0, 1, 2), (3,))),
        ((4, 2, 1), (8, 1), ((0, 1), (2,))),
        ((3, 1, 1), (3, 1), ((0, 1), (2,))),
    ],
)
def test_levels_take_trailing_axes_up_to_the_first_equality(shape, counts, groups) -> None:
    assert axis_groups(shape, counts) == groups
