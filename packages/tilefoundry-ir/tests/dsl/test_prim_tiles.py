"""Tile-level products and attention in @prim_func. Oracle: a small interpreter of TIR against the formula."""

from __future__ import annotations

import importlib.util
import math
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tilefoundry.dsl import DimVar, T, Tensor, prim_func
from tilefoundry.ir.core.expr import Var
from tilefoundry.ir.errors import DslError, VerificationError
from tilefoundry.ir.tir import PrimFunction, Prologue, TileAttention, TileContraction, TileSchedule
from tilefoundry.ir.tir.verify import verify_prim_function
from tilefoundry.ir.types import scalar

M = DimVar("M", 1, 100)


def _model() -> Any:
    path = Path(__file__).with_name("tir_model.py")
    spec = importlib.util.spec_from_file_location("tiles_tir_model", path)
    assert spec is not None and spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = loaded
    spec.loader.exec_module(loaded)
    return loaded


interpret = _model().interpret


def values(count: int, step: int = 7) -> list[float]:
    return [((step * i) % 11 - 5) / 4 for i in range(count)]


def product(x: list[float], w: list[float], rows: int, depth: int, columns: int) -> list[list[float]]:
    return [
        [sum(x[i * depth + k] * w[k * columns + j] for k in range(depth)) for j in range(columns)]
        for i in range(rows)
    ]


@pytest.mark.spec("tir.contraction")
def test_a_product_hands_every_sum_to_its_epilogue() -> None:
    @prim_func
    def f(
        x: Tensor[(M, 4), "bf16"],
        w: Tensor[(4, 3), "bf16"],
        b: Tensor[(3,), "f32"],
        y: Tensor[(M, 3), "bf16"],
    ):
        for i, j, total in T.contract(x, w, tile=(64, 128, 32), stages=3, split_k=2):
            y[i, j] = T.maximum(total + b[j], 0.0)

    (stmt,) = f.body
    assert isinstance(stmt, TileContraction) and (stmt.shape, stmt.depth) == ((M, 3), 4)
    assert stmt.schedule == TileSchedule((64, 128, 32), 3, (1, 1), 2, False)
    x, w, b, y = values(20), values(12, 5), values(3, 3), [math.nan] * 15
    interpret(f, {"M": 5}, x=x, w=w, b=b, y=y)
    sums = product(x, w, 5, 4, 3)
    assert y == [max(sums[i][j] + b[j], 0.0) for i in range(5) for j in range(3)]


@pytest.mark.spec("tir.contraction")
def test_paired_products_and_a_prologue_share_one_pass() -> None:
    @prim_func
    def f(
        x: Tensor[(M, 4), "bf16"],
        g: Tensor[(4, 3), "bf16"],
        q: Tensor[(4, 3), "i8"],
        s: Tensor[(3,), "f32"],
        y: Tensor[(M, 3), "f32"],
        z: Tensor[(M, 3), "f32"],
    ):
        up = (T.cast(q[k, j], "f32") * s[j] for k, j in T.elements((4, 3), "bf16"))
        for i, j, (a, b) in T.contract(x, (g, up), cluster=(2, 1), persistent=True):
            h = T.silu(a) * b
            y[i, j] = h
            z[i, j] = a

    (stmt,) = f.body
    assert isinstance(stmt, TileContraction) and isinstance(stmt.rhs[1], Prologue) and f.output_count == 2
    x, g, s = values(8), values(12, 3), [0.5, 0.25, 2.0]
    q: list[float] = [float((5 * i) % 7 - 3) for i in range(12)]
    y, z = [math.nan] * 6, [math.nan] * 6
    interpret(f, {"M": 2}, x=x, g=g, q=q, s=s, y=y, z=z)
    gate = product(x, g, 2, 4, 3)
    up = product(x, [q[i] * s[i % 3] for i in range(12)], 2, 4, 3)
    assert z == [a for row in gate for a in row]
    wanted = [
        a / (1 + math.exp(-a)) * b for g, u in zip(gate, up, strict=True) for a, b in zip(g, u, strict=True)
    ]
    assert y == wanted


@pytest.mark.spec("tir.contraction")
def test_leading_axes_repeat_and_windows_are_operands() -> None:
    @prim_func
    def f(x: Tensor[(2, M, 6), "f32"], w: Tensor[(6, 3), "f32"], y: Tensor[(2, M, 3), "f32"]):
        for n, i, j, total in T.contract(x[:, :, 2:5], w[1:4]):
            y[n, i, j] = total

    x, w, y = values(24), values(18, 5), [math.nan] * 12
    interpret(f, {"M": 2}, x=x, w=w, y=y)
    rows = [x[6 * i + 2 : 6 * i + 5] for i in range(4)]
    assert y == [sum(row[k] * w[3 * (k + 1) + j] for k in range(3)) for row in rows for j in range(3)]


