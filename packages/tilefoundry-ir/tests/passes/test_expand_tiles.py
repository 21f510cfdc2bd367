"""Tile-level statements as loops. Oracle: a small interpreter that computes them by their formula."""

from __future__ import annotations

import importlib.util
import math
import sys
from pathlib import Path
from typing import Any

import pytest
from programs import read_back

from tilefoundry.ir.core.module import Module
from tilefoundry.ir.passes import ExpandTiles, Pipeline
from tilefoundry.ir.tir import PrimFunction, TileAttention, TileContraction, walk_tir

HEAD = """
from tilefoundry.dsl import *
M = DimVar("M", 1, 100)
"""
PRODUCT = """
@prim_func
def f(x: Tensor[(2, M, 6), "f32"], g: Tensor[(3, 4), "f32"], q: Tensor[(3, 4), "i8"], s: Tensor[(4,), "f32"],
      y: Tensor[(2, M, 4), "f32"], z: Tensor[(2, M, 4), "f32"]):
    up = (T.cast(q[k, j], "f32") * s[j] for k, j in T.elements((3, 4), "f32"))
    for i in range(1):
        for n, i, j, a, b in T.contract(x[:, :, 2:5], (g, up), split_k=2):
            h = T.silu(a) * b
            y[n, i, j] = h
            if j > 1:
                z[n, i, j] = a
            else:
                z[n, i, j] = b
"""
INTEGERS = """
@prim_func
def f(x: Tensor[(M, 4), "i8"], w: Tensor[(4, 3), "i8"], y: Tensor[(M, 3), "i64"]):
    for i, j, total in T.contract(x, w):
        y[i, j] = total
"""
ATTENTION = """
@prim_func
def f(q: Tensor[(2, 4, 3, 5), "f32"], k: Tensor[(2, 2, 4, 5), "f32"], v: Tensor[(2, 2, 4, 3), "f32"],
      n: Tensor[(2,), "i32"], y: Tensor[(2, 3, 4, 3), "f32"]):
    for b, h, i, d, o in T.attention(q, k, v{length}{attrs}):
        y[b, i, h, d] = o * 2.0
"""
ATTRS = ("", ", causal=True", ", causal=True, window=2, softcap=2.0, split_kv=2", ", scale=0.3")


def _interpret() -> Any:
    path = Path(__file__).parents[1] / "dsl" / "tir_model.py"
    spec = importlib.util.spec_from_file_location("expand_tir_model", path)
    assert spec is not None and spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = loaded
    spec.loader.exec_module(loaded)
    return loaded


MODEL = _interpret()


def values(count: int, step: int = 7) -> list[float]:
    return [((step * i) % 11 - 5) / 4 for i in range(count)]


def both(source: str, extents: dict[str, int], outputs: dict[str, int], **given: list[float]) -> list[Any]:
    """What the function writes, as it stands and expanded."""
    function = read_back(HEAD + source)["f"]
    module = Pipeline((ExpandTiles(),)).run(Module("f", (function,), "f"))
    expanded = module.lookup("f")
    assert isinstance(expanded, PrimFunction)
    assert not any(isinstance(s, (TileContraction, TileAttention)) for s in walk_tir(expanded.body))
    results = []
    for one in (function, expanded):
        made = {name: [math.nan] * count for name, count in outputs.items()}
        MODEL.interpret(one, extents, **given, **made)
        results.append(made)
    return results


@pytest.mark.spec("passes.expand-tiles")
def test_products_with_prologue_and_pairs() -> None:
    given = {
        "x": values(36),
        "g": values(12, 5),
        "s": values(4, 3),
        "q": [float(i % 5 - 2) for i in range(12)],
    }
    tiled, looped = both(PRODUCT, {"M": 3}, {"y": 24, "z": 24}, **given)
    assert looped["y"] == pytest.approx(tiled["y"], rel=1e-12) and looped["z"] == pytest.approx(
        tiled["z"], rel=1e-12
    )


@pytest.mark.spec("passes.expand-tiles")
def test_products_of_integers_sum_in_i64() -> None:
    given = {"x": [float(i % 7 - 3) for i in range(20)], "w": [float(i % 5 - 2) for i in range(12)]}
    tiled, looped = both(INTEGERS, {"M": 5}, {"y": 15}, **given)
    assert looped == tiled


@pytest.mark.spec("passes.expand-tiles")
@pytest.mark.parametrize("length", ["", ", n"])
@pytest.mark.parametrize(
    "attrs", ["", ", causal=True", ", causal=True, window=2, softcap=2.0, split_kv=2", ", scale=0.3"]
)
def test_attention(length: str, attrs: str) -> None:
    given = {"q": values(120), "k": values(80, 5), "v": values(48, 3), "n": [3.0, 1.0]}
    source = ATTENTION.format(length=length, attrs=attrs)
    tiled, looped = both(source, {}, {"y": 72}, **given)
    assert looped["y"] == pytest.approx(tiled["y"], rel=1e-12, abs=1e-15)


@pytest.mark.spec("passes.expand-tiles")
def test_a_length_outside_the_keys_stops_the_call() -> None:
    given = {"q": values(120), "k": values(80, 5), "v": values(48, 3), "n": [5.0, 1.0]}
    function = read_back(HEAD + ATTENTION.format(length=", n", attrs=""))["f"]
    expanded = ExpandTiles().run(Module("f", (function,), "f")).lookup("f")
    with pytest.raises(MODEL.Aborted, match="kv_len is outside of the keys"):
        MODEL.interpret(expanded, {}, **given, y=[0.0] * 72)
