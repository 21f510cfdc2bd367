"""arange, zeros, full_like, shape_of, rank, workspace, prefetch. Oracle: numpy."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tilefoundry.evaluator import evaluate
from tilefoundry.ir.core.expr import Bind, Block, Var
from tilefoundry.ir.errors import EvaluationError, TypeRuleError
from tilefoundry.ir.hir import HIR_OPS
from tilefoundry.ir.hir.function import Function
from tilefoundry.ir.types import DimVar, DType, TensorType

DTYPES = [
    "f64",
    "f32",
    "f16",
    "bf16",
    "fp8e4m3",
    "fp8e5m2",
    "f8e8m0",
    "f4e2m1",
    "i8",
    "u8",
    "i16",
    "i32",
    "i64",
    "bool",
]
S = DimVar("S", 0, 99)


def with_dims(op, **attrs):
    """A function of x: f32[S] that returns a value built from S alone."""
    x = Var(TensorType((S,), "f32"), "x")
    call = HIR_OPS[op].call((), attrs)
    out = Var(call.type, "out")
    return Function("f", (x,), call.type, Block((Bind(out, call),), (out,)))


@pytest.mark.spec("ops.creation")
def test_arange(ops):
    for end, start, step in ((5, 0, 1), (9, 2, 3), (8, 2, 3), (4, 4, 1), (0, -5, 2)):
        for dtype, kind in (("i64", np.int64), ("i32", np.int32)):
            got = ops.run("arange", end=end, start=start, step=step, dtype=dtype)
            ops.assert_same(got, np.arange(start, end, step, dtype=kind))


def test_arange_of_dims():
    for n in (0, 1, 7):
        got = evaluate(with_dims("arange", end=S * 2 + 1, start=1, step=2), torch.zeros(n))
        assert got.tolist() == list(range(1, 2 * n + 1, 2))


@pytest.mark.spec("ops.creation")
@pytest.mark.parametrize("dtype", DTYPES)
def test_zeros(ops, dtype):
    for shape in ((), (2, 3), (0, 4)):
        got = ops.run("zeros", type=TensorType(shape, dtype))
        assert got.tobytes() == bytes(len(got.tobytes())) and got.shape == shape
    assert evaluate(with_dims("zeros", type=TensorType((S, 2), dtype)), torch.zeros(3)).shape == (3, 2)


def test_zeros_of_a_shape():
    whole = HIR_OPS["zeros"].call((), {"type": TensorType((S, 2), "bf16", None, "rmem")})
    assert HIR_OPS["zeros"].call((), {"type": (S, 2), "dtype": "bf16", "storage": "rmem"}) == whole


@pytest.mark.parametrize("dtype", DTYPES)
def test_full_like_rounds_once(ops, dtype):
    value = True if dtype == "bool" else 3 if DType.from_name(dtype).is_integer else 0.1
    for shape in ((), (2, 3), (0,)):
        x = ops.sample(shape, dtype, 0, 0.1, 1.0)
        ops.assert_same(ops.run("full_like", x, value=value), np.full(shape, value).astype(ops.NUMPY[dtype]))


def test_full_like_rounds_a_double_to_half_once(ops):
    # Rounding to f32 on the way would land on the tie and then on 1.0.
    value = 1 + 2.0**-11 + 2.0**-40
    got = ops.run("full_like", np.zeros(1, np.float16), value=value)
    ops.assert_same(got, np.array([1 + 2.0**-10], np.float16))


def test_shape_of_and_rank(ops):
    for shape in ((), (3,), (2, 0, 5)):
        x = ops.sample(shape, "bf16")
        ops.assert_same(ops.run("shape_of", x), np.array(shape, np.int64))
        ops.assert_same(ops.run("rank", x), np.array(len(shape), np.int64))
    got = ops.run("shape_of", ops.sample((4, 2), "f32"), types=(TensorType((S, 2), "f32"),))
    ops.assert_same(got, np.array([4, 2]))


@pytest.mark.spec("ops.creation")
@pytest.mark.parametrize("dtype", DTYPES)
def test_workspace_is_zero_where_asked_and_shows_otherwise(ops, dtype):
    type_ = TensorType((2, 3), dtype)
    zero = ops.run("workspace", type=type_, zero=True)
    assert zero.tobytes() == bytes(len(zero.tobytes()))
    dirty = ops.exact(ops.run("workspace", type=type_))
    assert dirty.shape == (2, 3)
    if dtype in ("f64", "f32", "f16", "bf16", "fp8e4m3", "fp8e5m2", "f8e8m0"):
        assert np.isnan(dirty).all()
    elif dtype not in ("f4e2m1", "bool"):
        assert (dirty == float(np.iinfo(ops.NUMPY[dtype]).max)).all()


@pytest.mark.spec("ops.creation")
@pytest.mark.parametrize("dtype", DTYPES)
def test_prefetch_is_the_identity(ops, dtype):
    x = ops.sample((2, 3), dtype, 0, 0.1, 1.0)
    ops.assert_same(ops.run("prefetch", x), x)


def test_a_dim_that_no_argument_gives_is_an_error():
    with pytest.raises(
        EvaluationError,
        match="f: the extent T needs a value for T, which no argument gives; it has values for S",
    ):
        evaluate(with_dims("zeros", type=TensorType((DimVar("T"),), "f32")), torch.zeros(3))


@pytest.mark.parametrize(
    ("op", "types", "attrs", "message"),
    [
        ("arange", (), {}, "needs the attribute 'end'"),
        (
            "arange",
            (),
            {"end": 0, "start": 5},
            r"is not upwards in every case; as in range, the arguments are \(end\), \(start, end\) or",
        ),
        ("arange", (), {"end": S - 1}, "is not upwards in every case"),
        ("arange", (), {"end": 5, "step": 0}, "an integer of 1 or more is needed"),
        ("arange", (), {"end": 5, "dtype": "f32"}, "i32 or i64 is needed"),
        ("zeros", (), {"type": "f32"}, "a tensor type such as Tensor"),
        ("zeros", (), {"type": (2, 3)}, "give dtype="),
        ("zeros", (), {"type": TensorType((2,), "f32"), "dtype": "f32"}, "already says dtype and storage"),
        ("zeros", (), {"type": (2,), "dtype": "f32", "storage": "vram"}, "unknown storage 'vram'"),
        ("workspace", (), {"type": TensorType((2,), "f32"), "zero": 0}, "True or False is needed"),
        ("full_like", (TensorType((2,), "i8"),), {"value": 0.5}, "0.5 does not fit x"),
        ("full_like", (TensorType((2,), "i8"),), {"value": 128}, "128 is outside i8"),
        ("full_like", (TensorType((2,), "u8"),), {"value": -1}, "-1 is outside u8"),
        ("full_like", (TensorType((2,), "bool"),), {"value": 1}, "does not fit x"),
        ("full_like", (TensorType((2,), "f32"),), {"value": True}, "does not fit x"),
        ("full_like", (TensorType((2,), "f32"),), {"value": "a"}, "a number or a bool is needed"),
    ],
)
def test_refusals(ops, op, types, attrs, message):
    with pytest.raises(TypeRuleError, match=message):
        ops.infer(op, *types, **attrs)