@pytest.mark.spec("tir.attention")
@pytest.mark.parametrize(("length", "window"), [(4, None), (3, None), (4, 2), (1, 1)])
def test_attention_agrees_with_the_evaluator(length: int, window: int | None) -> None:
    import torch

    from tilefoundry import evaluate, func
    from tilefoundry.dsl import tf

    @prim_func
    def f(
        q: Tensor[(2, 4, 3, 8), "f32"],
        k: Tensor[(2, 2, 4, 8), "f32"],
        v: Tensor[(2, 2, 4, 5), "f32"],
        n: Tensor[(), "i32"],
        y: Tensor[(2, 3, 4, 5), "f32"],
    ):
        for b, h, i, d, o in T.attention(
            q, k, v, n, causal=True, window=window, softcap=20.0, tile=(64, 64), split_kv=2
        ):
            y[b, i, h, d] = o * 2.0

    @func
    def reference(
        q: Tensor[(2, 4, 3, 8), "f32"],
        k: Tensor[(2, 2, 4, 8), "f32"],
        v: Tensor[(2, 2, 4, 5), "f32"],
        n: Tensor[(), "i32"],
    ) -> Tensor[(2, 3, 4, 5), "f32"]:
        out = tf.attention(q, k, v, n, causal=True, window=window, softcap=20.0)
        return tf.transpose(out, (0, 2, 1, 3)) * 2.0

    assert isinstance(f.body[0], TileAttention) and f.body[0].scale == 1 / math.sqrt(8)
    flat = {"q": values(192), "k": values(128, 5), "v": values(80, 3)}
    shapes = {"q": (2, 4, 3, 8), "k": (2, 2, 4, 8), "v": (2, 2, 4, 5)}
    y = [math.nan] * 120
    interpret(f, {}, **flat, n=[length], y=y)
    tensors = [torch.tensor(flat[name]).reshape(shape) for name, shape in shapes.items()]
    wanted = evaluate(reference, *tensors, torch.tensor(length, dtype=torch.int32))
    torch.testing.assert_close(torch.tensor(y).reshape(2, 3, 4, 5), wanted, rtol=1e-5, atol=1e-6)


_STORE = "\n        y[i, j] = a"


@pytest.mark.spec("tir.contraction")
@pytest.mark.parametrize(
    ("body", "message"),
    [
        (f"for i, j, a in T.contract(x, k):{_STORE}", "all need one dtype.*a prologue converts"),
        (f"for i, j, a in T.contract(x, x):{_STORE}", r"has the depth 4, rhs .* M"),
        (f"for i, j, a in T.contract(x, b):{_STORE}", "rhs is bf16.*; numbers of rank 2 or more are needed"),
        (
            f"for i, j, a in T.contract(x, (w, w)):{_STORE}",
            "2 indices and 2 sums are named here.*got 3 names",
        ),
        (f"for i, a in T.contract(x, w):{_STORE}", "2 indices and 1 sum are named here"),
        (f"for i, j, a in T.contract(x, ()):{_STORE}", "rhs is empty"),
        (
            f"for i, j, a in T.contract(x, w, tile=(64, 64)):{_STORE}",
            r"tile is \(rows, columns, depth\), got",
        ),
        (f"for i, j, a in T.contract(x, w, tile=(64, 60, 32)):{_STORE}", "multiples of 8, got 60"),
        (
            f"for i, j, a in T.contract(x, w, tile=64):{_STORE}",
            "tile= is a tuple of ints, .* got 64",
        ),
        (f"for i, j, a in T.contract(x, w, stages=0):{_STORE}", "stages takes ints from 1 to 16, got 0"),
        (f"for i, j, a in T.contract(x, w, cluster=4):{_STORE}", r"cluster= is \(rows, columns\), .* got 4"),
        (f"for i, j, a in T.contract(x, w, cluster=(4, 4)):{_STORE}", "at most 8 CTAs in all"),
        (f"for i, j, a in T.contract(x, w, split_k=0):{_STORE}", "split_k takes ints from 1 to 65536, got 0"),
        (f"for i, j, a in T.contract(x, w, persistent=3):{_STORE}", "persistent is True or False"),
        (f"for i, j, a in T.contract(x, w, warps=3):{_STORE}", "unexpected keyword argument 'warps'"),
        (f"for i, j, a in T.contract(x, 3):{_STORE}", "a buffer or a window of one is needed here, got 3"),
        (
            "for i, j, a in T.contract(x, w):\n        x[i, j] = a",
            "stores to x, which other tiles still read",
        ),
        ("for i, j, a in T.contract(x, w):\n        T.fill(y, 0.0)", "its body runs on each element"),
        ("for i, j, a in T.contract(x, w):\n        T.copy(y, y)", "Evaluate stands after it"),
        ("for i, j, a in T.contract(x, w):\n        return", "Return stands after it"),
        (
            f"for n in T.vectorized(2):\n      for i, j, a in T.contract(x, w):{_STORE}",
            "the vector loop over n",
        ),
        (
            f"for i, j, a in T.contract((k[i, 0] for i in T.elements((4, 3), 'bf16')), w):{_STORE}",
            "one index per",
        ),
        (
            f"for i, j, a in T.contract(x, (k[i, o] for i, o in T.elements((4, 3), 'bf16'))):{_STORE}",
            "the elements of rhs are i8.*bf16 is made from f32.*use T.cast",
        ),
        (
            f"for i, j, a in T.contract(x, (k[i, o] for i, o in T.elements((4, 3), 'bf16') if i)):{_STORE}",
            "without if",
        ),
        (
            f"for i, j, a in T.contract(x, (1.0 for i, o in T.elements('no', 'bf16'))):{_STORE}",
            "T.elements takes",
        ),
        ("T.contract(x, w)", "the value of this statement is not used"),
        ("p = T.contract(x, w)\n    y[0, 0] = p", "a scalar is needed here"),
        ("y[0, 0] = (1.0 for i, o in T.elements((4, 3), 'f32'))", "a scalar is needed here"),
        ("y[0, 0] = T.exp((b[i] for i in T.elements((4,), 'f32')))", "a scalar is needed here"),
        ("z = i", "i is not defined here"),
    ],
)
def test_refused_contractions(run: Any, body: str, message: str) -> None:
    with pytest.raises(DslError, match=message):
        run(
            f"""\
M = DimVar("M", 1, 100)
@prim_func
def f(x: Tensor[(M, 4), "bf16"], w: Tensor[(4, 3), "bf16"], k: Tensor[(4, 3), "i8"], b: Tensor[(3,), "bf16"],
      y: Tensor[(M, 3), "f32"]):
    {body}
"""
        )


