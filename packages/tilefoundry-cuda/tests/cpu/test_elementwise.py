"""Elementwise ops, casts and creation. Oracle: the evaluator, on full tensors."""

from __future__ import annotations

import pytest
import torch

from tilefoundry.ir.types import DimVar, TensorType

from .harness import Program, compare
from .op_cases import FLOATS, M, N, case

LONG = DimVar("LONG", 2, 5000)
INTEGERS = ("i8", "u8", "i16", "i32", "i64")
WORDS = """
neg abs rsqrt sqrt exp exp2 log log2 square ceil floor round sin cos
erf relu sigmoid silu tanh softplus gelu
"""
UNARY = WORDS.split()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.spec("ops.all")
def test_unary_ops(dtype):
    compare([case(lambda p, x, op=op: p(op, x), ((N, 7), (33, 7)), dtypes=(dtype,)) for op in UNARY])


@pytest.mark.spec("ops.all")
def test_unary_ops_on_special_values():
    special = torch.tensor(
        [0.0, -0.0, 1.0, -1.0, float("inf"), float("-inf"), float("nan"), 1e-40, 88.9, -104.0, 3e38, 1e-3]
    )
    cases = []
    for op in UNARY:
        program = Program()
        x = program.param("x", (12,))
        cases.append((program.done(program(op, x)), [special]))
    compare(cases)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.spec("ops.all")
def test_binary_ops_broadcast(dtype):
    ops = [
        "add",
        "sub",
        "mul",
        "div",
        "floor_div",
        "mod",
        "minimum",
        "maximum",
        "cmp_eq",
        "cmp_ne",
        "cmp_lt",
        "cmp_le",
        "cmp_gt",
        "cmp_ge",
    ]
    compare(
        [
            case(
                lambda p, x, y, op=op: p(op, x, y), ((N, 1, 5), (4, 1, 5)), ((3, 1), (3, 1)), dtypes=(dtype,)
            )
            for op in ops
        ]
    )


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.spec("ops.all")
def test_integer_ops(dtype):
    binary = ["add", "sub", "mul", "floor_div", "mod", "minimum", "maximum", "cmp_eq", "cmp_lt", "cmp_ge"]
    cases = []
    for op in binary:
        function, tensors = case(
            lambda p, x, y, op=op: p(op, x, y), ((N,), (200,)), ((N,), (200,)), dtypes=(dtype,)
        )
        tensors[1][tensors[1] == 0] = 3
        cases.append((function, tensors))
    cases += [
        case(lambda p, x, op=op: p(op, x), ((N,), (200,)), dtypes=(dtype,))
        for op in ("neg", "abs", "square", "relu")
    ]
    cases.append(case(lambda p, x: p("clamp", x, min_val=-2, max_val=5), ((N,), (200,)), dtypes=(dtype,)))
    cases.append(case(lambda p, x: p("clamp", x, min_val=-1000), ((N,), (200,)), dtypes=(dtype,)))
    compare(cases)


@pytest.mark.spec("ops.all")
def test_logic_and_select():
    compare(
        [
            case(lambda p, x, y: p("logical_and", x, y), ((N,), (50,)), ((N,), (50,)), dtypes=("bool",)),
            case(lambda p, x, y: p("logical_or", x, y), ((N,), (50,)), ((N,), (50,)), dtypes=("bool",)),
            case(lambda p, x: p("logical_not", x), ((N,), (50,)), dtypes=("bool",)),
            case(
                lambda p, c, x, y: p("where", c, x, y),
                ((N, 1), (9, 1)),
                ((4,), (4,)),
                ((N, 4), (9, 4)),
                dtypes=("bool", "f32", "f32"),
            ),
            case(lambda p, x: p("clamp", x, min_val=-0.5, max_val=0.5), ((N,), (50,))),
            case(lambda p, x: p("clamp", x, max_val=0.25), ((N,), (50,)), dtypes=("bf16",)),
        ]
    )


@pytest.mark.parametrize(
    "source", ["f32", "f64", "f16", "bf16", "fp8e4m3", "fp8e5m2", "i8", "u8", "i32", "i64", "bool"]
)
@pytest.mark.spec("ops.all")
def test_casts(source):
    targets = ("f32", "f64", "f16", "bf16", "fp8e4m3", "fp8e5m2", "i8", "u8", "i16", "i32", "i64", "bool")
    cases = [
        case(lambda p, x, t=t: p("cast", x, dtype=t), ((N,), (300,)), dtypes=(source,), seed=3)
        for t in targets
    ]
    for _, tensors in cases:
        if tensors[0].dtype == torch.float32:
            tensors[0][:6] = torch.tensor([float("nan"), float("inf"), float("-inf"), 3e9, -3e9, 300.5])
    compare(cases)


@pytest.mark.spec("ops.all")
def test_creation():
    compare(
        [
            case(lambda p, x: p("add", x, p("arange", end=N)), ((N,), (9,)), dtypes=("i64",)),
            case(lambda p, x: p("arange", end=LONG, start=2, step=3, dtype="i32"), ((LONG,), (19,))),
            case(lambda p, x: p("zeros", type=TensorType((N, 3), "bf16")), ((N,), (9,))),
            case(lambda p, x: p("full_like", x, value=2.5), ((N, 2), (9, 2)), dtypes=("f16",)),
            case(lambda p, x: p("shape_of", x), ((N, 2, M), (9, 2, 5))),
            case(lambda p, x: p("rank", x), ((N, 2, M), (9, 2, 5))),
            case(lambda p, x: p("workspace", type=TensorType((N,), "f32"), zero=True), ((N,), (9,))),
            case(lambda p, x: p("exp", p("prefetch", x)), ((N,), (9,))),
        ]
    )
