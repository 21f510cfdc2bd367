"""softmax, rms_norm, layer_norm. Oracle: numpy float64 formulas; torch in float64 as second witness."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tilefoundry.ir.errors import TypeRuleError
from tilefoundry.ir.types import DimVar, TensorType

FLOATS = ["f64", "f32", "f16", "bf16", "fp8e4m3", "fp8e5m2"]
SHAPES = [(7,), (3, 31), (2, 1, 33), (1, 1), (0, 5), (2, 0, 4), (2, 1025), (7, 769)]


def softmax(x, axis):
    if not x.shape[axis]:
        return x
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def layer_norm(x, first, eps, weight=1.0, bias=0.0):
    axes = tuple(range(first % x.ndim, x.ndim))
    centred = x - x.mean(axis=axes, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axis=axes, keepdims=True) + eps) * weight + bias


@pytest.mark.spec("ops.norms")
@pytest.mark.parametrize("dtype", FLOATS)
def test_softmax(ops, dtype):
    for seed, shape in enumerate(SHAPES):
        x = ops.sample(shape, dtype, seed, -6, 6)
        for axis in {-1, 0, len(shape) - 1}:
            got = ops.run("softmax", x, axis=axis)
            want = softmax(ops.exact(x), axis)
            ops.assert_close(got, want, length=4 * shape[axis], magnitude=want, steps=4)
            witness = torch.softmax(torch.tensor(ops.exact(x)), axis).numpy()
            ops.assert_close(got, witness, length=4 * shape[axis], magnitude=want, steps=4)


def test_softmax_of_large_values_and_infinities(ops):
    x = np.array([[1e30, 1e30], [-np.inf, 0.0], [88.0, 1000.0]], np.float32)
    ops.assert_close(ops.run("softmax", x), [[0.5, 0.5], [0.0, 1.0], [0.0, 1.0]])
    assert np.isnan(ops.run("softmax", np.full((1, 2), -np.inf, np.float32))).all()
    assert np.isnan(ops.run("softmax", np.array([[1.0, np.nan]], np.float32))).all()


@pytest.mark.spec("ops.norms")
@pytest.mark.parametrize("dtype", FLOATS)
def test_rms_norm(ops, dtype):
    for seed, shape in enumerate(SHAPES):
        x, weight = ops.sample(shape, dtype, seed), ops.sample(shape[-1:], dtype, seed + 9)
        wide = ops.exact(x)
        plain = wide / np.sqrt((wide**2).mean(axis=-1, keepdims=True) + 1e-6) if wide.size else wide
        want = plain * ops.exact(weight)
        ops.assert_close(
            ops.run("rms_norm", x, weight), want, length=shape[-1], magnitude=np.abs(want), steps=4
        )
        ops.assert_close(ops.run("rms_norm", x), plain, length=shape[-1], magnitude=np.abs(plain), steps=4)


@pytest.mark.spec("ops.norms")
@pytest.mark.parametrize("dtype", FLOATS)
def test_layer_norm(ops, dtype):
    for seed, shape in enumerate(SHAPES):
        for axis in {-1, 0}:
            x = ops.sample(shape, dtype, seed)
            tail = shape[axis % len(shape) :]
            weight, bias = ops.sample(tail, dtype, seed + 5), ops.sample(tail, dtype, seed + 6)
            if not x.size:
                assert ops.run("layer_norm", x, weight, bias, axis=axis).shape == shape
                continue
            length = int(np.prod(tail))
            want = layer_norm(ops.exact(x), axis, 1e-5, ops.exact(weight), ops.exact(bias))
            # The mean is subtracted and divided by the spread: its rounding grows by their ratio.
            spread = ops.exact(x).std(axis=tuple(range(axis % len(shape), len(shape))), keepdims=True)
            size = (
                np.abs(want)
                + np.abs(ops.exact(bias))
                + 2.0 / np.maximum(spread, 3e-3) * np.abs(ops.exact(weight))
            )
            options = {"length": length, "magnitude": size, "steps": 4}
            ops.assert_close(ops.run("layer_norm", x, weight, bias, axis=axis, eps=1e-5), want, **options)
            operands = [torch.tensor(ops.exact(v)) for v in (x, weight, bias)]
            witness = torch.nn.functional.layer_norm(operands[0], tail, *operands[1:], 1e-5).numpy()
            ops.assert_close(ops.run("layer_norm", x, weight, bias, axis=axis), witness, **options)


def test_layer_norm_without_affine(ops):
    x = ops.sample((3, 8), "f64")
    ops.assert_close(ops.run("layer_norm", x, eps=1e-3), layer_norm(x, -1, 1e-3), length=8, magnitude=4.0)
    weight = ops.sample((8,), "f64", 4)
    got = ops.run("layer_norm", x, weight, eps=1e-3)
    ops.assert_close(got, layer_norm(x, -1, 1e-3, weight), length=8, magnitude=4.0)


@pytest.mark.parametrize("dtype", ["f64", "f16", "bf16", "fp8e4m3"])
def test_weights_may_be_f32(ops, dtype):
    x, weight, bias = ops.sample((3, 16), dtype), ops.sample((16,), "f32", 1), ops.sample((16,), "f32", 2)
    wide = ops.exact(x)
    want = wide / np.sqrt((wide**2).mean(axis=-1, keepdims=True) + 1e-6) * ops.exact(weight)
    got = ops.run("rms_norm", x, weight)
    assert got.dtype == x.dtype
    ops.assert_close(got, want, length=16, magnitude=np.abs(want), steps=4)
    want = layer_norm(wide, -1, 1e-5, ops.exact(weight), ops.exact(bias))
    got = ops.run("layer_norm", x, weight, bias)
    ops.assert_close(got, want, length=16, magnitude=np.abs(want) + np.abs(ops.exact(bias)) + 2, steps=4)


def test_dynamic_extents(ops):
    s = DimVar("S", 1, 99)
    type_ = TensorType((s, s), "f32")
    for n in (1, 17):
        x = ops.sample((n, n), "f32")
        want = softmax(ops.exact(x), 0)
        ops.assert_close(
            ops.run("softmax", x, types=(type_,), axis=0), want, length=4 * n, magnitude=want, steps=4
        )


@pytest.mark.parametrize(
    ("op", "types", "attrs", "message"),
    [
        ("softmax", (TensorType((), "f32"),), {}, "axis -1 is out of range for rank 0"),
        ("softmax", (TensorType((2,), "i32"),), {}, "a float is needed"),
        ("softmax", (TensorType((2,), "f32"),), {"axis": 1}, "axis 1 is out of range"),
        ("rms_norm", (TensorType((), "f32"),), {}, "it needs an axis to reduce"),
        ("rms_norm", (TensorType((2, 3), "f32"), TensorType((2,), "f32")), {}, r"f32\[3\] is needed"),
        (
            "rms_norm",
            (TensorType((2, 3), "f32"), TensorType((3,), "bf16")),
            {},
            "weight is bf16.* but f32 is needed",
        ),
        (
            "layer_norm",
            (TensorType((2, 3), "f32"), TensorType((3,), "f32"), TensorType((2,), "f32")),
            {},
            "bias is",
        ),
        (
            "layer_norm",
            (TensorType((2, 3), "f32"), TensorType((3,), "f32")),
            {"axis": 0},
            r"f32\[2, 3\] is needed",
        ),
        ("layer_norm", (TensorType((2, 3), "f32"),), {"eps": "small"}, "a number is needed"),
    ],
)
def test_refusals(ops, op, types, attrs, message):
    with pytest.raises(TypeRuleError, match=message):
        ops.infer(op, *types, **attrs)
