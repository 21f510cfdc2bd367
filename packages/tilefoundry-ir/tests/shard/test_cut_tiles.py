"""Ops on distributed tiles that the edge of their axis may cut. Oracle: torch on the whole tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from programs import read_back

from tilefoundry.evaluator import evaluate
from tilefoundry.inspection import as_script

SOURCE = """
from tilefoundry.dsl import *
N = DimVar("N", 1, 300)

@func
def f(x: Tensor[(N, 64), "f32"], w: Tensor[(64, 32), "f32"]):
    y = tf.zeros(Tensor[(N, {width}), "f32"])
    with Mesh(("cta", "thread"), (8, 4, 32), ("b", "w", "t")) as c:
        for i in tile(N, 4, over=c.b):
            r = tf.reshard(x[i, :], (4 @ c.w, {columns}), "rmem")
            {first}
            o = {result}
            y = tf.insert_slice(y, tf.reshard(o, (4, {width}), "gmem"), (i, 0))
    return y
"""
SPLIT = "64 @ c.t"
Case = tuple[str, str, str, int, Callable[[Any, Any], Any]]


def per_tile(change: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda x, w: torch.cat([change(part) for part in x.split(4)])


CASES: dict[str, Case] = {
    "matmul": ("64", "pass", "r @ w", 32, lambda x, w: x @ w),
    "softmax": ("64", "pass", "tf.softmax(r, axis=-1)", 64, lambda x, w: x.softmax(-1)),
    "cast": (SPLIT, "pass", "tf.cast(tf.cast(r, 'bf16'), 'f32')", 64, lambda x, w: x.bfloat16().float()),
    "where": (SPLIT, "pass", "tf.where(r > 0.0, r, 0.0)", 64, lambda x, w: x.relu()),
    "concat": ("64", "pass", "tf.concat(r, r, axis=1)", 128, lambda x, w: torch.cat([x, x], 1)),
    "slice": ("64", "pass", "r[:, :32]", 32, lambda x, w: x[:, :32]),
    "transpose": (SPLIT, "a = tf.transpose(r, (1, 0))", "tf.transpose(a, (1, 0))", 64, lambda x, w: x),
    "reshape": ("64", "a = tf.reshape(r, (-1, 8, 8))", "tf.reshape(a, (-1, 64))", 64, lambda x, w: x),
    "topk": ("64", "v, j = tf.topk(r, k=64, axis=-1)", "v", 64, lambda x, w: x.sort(-1, descending=True)[0]),
    "rows stay whole": (
        SPLIT,
        "a = tf.reshard(r, (4, 64 @ c.t), 'rmem')",
        "tf.exp(a)",
        64,
        lambda x, w: x.exp(),
    ),
    "through smem": (
        SPLIT,
        "s = tf.reshard(r, (4, 64), 'smem')",
        "tf.reshard(s, (4, 64 @ c.t), 'rmem') * 2.0",
        64,
        lambda x, w: x * 2,
    ),
    # Lanes outside of the last tile take no part: the sum over its rows is that of the rows there are.
    "sum over rows": (
        "64",
        "s = tf.reshard(tf.reduce(r, axes=(0,), kind='sum'), (1, 64), 'rmem')",
        "tf.reshard(r, (4, 64), 'rmem') + s",
        64,
        per_tile(lambda part: part + part.sum(0, keepdim=True)),
    ),
}


@pytest.mark.spec("dsl.tiles-over-axes")
@pytest.mark.parametrize("name", CASES)
def test_an_op_on_a_cut_tile_computes_on_the_rows_there_are(name: str) -> None:
    columns, first, result, width, wanted = CASES[name]
    first = "" if first == "pass" else first
    f = read_back(SOURCE.format(columns=columns, first=first, result=result, width=width))["f"]
    for rows in (1, 4, 7):
        x, w = torch.randn(rows, 64), torch.randn(64, 32)
        torch.testing.assert_close(evaluate(f, x, w), wanted(x, w), rtol=1e-4, atol=1e-4)
    text = as_script(f)
    assert read_back(text)["f"] == f, text
