"""Generated C++ of small programs. Oracle: files under ``golden/``, read by a person when they change."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilefoundry import lower
from tilefoundry.codegen.cpu.emit import emit_module
from tilefoundry.ir.hir.function import Function
from tilefoundry.ir.types import DimVar

from .harness import Program, constant

GOLDEN = Path(__file__).parent / "golden"
N = DimVar("N", 1, 1000)
M = DimVar("M", 1, 1000)


def pointwise() -> Function:
    p = Program("pointwise")
    x, y = p.param("x", (N, M)), p.param("y", (M,))
    return p.done(p("mul", p("exp", p("add", x, y)), constant("f32", 0.5)))


def flat_bf16() -> Function:
    p = Program("flat_bf16")
    g, u = p.param("g", (N, M), "bf16"), p.param("u", (N, M), "bf16")
    return p.done(p("mul", p("silu", g), u))


def softmax() -> Function:
    p = Program("softmax")
    return p.done(p("softmax", p.param("x", (N, M))))


def rms_norm() -> Function:
    p = Program("rms_norm")
    return p.done(p("rms_norm", p.param("x", (N, 256), "bf16"), p.param("w", (256,), "bf16")))


def column_mean() -> Function:
    p = Program("column_mean")
    return p.done(p("reduce", p.param("x", (N, M)), axes=(0,), keepdim=False, kind="mean"))


def matmul_gelu() -> Function:
    p = Program("matmul_gelu")
    product = p("matmul", p.param("x", (N, 64)), p.param("w", (64, M)))
    return p.done(p("gelu", p("add", product, p.param("b", (M,)))))


def matmul_norm() -> Function:
    p = Program("matmul_norm")
    product = p("matmul", p.param("x", (N, 64)), p.param("w", (64, 32)))
    return p.done(p("layer_norm", p("add", product, p.param("r", (N, 32)))))


def widened_weights() -> Function:
    p = Program("widened_weights")
    w = p("mul", p("cast", p.param("w", (64, M), "i8"), dtype="f32"), p.param("s", (M,)))
    rows = p("mul", p("silu", p.param("g", (N, 64))), p.param("u", (N, 64)))
    return p.done(p("add", p("matmul", rows, w), p.param("b", (M,))))


def heads() -> Function:
    p = Program("heads")
    q = p("transpose", p("reshape", p.param("x", (N, M, 24)), new_shape=(N, M, 3, 8)), perm=(0, 2, 1, 3))
    scores = p("softmax", p("matmul", q, p("transpose", q, perm=(0, 1, 3, 2))))
    mixed = p("transpose", p("matmul", scores, q), perm=(0, 2, 1, 3))
    return p.done(p("reshape", mixed, new_shape=(N, M, 24)))


def gather() -> Function:
    p = Program("gather")
    rows = p("index_select", p.param("table", (100, 16)), p.param("ids", (N, M), "i64"), dim=0)
    return p.done(p("add", rows, p.param("position", (M, 16))))


def joined() -> Function:
    p = Program("joined")
    x, y = p.param("x", (N, 3)), p.param("y", (N, 5))
    return p.done(p("concat", x, p("neg", y), axis=1))


def chained() -> Function:
    p = Program("chained")
    x = p.param("x", (N, 32))
    for i in range(3):
        x = p("relu", p("matmul", x, p.param(f"w{i}", (32, 32))))
    return p.done(x)


def several() -> Function:
    p = Program("several")
    x = p.param("x", (N, M), "i32")
    return p.done(p("reduce", x, axes=(1,), kind="sum"), p("reduce", x, axes=(1,), kind="max"), p("neg", x))


PROGRAMS = (
    pointwise,
    flat_bf16,
    softmax,
    rms_norm,
    column_mean,
    matmul_gelu,
    matmul_norm,
    widened_weights,
    heads,
    gather,
    joined,
    chained,
    several,
)


@pytest.mark.parametrize("make", PROGRAMS, ids=lambda make: make.__name__)
@pytest.mark.spec("pipeline.goldens")
def test_generated_source(make, update_golden):
    source = emit_module(lower(make(), target="cpu"))
    file = GOLDEN / f"{make.__name__}.cc"
    if update_golden:
        GOLDEN.mkdir(exist_ok=True)
        file.write_text(source)
    assert source == file.read_text(), f"{file} differs; look at it, then run pytest with --update-golden"
