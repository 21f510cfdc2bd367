"""Meshes and shard layouts: the shared vectors, checked by enumeration here and against the compiled headers."""

from __future__ import annotations

import itertools
import json
import subprocess
from collections import defaultdict
from math import prod
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[4]
VECTORS = json.loads((ROOT / "cpp-runtime/tests/vectors/shards.json").read_text())
TEMPLATE = (ROOT / "cpp-runtime/tests/host/shards.cc.in").read_text()
CASES: list[dict[str, Any]] = VECTORS["cases"]


def axes_by_rule(levels: dict[str, int], mesh: dict[str, Any]) -> list[str] | None:
    """Level of each axis by the rule: right to left, at least one axis, up to the first equality. None: refused."""
    shape, topologies = mesh["shape"], mesh["topologies"]
    owner: list[str] = []
    rest = len(shape)
    for depth, level in reversed(list(enumerate(topologies))):
        taken = 0
        while rest - taken > depth:
            taken += 1
            if prod(shape[rest - taken : rest]) == levels[level] and depth > 0:
                break
        if depth == 0:
            taken = rest
        if taken == 0 or prod(shape[rest - taken : rest]) != levels[level]:
            return None
        owner = [level] * taken + owner
        rest -= taken
    return owner


def coordinate(case: dict[str, Any], instance: dict[str, Any]) -> list[int]:
    """The mesh coordinate of an instance, found by trying all coordinates of each level."""
    shape, strides, owner = case["mesh"]["shape"], case["mesh"]["strides"], case["axis_levels"]
    out = [0] * len(shape)
    for level in case["mesh"]["topologies"]:
        axes = [a for a, o in enumerate(owner) if o == level]
        moving = [a for a in axes if shape[a] > 1]
        unit = min((strides[a] for a in moving), default=1)
        hits = [
            c
            for c in itertools.product(*(range(shape[a]) for a in moving))
            if sum(x * strides[a] for x, a in zip(c, moving, strict=True)) == instance[level] * unit
        ]
        assert len(hits) == 1, "a level's axes number its instances exactly once"
        for a, x in zip(moving, hits[0], strict=True):
            out[a] = x
    return out


@pytest.mark.spec("cpp.meshes")
@pytest.mark.parametrize("case", CASES, ids=lambda c: c["name"])
def test_vectors_hold_by_enumeration(case: dict[str, Any]):
    """Oracle: the rules, applied by brute force."""
    assert axes_by_rule(case["levels"], case["mesh"]) == case["axis_levels"]
    for instance in case["instances"]:
        assert coordinate(case, instance) == instance["coord"]
    for shard in case["shards"]:
        splits = {int(a[1:]): m for m, a in enumerate(shard["attrs"]) if a.startswith("S")}
        assert all(shard["shape"][k] == case["mesh"]["shape"][m] for k, m in splits.items())
        assert shard["local_shape"] == [1 if k in splits else n for k, n in enumerate(shard["shape"])]
        for instance, offset in zip(case["instances"], shard["offsets"], strict=True):
            # The first element of the instance's part: its coordinate along split axes, 0 elsewhere.
            element = [instance["coord"][splits[k]] if k in splits else 0 for k in range(len(shard["shape"]))]
            assert offset == sum(x * s for x, s in zip(element, shard["strides"], strict=True))


@pytest.mark.parametrize("case", VECTORS["refused"], ids=lambda c: c["name"])
def test_refused_meshes_do_not_fit(case: dict[str, Any]):
    assert axes_by_rule(case["levels"], case["mesh"]) is None


def golden_case() -> dict[str, Any]:
    return next(c for c in CASES if c["name"] == "golden")


@pytest.mark.spec("cpp.meshes")
def test_golden_parts_cover_the_tensor():
    """Every element of the logical (2, 1536) tensor belongs to exactly one instance of the (2, 4, 32) mesh."""
    shard = golden_case()["shards"][0]
    seen = []
    for x, y, t in itertools.product(range(2), range(4), range(32)):
        base = x * shard["strides"][0] + y * shard["strides"][1] + t * shard["strides"][3]
        for i, j in itertools.product(range(3), range(4)):
            seen.append(base + i * shard["strides"][2] + j * shard["strides"][4])
    assert sorted(seen) == list(range(2 * 1536))


