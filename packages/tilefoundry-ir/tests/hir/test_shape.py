"""Ops that move elements, over every dtype. Oracle: numpy on the same bytes."""

from __future__ import annotations

import numpy as np
import pytest

from tilefoundry.ir.errors import EvaluationError, TypeRuleError
from tilefoundry.ir.types import DimVar, TensorType, TupleType

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
N, M = DimVar("N", 0, 100), DimVar("M", 1, 100)


def values(ops, shape, dtype, seed=0):
    return ops.sample(shape, dtype, seed, 0.1, 2.0)


@pytest.mark.spec("ops.views")
@pytest.mark.parametrize("dtype", DTYPES)
def test_reshape(ops, dtype):
    for shape, new, want in (
        ((2, 3, 4), (6, 4), (6, 4)),
        ((2, 3, 4), (-1,), (24,)),
        ((2, 3, 4), (4, -1, 2), (4, 3, 2)),
        ((1,), (), ()),
        ((), (1, 1), (1, 1)),
        ((0, 3), (3, 0, 5), (3, 0, 5)),
        ((0, 3), (-1, 3), (0, 3)),
    ):
        x = values(ops, shape, dtype)
        ops.assert_same(ops.run("reshape", x, new_shape=new), x.reshape(want))


def test_reshape_takes_sizes_that_are_proven_equal(ops):
    one, few = DimVar("A", 4, 5), DimVar("B", 1, 4)
    assert ops.infer("reshape", TensorType((one, 3), "f32"), new_shape=(12,)).shape == (12,)
    assert ops.infer("reshape", TensorType((few // 4 + 1, 4), "f32"), new_shape=(2, 2)).shape == (2, 2)
    halves = few // 2 * 8 + few % 2 * 4
    assert ops.infer("reshape", TensorType((few, 4), "f32"), new_shape=(halves,)).shape == (halves,)
    for shape, new in (((few, 4), (few // 2, 8)), ((few, 4), (M, 4)), ((few // 2, 4), (0,))):
        with pytest.raises(TypeRuleError, match="nothing proves these equal for every value of the extents"):
            ops.infer("reshape", TensorType(shape, "f32"), new_shape=new)


def test_reshape_dynamic(ops):
    x = TensorType((N, M, 12), "f32")
    assert ops.infer("reshape", x, new_shape=(N, M, 3, 4)).shape == (N, M, 3, 4)
    assert ops.infer("reshape", x, new_shape=(N * M, -1)).shape == (N * M, 12)
    assert ops.infer("reshape", x, new_shape=(-1, 12)).shape == (N * M, 12)
    assert ops.infer("reshape", x, new_shape=(-1, 4)).shape == (N * M * 3, 4)
    assert ops.infer("reshape", x, new_shape=(M, N, -1)).shape == (M, N, 12)
    array = values(ops, (2, 5, 12), "f32")
    ops.assert_same(ops.run("reshape", array, types=(x,), new_shape=(N * M, 2, -1)), array.reshape(10, 2, 6))


@pytest.mark.parametrize("dtype", DTYPES)
def test_transpose(ops, dtype):
    for shape, perm in (
        ((2, 3), (1, 0)),
        ((2, 3, 4), (2, 0, 1)),
        ((2, 3, 4), (0, -1, -2)),
        ((), ()),
        ((0, 2), (1, 0)),
    ):
        x = values(ops, shape, dtype)
        ops.assert_same(ops.run("transpose", x, perm=perm), x.transpose(perm))
    x = values(ops, (2, 3, 4), dtype)
    ops.assert_same(ops.run("transpose", x), x.T)


@pytest.mark.spec("ops.views")
@pytest.mark.parametrize("dtype", DTYPES)
def test_slice(ops, dtype):
    x = values(ops, (4, 5, 6), dtype)
    for starts, sizes, strides, index in (
        ((0, 0, 0), (4, 5, 6), None, np.s_[:, :, :]),
        ((1, 2, 3), (2, 3, 1), None, np.s_[1:3, 2:5, 3:4]),
        ((1, 0, 1), (2, 2, 3), (2, 3, 2), np.s_[1::2, 0:4:3, 1::2]),
        ((4, 0, 0), (0, 5, 6), None, np.s_[4:, :, :]),
        ((2, 2, 2), None, None, np.s_[2:, 2:, 2:]),
        ((1, 1, 1), None, (2, 2, 3), np.s_[1::2, 1::2, 1::3]),
    ):
        got = ops.run("slice", x, starts=starts, sizes=sizes, strides=strides)
        ops.assert_same(got, np.ascontiguousarray(x[index]))


def test_slice_starts_that_are_values(ops):
    x = values(ops, (6, 4), "f32")
    for start in (0, 2, 4):
        for kind in (np.int32, np.int64):
            got = ops.run("slice", x, np.array(start, kind), starts=(None, 1), sizes=(2, 3))
            ops.assert_same(got, x[start : start + 2, 1:4])
    got = ops.run("slice", x, np.array(1, np.int32), np.array(3, np.int32), starts=(None, None), sizes=(1, 1))
    ops.assert_same(got, x[1:2, 3:4])
    for start in (-1, 5):
        with pytest.raises(
            EvaluationError, match=rf"axis 0 \(start {start}, size 2, stride 1\) leaves the extent 6"
        ):
            ops.run("slice", x, np.array(start, np.int32), starts=(None, 0), sizes=(2, 4))


def test_slice_by_dims(ops):
    s = DimVar("S", 1, 513)
    table, x = TensorType((512, 3), "f32"), TensorType((s,), "f32")
    assert ops.infer("slice", table, starts=(0, 0), sizes=(s, 3)).shape == (s, 3)
    assert ops.infer("slice", TensorType((s, 3), "f32"), starts=(1, 0)).shape == (s - 1, 3)
    with pytest.raises(TypeRuleError, match=r"leaves the extent 512"):
        ops.infer("slice", table, starts=(512, 0), sizes=(s, 3))
    longer = TensorType((s, 2), "f32")
    array = values(ops, (5, 2), "f32")
    ops.assert_same(ops.run("slice", array, types=(longer,), starts=(s - 2, 0), sizes=(2, 2)), array[3:5])
    with pytest.raises(EvaluationError, match="start -1"):
        ops.run("slice", values(ops, (1, 2), "f32"), types=(longer,), starts=(s - 2, 0), sizes=(2, 2))
    assert x.shape == (s,)


@pytest.mark.spec("ops.views")
@pytest.mark.parametrize("dtype", DTYPES)
def test_insert_slice(ops, dtype):
    dst, update = values(ops, (4, 5), dtype), values(ops, (2, 3), dtype, 7)
    for offsets in ((0, 0), (2, 2), (1, 0)):
        want = dst.copy()
        want[offsets[0] : offsets[0] + 2, offsets[1] : offsets[1] + 3] = update
        ops.assert_same(ops.run("insert_slice", dst, update, offsets=offsets), want)
    got = ops.run("insert_slice", dst, update, np.array(2, np.int64), offsets=(None, 1))
    want = dst.copy()
    want[2:4, 1:4] = update
    ops.assert_same(got, want)
    with pytest.raises(EvaluationError, match="leaves the extent 4"):
        ops.run("insert_slice", dst, update, np.array(3, np.int64), offsets=(None, 1))


@pytest.mark.spec("ops.views")
@pytest.mark.parametrize("dtype", DTYPES)
def test_concat_stack_split(ops, dtype):
    a, b, empty = values(ops, (2, 3), dtype), values(ops, (2, 4), dtype, 1), values(ops, (2, 0), dtype)
    ops.assert_same(ops.run("concat", a, b, empty, a, axis=-1), np.concatenate([a, b, empty, a], axis=1))
    ops.assert_same(ops.run("concat", a, a), np.concatenate([a, a]))
    for axis in (0, 1, -1):
        ops.assert_same(ops.run("stack", a, a, a, axis=axis), np.stack([a, a, a], axis=axis))
    x = values(ops, (4, 6), dtype)
    for axis, parts in ((0, 2), (-1, 3), (1, 1)):
        for got, want in zip(
            ops.run("split", x, axis=axis, num_splits=parts), np.split(x, parts, axis), strict=True
        ):
            ops.assert_same(got, np.ascontiguousarray(want))


def test_join_dynamic(ops):
    x, y = TensorType((N, 3), "f32"), TensorType((M, 3), "f32")
    assert ops.infer("concat", x, y).shape == (N + M, 3)
    a, b = values(ops, (0, 3), "f32"), values(ops, (5, 3), "f32")
    ops.assert_same(ops.run("concat", a, b, types=(x, y)), b)
    part = ops.infer("split", TensorType((N * 4, 2), "f32"), axis=0, num_splits=2)
    assert part == TupleType((TensorType((N * 2, 2), "f32"),) * 2)


def test_tuple_get_item(ops):
    pair = TupleType((TensorType((2,), "f32"), TensorType((3,), "i32")))
    assert ops.infer("tuple_get_item", pair, index=1) == TensorType((3,), "i32")
    for index in (-1, 2):
        with pytest.raises(TypeRuleError, match=f"index {index} is outside a tuple of 2"):
            ops.infer("tuple_get_item", pair, index=index)
    with pytest.raises(TypeRuleError, match="x must be a tuple"):
        ops.infer("tuple_get_item", TensorType((2,), "f32"), index=0)
    with pytest.raises(TypeRuleError, match="take an element of the tuple first"):
        ops.infer("neg", pair)


@pytest.mark.parametrize("dtype", DTYPES)
def test_repeat_interleave(ops, dtype):
    x = values(ops, (2, 3, 2), dtype)
    for axis, repeats in ((0, 2), (1, 3), (-1, 1)):
        ops.assert_same(
            ops.run("repeat_interleave", x, repeats=repeats, axis=axis), np.repeat(x, repeats, axis)
        )
    assert ops.infer("repeat_interleave", TensorType((2, N), "f32"), repeats=4, axis=1).shape == (2, N * 4)


X = TensorType((4, 6), "f32")


@pytest.mark.parametrize(
    ("op", "types", "attrs", "message"),
    [
        ("reshape", (X,), {"new_shape": (5, 5)}, r"with 24 elements, new_shape \(5, 5\) has 25"),
        ("reshape", (X,), {"new_shape": (-1, -1)}, "may hold one -1"),
        ("reshape", (X,), {"new_shape": (-2, 12)}, "no other negative extent"),
        ("reshape", (X,), {"new_shape": (5, -1)}, "the -1 of .* cannot be worked out"),
        ("reshape", (TensorType((0, 2), "f32"),), {"new_shape": (-1, 0)}, "cannot be worked out"),
        ("reshape", (TensorType((N, 4), "f32"),), {"new_shape": (8, -1)}, "does not divide"),
        ("transpose", (X,), {"perm": (0,)}, "has 1 axes"),
        ("transpose", (X,), {"perm": (0, 0)}, "names one axis twice"),
        ("transpose", (X,), {"perm": (0, 2)}, "perm 2 is out of range"),
        ("slice", (X,), {"starts": (0,)}, "starts has 1 entries, the tensor has rank 2"),
        (
            "slice",
            (X,),
            {"starts": (0, 4), "sizes": (4, 3)},
            r"axis 1 \(start 4, size 3, stride 1\) leaves the extent 6",
        ),
        ("slice", (X,), {"starts": (0, 0), "sizes": (3, 3), "strides": (2, 1)}, "stride 2"),
        ("slice", (X,), {"starts": (0, 0), "sizes": (1, 1, 1)}, "sizes has 3 entries"),
        ("slice", (X,), {"starts": (0, 0), "sizes": (1, -1)}, "can be negative"),
        ("slice", (X,), {"starts": (0, -1), "sizes": (1, 1)}, "count from the start of the axis"),
        ("slice", (X,), {"starts": (0, 0), "strides": (1, 0)}, "an integer of 1 or more is needed"),
        (
            "slice",
            (X,),
            {"starts": (0, None), "sizes": (1, 1)},
            "leaves 1 axes to start operands, 0 were given",
        ),
        ("slice", (X, TensorType((), "i32")), {"starts": (0, None)}, "needs sizes="),
        ("slice", (X, TensorType((1,), "i32")), {"starts": (0, None), "sizes": (1, 1)}, "a scalar is needed"),
        ("slice", (X, TensorType((), "f32")), {"starts": (0, None), "sizes": (1, 1)}, "i32 or i64 is needed"),
        ("insert_slice", (X, TensorType((5, 1), "f32")), {"offsets": (0, 0)}, "leaves the extent 4"),
        ("insert_slice", (X, TensorType((5,), "f32")), {"offsets": (0, 0)}, "equal ranks are needed"),
        ("insert_slice", (X, TensorType((1, 1), "i32")), {"offsets": (0, 0)}, "operands must have one dtype"),
        ("concat", (X, TensorType((4, 5), "f32")), {"axis": 0}, "may differ in axis 0 alone"),
        ("concat", (X, TensorType((4,), "f32")), {"axis": 0}, "may differ in axis 0 alone"),
        ("concat", (X, TensorType((4, 6), "i32")), {}, "operands must have one dtype"),
        ("concat", (X,), {"axis": 2}, "axis 2 is out of range"),
        ("stack", (X, TensorType((4, 5), "f32")), {}, "equal shapes are needed"),
        ("split", (X,), {"axis": 1, "num_splits": 4}, "does not divide into 4 equal parts"),
        (
            "split",
            (TensorType((N,), "f32"),),
            {"axis": 0, "num_splits": 2},
            "does not divide into 2 equal parts",
        ),
        ("split", (X,), {"axis": 1, "num_splits": 0}, "an integer of 1 or more is needed"),
        ("repeat_interleave", (X,), {"repeats": 0, "axis": 0}, "an integer of 1 or more is needed"),
    ],
)
def test_refusals(ops, op, types, attrs, message):
    with pytest.raises(TypeRuleError, match=message):
        ops.infer(op, *types, **attrs)
