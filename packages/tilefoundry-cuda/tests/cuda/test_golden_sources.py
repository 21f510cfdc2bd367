"""Generated CUDA C++ of small programs, device and host. Oracle: files under ``golden/``, read by a person when they
change."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilefoundry import CompilerOptions, lower
from tilefoundry.codegen.cuda import BACKEND
from tilefoundry.ir.hir.function import Function
from tilefoundry.ir.types import DimVar
from tilefoundry.target import CudaTarget

from ..cpu import test_golden_sources as shared
from ..cpu.harness import Program

GOLDEN = Path(__file__).parent / "golden"
H200 = CudaTarget("nvidia.h200_sxm")
N = DimVar("N", 1, 1000)


def wide_softmax() -> Function:
    p = Program("wide_softmax")
    return p.done(p("softmax", p.param("x", (64, 32768), "bf16")))


def narrow_norm() -> Function:
    p = Program("narrow_norm")
    return p.done(p("rms_norm", p.param("x", (4096, 128), "bf16"), p.param("w", (128,), "bf16")))


def linear_gated() -> Function:
    p = Program("linear_gated")
    gate = p.param("gate", (N, 256), "bf16")
    weights = p("transpose", p.param("w", (256, 64), "bf16"), perm=(1, 0))
    return p.done(p("mul", p("matmul", p.param("x", (N, 64), "bf16"), weights), p("silu", gate)))


def one_row() -> Function:
    p = Program("one_row")
    weights = p("transpose", p.param("w", (9000, 2048), "bf16"), perm=(1, 0))
    return p.done(p("matmul", p.param("x", (1, 2048), "bf16"), weights))


def narrow_weights() -> Function:
    p = Program("narrow_weights")
    wide = p("cast", p.param("w", (512, 256), "i8"), dtype="bf16")
    weights = p("transpose", p("mul", wide, p.param("scale", (512, 1), "bf16")), perm=(1, 0))
    h = p("mul", p("relu", p.param("g", (2, 256), "bf16")), p.param("u", (2, 256), "bf16"))
    return p.done(p("add", p("matmul", h, weights), p.param("b", (512,), "bf16")))


def many_queries() -> Function:
    p = Program("many_queries")
    q, k = p.param("q", (2, 8, N, 128), "bf16"), p.param("k", (2, 2, N, 128), "bf16")
    return p.done(p("attention", q, k, p.param("v", (2, 2, N, 64), "bf16"), causal=True))


PROGRAMS = (
    shared.pointwise,
    shared.flat_bf16,
    shared.softmax,
    shared.rms_norm,
    shared.column_mean,
    shared.matmul_gelu,
    shared.heads,
    shared.gather,
    shared.several,
    wide_softmax,
    narrow_norm,
    linear_gated,
    one_row,
    narrow_weights,
    many_queries,
)


@pytest.mark.parametrize("make", PROGRAMS, ids=lambda make: make.__name__)
def test_generated_source(make, update_golden):
    source = BACKEND.emit(lower(make(), target=H200), H200, CompilerOptions()).source
    file = GOLDEN / f"{make.__name__}.cu"
    if update_golden:
        GOLDEN.mkdir(exist_ok=True)
        file.write_text(source)
    assert source == file.read_text(), f"{file} differs; look at it, then run pytest with --update-golden"
