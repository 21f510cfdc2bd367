"""where, argmax, topk. Oracle: numpy and Python's stable sort."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tilefoundry.ir.errors import EvaluationError, TypeRuleError
from tilefoundry.ir.types import DimVar, TensorType

ORDERED = ["f64", "f32", "f16", "bf16", "fp8e4m3", "fp8e5m2", "i8", "u8", "i16", "i32", "i64"]
DTYPES = [*ORDERED, "f8e8m0", "f4e2m1", "bool"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_where_broadcasts(ops, dtype):
    for c, a, b in (
        ((3,), (3,), (3,)),
        ((2, 1), (3,), ()),
        ((), (2, 3), (3,)),
        ((0, 1), (1, 4), (4,)),
        ((2, 3), (), ()),
    ):
        condition = ops.sample(c, "bool", 1)
        left, right = ops.sample(a, dtype, 2, 0.1, 2), ops.sample(b, dtype, 3, 0.1, 2)
        ops.assert_same(ops.run("where", condition, left, right), np.where(condition, left, right))


def test_where_does_not_look_at_the_other_side(ops):
    x = np.array([np.nan, 1], np.float32)
    got = ops.run("where", np.array([False, True]), x, np.zeros(2, np.float32))
    ops.assert_same(got, np.array([0, 1], np.float32))


def rows(x, axis):
    moved = np.moveaxis(x, axis, -1)
    return moved.reshape(int(np.prod(moved.shape[:-1])), moved.shape[-1])


@pytest.mark.spec("ops.selection")
@pytest.mark.parametrize("dtype", ORDERED)
def test_argmax_takes_the_lowest_index_of_equals(ops, dtype):
    for shape in ((7,), (3, 5), (2, 3, 64), (1, 1), (0, 3)):
        # Few different values, so that ties are the rule.
        x = np.round(ops.exact(ops.sample(shape, dtype, 4, 0, 3))).astype(ops.NUMPY[dtype])
        for axis in {-1, len(shape) - 1}:
            want = np.array([int(np.argmax(row)) for row in rows(ops.exact(x), axis)], np.int64).reshape(
                shape[:-1]
            )
            ops.assert_same(ops.run("argmax", x, axis=axis), want)
    x = ops.sample((4, 6), dtype, 5)
    ops.assert_same(ops.run("argmax", x, axis=0), np.argmax(ops.exact(x), axis=0))


def test_nan_is_the_greatest(ops):
    x = np.array([[1, np.nan, 5, np.nan], [np.inf, 1, 2, 3]], np.float32)
    ops.assert_same(ops.run("argmax", x), np.array([1, 0]))
    got, index = ops.run("topk", x, k=3)
    ops.assert_same(index, np.array([[1, 3, 2], [0, 3, 2]]))
    assert np.isnan(got[0, :2]).all() and got[0, 2] == 5


@pytest.mark.spec("ops.selection")
@pytest.mark.parametrize("dtype", ORDERED)
@pytest.mark.parametrize("largest", [True, False])
def test_topk_gives_ties_to_the_lower_index(ops, dtype, largest):
    for shape, axis, k in (((9,), -1, 4), ((3, 8), 1, 8), ((5, 2), 0, 1), ((2, 3), -1, 0), ((0, 4), -1, 2)):
        x = np.round(ops.exact(ops.sample(shape, dtype, 6, 0, 3))).astype(ops.NUMPY[dtype])
        got, index = ops.run("topk", x, k=k, axis=axis, largest=largest)
        lines, picked = rows(ops.exact(x), axis), rows(index, axis)
        for line, chosen in zip(lines, picked, strict=True):
            order = sorted(range(len(line)), key=lambda i: (-line[i] if largest else line[i], i))
            assert chosen.tolist() == order[:k]
        ops.assert_same(got, np.take_along_axis(x, index, axis))
        witness = torch.topk(torch.tensor(ops.exact(x)), k, dim=axis, largest=largest).values.numpy()
        np.testing.assert_array_equal(ops.exact(got), witness)


def test_dynamic_extents(ops):
    b, e = DimVar("B", 0, 9), DimVar("E", 1, 9)
    x = TensorType((b, e), "f32")
    assert ops.infer("argmax", x) == TensorType((b,), "i64")
    values, indices = ops.infer("topk", x, k=4).elements
    assert values == TensorType((b, 4), "f32") and indices == TensorType((b, 4), "i64")
    with pytest.raises(EvaluationError, match=r"k=4 is more than axis 1 of shape \(2, 3\) holds"):
        ops.run("topk", ops.sample((2, 3), "f32"), types=(x,), k=4)
    empty = TensorType((b, DimVar("N", 0, 9)), "f32")
    with pytest.raises(EvaluationError, match=r"axis 1 of shape .* is empty"):
        ops.run("argmax", np.zeros((2, 0), np.float32), types=(empty,))


X = TensorType((4, 6), "f32")


@pytest.mark.parametrize(
    ("op", "types", "attrs", "message"),
    [
        ("where", (X, X, X), {}, "condition is .* bool is needed"),
        ("where", (TensorType((), "bool"), X, TensorType((), "i32")), {}, "operands must have one dtype"),
        ("where", (TensorType((5,), "bool"), X, X), {}, "do not broadcast"),
        ("argmax", (TensorType((2, 0), "f32"),), {}, "is empty, it has no greatest element"),
        ("argmax", (TensorType((), "f32"),), {}, "out of range for rank 0"),
        ("argmax", (TensorType((2,), "bool"),), {}, "a number is needed"),
        ("argmax", (TensorType((2,), "f8e8m0"),), {}, "without arithmetic"),
        ("topk", (X,), {"k": 7}, r"k=7 is outside \[0, 6\]"),
        ("topk", (X,), {"k": -1}, "k=-1 is outside"),
        ("topk", (X,), {"k": 2, "largest": 1}, "True or False is needed"),
        ("topk", (X,), {}, "needs the attribute 'k'"),
    ],
)
def test_refusals(ops, op, types, attrs, message):
    with pytest.raises(TypeRuleError, match=message):
        ops.infer(op, *types, **attrs)
