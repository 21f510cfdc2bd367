"""reduce over dtypes, axes and shapes. Oracles: numpy float64, Python integers; torch as second witness."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tilefoundry.ir.core.kinds import ReduceKind
from tilefoundry.ir.errors import EvaluationError, TypeRuleError
from tilefoundry.ir.types import DimVar, TensorType

FLOATS = ["f64", "f32", "f16", "bf16", "fp8e4m3", "fp8e5m2"]
CASES = [
    ((6,), (0,)),
    ((3, 5), (-1,)),
    ((3, 5), (0,)),
    ((2, 3, 4), (0, 2)),
    ((2, 3, 4), (-2,)),
    ((2, 3, 4), (1, 0, 2)),
    ((1, 7, 1), (0, 2)),
    ((2, 1025), (1,)),
    ((3, 0, 2), (0,)),
    ((), ()),
    ((2, 3), ()),
]
NUMPY_KINDS = {
    "sum": lambda x, axes, keep: x.sum(axis=axes, keepdims=keep),
    "mean": lambda x, axes, keep: x.mean(axis=axes, keepdims=keep),
    "max": lambda x, axes, keep: x.max(axis=axes, keepdims=keep),
    "min": lambda x, axes, keep: x.min(axis=axes, keepdims=keep),
    "absmax": lambda x, axes, keep: np.abs(x).max(axis=axes, keepdims=keep),
}


@pytest.mark.spec("ops.reductions")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("kind", list(NUMPY_KINDS))
def test_float_reductions(ops, kind, dtype):
    for seed, (shape, axes) in enumerate(CASES):
        if 0 in shape and kind not in ("sum", "mean"):
            continue
        x = ops.sample(shape, dtype, seed)
        wide = ops.exact(x)
        length = int(np.prod([shape[a] for a in axes], dtype=int))
        for keepdim in (True, False):
            want = NUMPY_KINDS[kind](wide, axes, keepdim)
            size = np.abs(wide).sum(axis=axes, keepdims=keepdim)
            size = size / max(length, 1) if kind == "mean" else size if kind == "sum" else 0.0
            got = ops.run("reduce", x, axes=axes, keepdim=keepdim, kind=kind)
            ops.assert_close(got, want, length=length, magnitude=size)


@pytest.mark.spec("ops.reductions")
@pytest.mark.parametrize("dtype", ["i8", "u8", "i16", "i32", "i64"])
@pytest.mark.parametrize("kind", ["sum", "max", "min", "absmax"])
def test_integer_reductions_keep_their_dtype_and_wrap(ops, kind, dtype):
    info = np.iinfo(ops.NUMPY[dtype])
    x = np.random.default_rng(1).integers(info.min, info.max, (3, 40), endpoint=True).astype(ops.NUMPY[dtype])
    x[0, :2] = info.min, info.max
    python = {"sum": sum, "max": max, "min": min, "absmax": lambda row: max(abs(v) for v in row)}[kind]
    want = [(python([int(v) for v in row]) - info.min) % 2**info.bits + info.min for row in x]
    ops.assert_same(ops.run("reduce", x, axes=(1,), keepdim=False, kind=kind), np.array(want, x.dtype))


def test_bool_reductions(ops):
    x = np.array([[True, False], [False, False], [True, True]])
    ops.assert_same(ops.run("reduce", x, axes=1, keepdim=False, kind="max"), x.any(axis=1))
    ops.assert_same(ops.run("reduce", x, axes=1, keepdim=False, kind="min"), x.all(axis=1))


@pytest.mark.spec("ops.nan")
@pytest.mark.parametrize("dtype", ["f64", "f32", "f16", "bf16", "fp8e4m3", "fp8e5m2"])
def test_nan_wins_and_negatives_have_a_negative_maximum(ops, dtype):
    row = np.array([[1, np.nan, 2], [-3, -1, -2]]).astype(ops.NUMPY[dtype])
    for kind, want in (("max", -1), ("min", -3), ("absmax", 3)):
        got = ops.exact(ops.run("reduce", row, axes=(1,), keepdim=False, kind=kind))
        assert np.isnan(got[0]) and got[1] == want


@pytest.mark.spec("ops.reductions")
def test_accumulation_is_wider_than_the_dtype(ops):
    """4096 ones and a half of bf16: adding in bf16 would stall at 256."""
    x = np.ones((1, 4097)).astype(ops.NUMPY["bf16"])
    assert ops.exact(ops.run("reduce", x, axes=(1,), kind="sum"))[0, 0] == 4096
    x = np.full((1, 300), 300).astype(ops.NUMPY["f16"])
    assert ops.exact(ops.run("reduce", x, axes=(1,), kind="mean"))[0, 0] == 300


def test_empty_axes_give_the_identity(ops):
    x = np.zeros((2, 0), np.float32)
    ops.assert_same(ops.run("reduce", x, axes=(1,), keepdim=False, kind="sum"), np.zeros(2, np.float32))
    assert np.isnan(ops.run("reduce", x, axes=(1,), keepdim=False, kind="mean")).all()
    ops.assert_same(
        ops.run("reduce", np.zeros((2, 0), np.int32), axes=(1,), kind="sum"), np.zeros((2, 1), np.int32)
    )


@pytest.mark.parametrize("kind", ["max", "min", "absmax"])
def test_extremes_of_nothing_are_refused_where_a_result_needs_them(ops, kind):
    with pytest.raises(TypeRuleError, match=f"{kind} over an empty axis of f32\\[2, 0\\] has no value"):
        ops.infer("reduce", TensorType((2, 0), "f32"), axes=(1,), kind=kind)
    n = DimVar("N", 0, 9)
    dynamic = (TensorType((2, n), "f32"),)
    with pytest.raises(EvaluationError, match="has no value, one is empty"):
        ops.run("reduce", np.zeros((2, 0), np.float32), types=dynamic, axes=(1,), kind=kind)
    assert ops.run("reduce", np.zeros((0, 0), np.float32), axes=(1,), keepdim=False, kind=kind).shape == (0,)


def test_dynamic_extents(ops):
    b, s = DimVar("B", 0, 9), DimVar("S", 1, 99)
    type_ = TensorType((b, s, 4), "f32")
    assert ops.infer("reduce", type_, axes=(1,)).shape == (b, 1, 4)
    assert ops.infer("reduce", type_, axes=(0, -1), keepdim=False).shape == (s,)
    for shape in ((2, 50, 4), (0, 1, 4)):
        x = ops.sample(shape, "f32")
        got = ops.run("reduce", x, types=(type_,), axes=(1,), keepdim=False, kind="sum")
        ops.assert_close(got, ops.exact(x).sum(axis=1), length=shape[1], magnitude=np.abs(x).sum(axis=1))


def test_torch_agrees(ops):
    x = ops.sample((4, 33), "bf16")
    wide = torch.tensor(ops.exact(x))
    for kind, function in (
        ("sum", torch.sum),
        ("mean", torch.mean),
        ("max", torch.amax),
        ("min", torch.amin),
    ):
        got = ops.run("reduce", x, axes=(1,), keepdim=True, kind=kind)
        ops.assert_close(got, function(wide, dim=1, keepdim=True).numpy(), length=33, magnitude=60.0)


def test_defaults_are_mean_and_keepdim(ops):
    x = ops.sample((2, 4), "f64")
    ops.assert_close(ops.run("reduce", x, axes=(-1,)), x.mean(axis=1, keepdims=True), length=4, magnitude=2.0)
    ops.assert_same(ops.run("reduce", x, axes=(-1,), kind=ReduceKind.MAX), x.max(axis=1, keepdims=True))


@pytest.mark.parametrize(
    ("type_", "attrs", "message"),
    [
        (TensorType((2, 3), "f32"), {"axes": (2,)}, r"axes 2 is out of range for rank 2 \(valid: -2..1\)"),
        (TensorType((2, 3), "f32"), {"axes": (0, -2)}, "names one axis twice"),
        (TensorType((2,), "i32"), {"axes": 0, "kind": "mean"}, "a float for a mean is needed"),
        (TensorType((2,), "bool"), {"axes": 0, "kind": "sum"}, "a number for sum is needed"),
        (TensorType((2,), "f8e8m0"), {"axes": 0, "kind": "max"}, "f8e8m0 stores values without arithmetic"),
        (TensorType((2,), "f32"), {"axes": 0, "keepdim": 1}, "True or False is needed"),
        (TensorType((2,), "f32"), {}, "needs the attribute 'axes'"),
    ],
)
def test_refusals(ops, type_, attrs, message):
    with pytest.raises(TypeRuleError, match=message):
        ops.infer("reduce", type_, **attrs)
