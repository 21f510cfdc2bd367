"""Names that headers define as macros or types, and chains longer than a stack is deep. Oracle: the evaluator."""

from __future__ import annotations

import pytest
import torch

import tilefoundry
from tilefoundry import CompilerOptions, jit, lower
from tilefoundry.codegen.cuda import BACKEND as CUDA
from tilefoundry.evaluator import evaluate
from tilefoundry.evaluator.bounds import error_bound
from tilefoundry.ir.hir.function import Function
from tilefoundry.ir.types import DType
from tilefoundry.target import CudaTarget

from .cpu.harness import Program

NAMES = (
    *("CHAR_BIT", "INT_MAX", "HUGE_VAL", "SIZE_MAX", "M_PI", "RAND_MAX", "E2BIG", "BUFSIZ", "CUTE_DEVICE"),
    *("CUTE_NO_UNROLL", "TILEFOUNDRY_USE_REDUCE", "EOF", "NULL", "size_t", "int64_t", "uint32_t", "output"),
    *(
        "TopologyScope",
        "Pack",
        "make_mesh",
        "program_id",
        "await_earlier_launches",
        "first",
        "row",
        "item",
        "lane",
    ),
    *("class", "template", "float", "blockIdx", "größe", "数", "x__y", "_x", "x_", "X"),
)
H200 = CudaTarget("nvidia.h200_sxm")


def named_like_headers() -> Function:
    """A sum of parameters with those names."""
    p = Program()
    given = [p.param(name, (3, 4)) for name in NAMES]
    total = given[0]
    for one in given[1:]:
        total = p("add", total, one)
    return p.done(p("reduce", total, axes=(1,), keepdim=False, kind="sum"))


def test_parameters_may_be_called_what_headers_define():
    function = named_like_headers()
    values = [torch.full((3, 4), float(2**i % 1021)) for i in range(len(NAMES))]
    assert torch.equal(jit(function, target="cpu")(*values), evaluate(function, *values))


def test_device_code_may_hold_names_that_headers_define():
    # The device's compiler is the oracle.
    assert tilefoundry.compile(named_like_headers(), target=H200).entry == "f"


@pytest.mark.parametrize("length", [127, 128, 129, 700])
def test_long_chains_compile(length):
    p = Program()
    value = x = p.param("x", (3, 4))
    for i in range(length):
        value = p("abs" if i % 3 else "neg", value)
    function = p.done(p("add", value, x))
    given = torch.arange(12.0).view(3, 4) - 6
    found, wanted = jit(function, target="cpu")(given), evaluate(function, given)
    assert bool(((found - wanted).abs() <= error_bound(DType.f32).limit(wanted.abs())).all())


def test_a_long_chain_is_several_kernels_on_a_device():
    p = Program()
    value = p.param("x", (300, 400))  # more blocks than a cluster has, so that they are not joined
    for i in range(300):
        value = p("tanh" if i % 2 else "sin", value)
    options, target = CompilerOptions(), CUDA.resolve(H200)
    emitted = CUDA.emit(lower(p.done(value), target=target, options=options), target, options)
    # 128, 128 and 44 ops; the first two are the same kernel.
    assert len(emitted.parts.kernels) == 2
