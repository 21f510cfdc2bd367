"""Reductions and row kernels of the CPU surface, against numpy in float64."""

from __future__ import annotations

import numpy as np
import pytest

from .cpu_library import NUMPY, Library

REDUCE = {
    "sum": np.sum,
    "mean": np.mean,
    "max": np.max,
    "min": np.min,
    "absmax": lambda x, axis: np.abs(x).max(axis),
}
REDUCTIONS = [(op, s, d) for op in ("sum", "max", "min", "absmax") for s, d in
              [("f32", "f32"), ("bf16", "bf16"), ("f64", "f64"), ("i32", "i32"), ("i8", "i64")]]  # fmt: skip
REDUCTIONS += [("mean", "f32", "f32"), ("mean", "bf16", "bf16"), ("mean", "i32", "f32")]


@pytest.mark.spec("cpp.cpu")
@pytest.mark.parametrize(("op", "source", "target"), REDUCTIONS)
def test_reduce(cpu: Library, op: str, source: str, target: str):
    """Oracle: numpy in float64 (int64 for integers) over each axis of ragged shapes, NaN included."""
    rng = np.random.default_rng(3)
    for shape in ((1, 1, 1), (3, 5, 31), (2, 33, 1025), (7, 2, 16)):
        low, high = (-100, 30) if source.startswith("i") else (-3, 1)
        x = rng.uniform(low, high, shape).astype(NUMPY[source])
        for poison in (False, True):
            if poison and source.startswith("i"):
                continue
            if poison:
                x[0, 0, 0] = np.nan
            for axis in range(3):
                kept = [n for d, n in enumerate(shape) if d != axis]
                out = np.zeros(kept, NUMPY[target])
                cpu(f"reduce_{op}_{source}_{target}", x, out, *shape, axis)
                wide = x.astype(np.int64 if source.startswith("i") else np.float64)
                want = REDUCE[op](wide, axis=axis).astype(NUMPY[target]).astype(np.float64)
                scale = np.abs(wide).sum(axis=axis) if op in ("sum", "mean") else np.zeros(kept)
                exact = {"f32": 3e-7, "bf16": 4e-3, "f64": 1e-15}.get(target, 0)
                bound = exact * (scale / (shape[axis] if op == "mean" else 1)) + exact * np.abs(want)
                got = out.astype(np.float64)
                assert np.array_equal(np.isnan(got), np.isnan(want))
                ok = ~np.isnan(want)
                assert (np.abs(got - want)[ok] <= bound[ok]).all()


def test_empty_reduction(cpu: Library):
    """Nothing to sum is 0; nothing to average is NaN."""
    empty, out = np.zeros((2, 3, 0), np.float32), np.ones((2, 3), np.float32)
    cpu("reduce_sum_f32_f32", empty, out, 2, 3, 0, 2)
    assert (out == 0).all()
    cpu("reduce_mean_f32_f32", empty, out, 2, 3, 0, 2)
    assert np.isnan(out).all()


def test_full_reduction_into_a_scalar(cpu: Library):
    x = np.random.default_rng(0).uniform(-1, 1, (129, 77)).astype(np.float32)
    out = np.zeros((), np.float32)
    cpu("reduce_all", x, out, 129, 77)
    np.testing.assert_allclose(out, x.astype(np.float64).sum(), atol=1e-4)


@pytest.mark.spec("cpp.cpu")
@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16"])
@pytest.mark.parametrize("shape", [(1, 1), (3, 31), (65, 1025), (7, 769)])
def test_row_kernels(cpu: Library, dtype: str, shape: tuple[int, int]):
    """Oracle: the float64 formulas of softmax (both axes), rms_norm and layer_norm."""
    kind = NUMPY[dtype]
    bound = {"f32": 3e-6, "f64": 1e-13, "bf16": 1.6e-2}[dtype]
    rng = np.random.default_rng(1)
    x, w, b = (rng.uniform(-4, 4, s).astype(kind) for s in (shape, shape[1:], shape[1:]))
    wide, weight, bias = (v.astype(np.float64) for v in (x, w, b))
    out = np.zeros(shape, kind)
    for axis in (0, 1):
        cpu(f"softmax_{dtype}", x, out, *shape, axis)
        e = np.exp(wide - wide.max(axis, keepdims=True))
        np.testing.assert_allclose(
            out.astype(np.float64), e / e.sum(axis, keepdims=True), rtol=bound, atol=1e-12
        )
    cpu(f"rms_norm_{dtype}", x, w, out, *shape, 1e-5)
    want = wide / np.sqrt((wide**2).mean(1, keepdims=True) + 1e-5) * weight
    np.testing.assert_allclose(out.astype(np.float64), want, rtol=bound, atol=bound)
    cpu(f"layer_norm_{dtype}", x, w, b, out, *shape, 1e-5)
    centred = wide - wide.mean(1, keepdims=True)
    want = centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5) * weight + bias
    np.testing.assert_allclose(out.astype(np.float64), want, rtol=bound, atol=2 * bound)
