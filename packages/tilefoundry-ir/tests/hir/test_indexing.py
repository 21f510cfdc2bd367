"""index_select, index_add, index_copy, cache_update. Oracle: loops over numpy arrays."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tilefoundry.ir.errors import EvaluationError, TypeRuleError
from tilefoundry.ir.types import DimVar, TensorType

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


def values(ops, shape, dtype, seed=0):
    return ops.sample(shape, dtype, seed, 0.1, 2.0)


@pytest.mark.spec("ops.indexing")
@pytest.mark.parametrize("dtype", DTYPES)
def test_index_select(ops, dtype):
    x = values(ops, (4, 5, 3), dtype)
    for dim in (0, 1, -1):
        extent = x.shape[dim]
        for shape in ((), (1,), (4,), (2, 3), (0,), (2, 0, 1)):
            index = np.random.default_rng(1).integers(0, extent, shape)
            for kind in (np.int32, np.int64):
                got = ops.run("index_select", x, np.asarray(index, kind), dim=dim)
                ops.assert_same(got, np.take(x, index, axis=dim))


@pytest.mark.spec("ops.indexing")
@pytest.mark.parametrize("bad", [-1, 4, 100])
def test_indices_outside_are_refused(ops, bad):
    x, rows = values(ops, (4, 2), "f32"), np.array([0, bad])
    with pytest.raises(EvaluationError, match=rf"tf\.index_select: the index {bad} is outside the extent 4"):
        ops.run("index_select", x, rows)
    for op in ("index_add", "index_copy"):
        with pytest.raises(EvaluationError, match=rf"tf\.{op}: the index {bad} is outside the extent 4"):
            ops.run(op, x, rows, x[:2])


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d not in ("f8e8m0", "f4e2m1", "bool")])
def test_index_add_adds_equal_indices_up(ops, dtype):
    dst, src, index = values(ops, (4, 3), dtype), values(ops, (6, 3), dtype, 1), np.array([1, 1, 3, 1, 0, 3])
    got = ops.run("index_add", dst, index, src)
    if np.issubdtype(dst.dtype, np.integer):
        total = dst.astype(object)
        for row, source in zip(index, src.astype(object), strict=True):
            total[row] += source
        info = np.iinfo(dst.dtype)
        ops.assert_same(got, ((total - int(info.min)) % 2**info.bits + int(info.min)).astype(dst.dtype))
        return
    wide, size = ops.exact(dst), np.abs(ops.exact(dst))
    for row, source in zip(index, ops.exact(src), strict=True):
        wide[row] += source
        size[row] += np.abs(source)
    ops.assert_close(got, wide, length=7, magnitude=size)
    witness = torch.tensor(ops.exact(dst)).index_add(0, torch.tensor(index), torch.tensor(ops.exact(src)))
    ops.assert_close(got, witness.numpy(), length=7, magnitude=size)


def test_index_add_along_other_axes(ops):
    dst, src = values(ops, (2, 4, 3), "f64"), values(ops, (2, 2, 3), "f64", 1)
    want = dst.copy()
    want[:, 3] += src[:, 0]
    want[:, 0] += src[:, 1]
    ops.assert_close(ops.run("index_add", dst, np.array([3, 0]), src, dim=-2), want, magnitude=4.0, length=2)


@pytest.mark.parametrize("dtype", DTYPES)
def test_index_copy_keeps_the_last_of_equal_indices(ops, dtype):
    dst, src, index = values(ops, (4, 3), dtype), values(ops, (5, 3), dtype, 1), np.array([2, 0, 2, 0, 2])
    want = dst.copy()
    for row, source in zip(index, src, strict=True):
        want[row] = source
    ops.assert_same(ops.run("index_copy", dst, index, src), want)
    ops.assert_same(ops.run("index_copy", dst.T.copy(), index, src.T.copy(), dim=1), want.T)
    ops.assert_same(ops.run("index_copy", dst, np.zeros(0, np.int32), src[:0]), dst)


@pytest.mark.spec("ops.indexing")
@pytest.mark.parametrize("dtype", DTYPES)
def test_cache_update(ops, dtype):
    cache, new = values(ops, (2, 6, 2, 3), dtype), values(ops, (2, 4, 2, 3), dtype, 1)
    for pos, s in ((0, 4), (2, 4), (5, 1), (6, 0), (3, 2)):
        for shape in ((), (1,), (1, 1)):
            want = cache.copy()
            want[:, pos : pos + s] = new[:, :s]
            at = [np.full(shape, v, np.int32) for v in (pos, s)]
            ops.assert_same(ops.run("cache_update", cache, *at, new), want)


@pytest.mark.spec("ops.indexing")
@pytest.mark.parametrize(("pos", "s"), [(-1, 1), (5, 2), (7, 0), (0, 5), (0, -1)])
def test_cache_update_outside_is_refused(ops, pos, s):
    cache, new = values(ops, (1, 6, 1, 2), "f32"), values(ops, (1, 4, 1, 2), "f32")
    with pytest.raises(EvaluationError, match=r"tf\.cache_update: "):
        ops.run("cache_update", cache, np.array(pos, np.int32), np.array(s, np.int32), new)


def test_dynamic_extents(ops):
    b, s, t = DimVar("B", 0, 9), DimVar("S", 0, 9), DimVar("T", 1, 99)
    ids = TensorType((b, s), "i64")
    assert ops.infer("index_select", TensorType((t, 8), "f32"), ids).shape == (b, s, 8)
    cache, new = TensorType((b, t, 2, 4), "f32"), TensorType((b, s, 2, 4), "f32")
    scalar = TensorType((), "i32")
    assert ops.infer("cache_update", cache, scalar, scalar, new) == cache


X, I = TensorType((4, 6), "f32"), TensorType((3,), "i64")
CACHE, ONE = TensorType((1, 6, 2, 4), "f32"), TensorType((), "i32")


@pytest.mark.parametrize(
    ("op", "types", "attrs", "message"),
    [
        ("index_select", (X, TensorType((3,), "f32")), {}, "index is f32.* i32 or i64 is needed"),
        ("index_select", (X, TensorType((3,), "u8")), {}, "i32 or i64 is needed"),
        ("index_select", (X, I), {"dim": 2}, "dim 2 is out of range for rank 2"),
        (
            "index_add",
            (X, I, TensorType((3, 5), "f32")),
            {},
            r"src is f32\[3, 5\], but f32\[3, 6\] is needed",
        ),
        ("index_add", (X, TensorType((3, 1), "i64"), X), {}, "rank 1 is needed"),
        ("index_add", (X, I, TensorType((3, 6), "f64")), {}, "operands must have one dtype"),
        ("index_add", (TensorType((4,), "bool"), I, TensorType((3,), "bool")), {}, "a number is needed"),
        ("index_add", (TensorType((4,), "f8e8m0"), I, TensorType((3,), "f8e8m0")), {}, "without arithmetic"),
        ("index_copy", (X, I, TensorType((2, 6), "f32")), {}, "is needed for dst"),
        ("cache_update", (CACHE, ONE, ONE, TensorType((1, 3, 2, 5), "f32")), {}, "equal but for the length"),
        ("cache_update", (CACHE, ONE, ONE, TensorType((1, 3, 8), "f32")), {}, "equal but for the length"),
        (
            "cache_update",
            (CACHE, TensorType((2,), "i32"), ONE, CACHE),
            {},
            "cur_pos is .* one element is needed",
        ),
        ("cache_update", (CACHE, ONE, TensorType((), "f32"), CACHE), {}, "i32 or i64 is needed"),
    ],
)
def test_refusals(ops, op, types, attrs, message):
    with pytest.raises(TypeRuleError, match=message):
        ops.infer(op, *types, **attrs)
