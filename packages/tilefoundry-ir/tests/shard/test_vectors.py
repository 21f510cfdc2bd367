"""Meshes and shards against the vector file that the C++ tests read too.

Oracle: the file itself, and a brute-force numbering of a level's instances that shares no code with the records.
"""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

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
    local_index,
)

VECTORS = json.loads(
    (Path(__file__).parents[4] / "cpp-runtime" / "tests" / "vectors" / "shards.json").read_text()
)


def mesh_of(entry: dict) -> Mesh:
    levels = tuple(Topology(name, count) for name, count in entry["levels"])
    return Mesh(levels, Layout(tuple(entry["shape"]), tuple(entry["strides"])))


def ids_of(entry: dict, ids: list[int]) -> dict[str, int]:
    return {name: i for (name, _), i in zip(entry["levels"], ids, strict=True)}


MESHES = {entry["name"]: entry for entry in VECTORS["meshes"]}


@pytest.mark.parametrize("entry", VECTORS["meshes"], ids=lambda e: e["name"])
def test_axes_map_to_levels_and_instances_to_coordinates(entry: dict) -> None:
    counts = [count for _, count in entry["levels"]]
    assert axis_groups(entry["shape"], counts) == tuple(tuple(group) for group in entry["groups"])
    mesh = mesh_of(entry)
    for row in entry["coordinates"]:
        assert local_index(mesh, ids_of(entry, row["ids"])) == tuple(row["coordinate"])


@pytest.mark.parametrize("entry", VECTORS["meshes"], ids=lambda e: e["name"])
def test_the_file_agrees_with_a_brute_force_numbering(entry: dict) -> None:
    for row in entry["coordinates"]:
        found: list[int] = []
        for group, instance in zip(entry["groups"], row["ids"], strict=True):
            shape = [entry["shape"][axis] for axis in group]
            strides = [entry["strides"][axis] for axis in group]
            places = sorted(
                product(*map(range, shape)), key=lambda c: sum(a * b for a, b in zip(c, strides, strict=True))
            )
            found += places[instance]
        assert found == row["coordinate"]


@pytest.mark.parametrize("entry", VECTORS["refused_meshes"], ids=lambda e: e["name"])
def test_axes_that_do_not_fit_the_levels_are_refused(entry: dict) -> None:
    with pytest.raises(ValueError, match="do not divide among levels"):
        axis_groups(entry["shape"], [count for _, count in entry["levels"]])


def attr_of(text: str) -> ShardAttr:
    return Split(int(text[1:])) if text[0] == "S" else Broadcast() if text == "B" else Partial(text[1:])


@pytest.mark.parametrize("entry", VECTORS["shards"], ids=lambda e: e["name"])
def test_local_shapes_and_offsets(entry: dict) -> None:
    mesh_entry = MESHES[entry["mesh"]]
    shard = ShardLayout(
        Layout(tuple(entry["shape"]), tuple(entry["strides"])),
        tuple(attr_of(text) for text in entry["attrs"]),
        mesh_of(mesh_entry),
    )
    assert shard.local_shape == tuple(entry["local_shape"])
    for row in entry["offsets"]:
        at = local_index(shard.mesh, ids_of(mesh_entry, row["ids"]))
        assert shard.offset(at) == row["offset"]