# -- the compiled headers -----------------------------------------------------------------------------------------


def levels_of(case: dict[str, Any]) -> tuple[int, int]:
    return case["levels"].get("cta", 1), case["levels"].get("thread", 1)


def attr_type(attr: str) -> str:
    return {"B": "shard::B", "P": "shard::P<int>"}.get(attr) or f"shard::S<{attr[1:]}>"


def ints(values: list[int], kind: str = "Ints") -> str:
    return f"{kind}<{', '.join(map(str, values))}>{{}}"


def statements(case: dict[str, Any]) -> str:
    """C++ that prints what the vectors state about one case."""
    mesh = case["mesh"]
    scopes = ", ".join(f"TopologyScope::{t}" for t in mesh["topologies"])
    layout = f"cute::make_layout({ints(mesh['shape'])}, {ints(mesh['strides'])})"
    lines = ["{", f"auto mesh = make_mesh<{scopes}>({layout});", f'std::printf("case {case["name"]}\\n");']
    for i, at in enumerate(case["instances"]):
        lines.append(f"instance({i}, mesh, {at['cta']}, {at['thread']});")
        for j, shard in enumerate(case["shards"]):
            attrs = f"cute::tuple<{', '.join(map(attr_type, shard['attrs']))}>{{}}"
            lines.append(
                f"part({j}, mesh, {ints(shard['shape'])}, {ints(shard['strides'], 'Longs')}, {attrs}, "
                f"{at['cta']}, {at['thread']});"
            )
    return "\n".join([*lines, "}"])


def expected(case: dict[str, Any]) -> list[str]:
    """The lines that those statements print."""
    lines = [f"case {case['name']}"]
    for i, at in enumerate(case["instances"]):
        lines.append(f"instance {i} coord " + " ".join(map(str, at["coord"])))
        for j, shard in enumerate(case["shards"]):
            extents = " ".join(map(str, shard["local_shape"]))
            offset = shard["offsets"][i]
            lines.append(f"shard {j} offset {offset} {offset} local {extents} view {extents}")
    return lines


def grouped() -> dict[tuple[int, int], list[dict[str, Any]]]:
    groups: dict[tuple[int, int], list[dict[str, Any]]] = defaultdict(list)
    for case in CASES:
        groups[levels_of(case)].append(case)
    return groups


@pytest.mark.spec("cpp.meshes")
@pytest.mark.parametrize("levels", sorted(grouped()), ids=str)
def test_headers_agree_with_the_vectors(levels: tuple[int, int], cuda_gxx):
    """Mesh coordinates, local shapes, and offsets through `local` and `shard_partition`, ids mocked."""
    cases = grouped()[levels]
    source = TEMPLATE.replace("@CTA@", str(levels[0])).replace("@THREAD@", str(levels[1]))
    built = cuda_gxx(source.replace("@CASES@", "\n".join(map(statements, cases))), "-O0")
    assert built.ok, built.log
    lines = subprocess.run([built.path], capture_output=True, text=True, check=True).stdout.splitlines()
    assert lines == [line for case in cases for line in expected(case)]


@pytest.mark.spec("cpp.meshes")
@pytest.mark.parametrize("case", VECTORS["refused"], ids=lambda c: c["name"])
def test_headers_refuse_misfitting_meshes(case: dict[str, Any], cuda_gxx):
    """The compile error carries the sentence."""
    cta, thread = levels_of(case)
    whole = {**case, "instances": [{"cta": 0, "thread": 0}], "shards": []}
    source = TEMPLATE.replace("@CTA@", str(cta)).replace("@THREAD@", str(thread))
    built = cuda_gxx(source.replace("@CASES@", statements(whole)), "-fsyntax-only")
    assert not built.ok
    assert "axes and program levels do not match" in built.log