@pytest.mark.spec("tir.attention")
@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("T.attention(q, k, k[0])", "v is .* rank 4 or more are needed"),
        ("T.attention(q, q, k)", "k and v one number of heads"),
        ("T.attention(q, k, k, m)", "kv_len is f32.*i32 or i64 of rank 0"),
        ("T.attention(q, k, k, window=4)", "it needs causal=True"),
        ("T.attention(q, k, k, causal=True, window=0)", "window= is an int above 0"),
        ("T.attention(q, k, k, causal=1)", "causal= is True or False"),
        ("T.attention(q, k, k, softcap=-1.0)", "softcap= is a number above 0"),
        ("T.attention(q, k, k, scale='x')", "scale= is a number"),
        ("T.attention(q, k, k, tile=(64,))", r"tile is \(queries, keys\), got"),
        ("T.attention(q, k, k, split_kv=0)", "split_kv takes ints from 1 to 65536, got 0"),
        ("T.attention(q[:, :3], k, k)", "the 3 heads of q are no multiple of the 2 heads"),
    ],
)
def test_refused_attentions(run: Any, call: str, message: str) -> None:
    with pytest.raises(DslError, match=message):
        run(
            f"""\
@prim_func
def f(q: Tensor[(1, 4, 3, 8), "f32"], k: Tensor[(1, 2, 5, 8), "f32"], m: Tensor[(), "f32"],
      y: Tensor[(1, 4, 3, 8), "f32"]):
    for b, h, i, d, o in {call}:
        y[b, h, i, d] = o
"""
        )


@pytest.mark.spec("tir.contraction")
def test_the_verifier_refuses_what_a_pass_broke() -> None:
    @prim_func
    def f(x: Tensor[(M, 4), "f32"], w: Tensor[(4, 3), "f32"], y: Tensor[(M, 3), "f32"]):
        for i, j, total in T.contract(x, w):
            y[i, j] = total

    (stmt,) = f.body
    assert isinstance(stmt, TileContraction)
    verify_prim_function(f)
    broken = {
        "one index per axis": replace(stmt, indices=stmt.indices[:1]),
        "one sum per right operand": replace(stmt, sums=()),
        "its sums are f32": replace(stmt, sums=(Var(scalar("f64"), "total"),)),
        "total is not in scope": replace(stmt, sums=(Var(scalar("f32"), "other"),)),
    }
    for message, wrong in broken.items():
        with pytest.raises(VerificationError, match=message):
            verify_prim_function(PrimFunction("f", f.params, (wrong,), 1))
