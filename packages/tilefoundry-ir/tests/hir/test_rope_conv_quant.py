"""rope, conv2d, quant. Oracles: loops and formulas in numpy float64; torch's convolution as second witness."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tilefoundry.ir.errors import EvaluationError, TypeRuleError
from tilefoundry.ir.types import DimVar, TensorType

FLOATS = ["f64", "f32", "f16", "bf16"]


def turned(x, cos, sin):
    half = x.shape[-1] // 2
    return x * cos + np.concatenate([-x[..., half:], x[..., :half]], axis=-1) * sin


@pytest.mark.spec("ops.rope")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("table", ["f32", None])
def test_rope(ops, dtype, table):
    q, k = ops.sample((2, 5, 4, 8), dtype, 1), ops.sample((2, 5, 2, 8), dtype, 2)
    cos, sin = (ops.sample((16, 8), table or dtype, seed, -1, 1) for seed in (3, 4))
    ids = np.random.default_rng(0).integers(0, 16, (2, 5))
    for pos in (ids, ids[:1], ids[0], ids.astype(np.int32)):
        rows = np.broadcast_to(pos, (2, 5))
        at = [ops.exact(t)[rows][:, :, None, :] for t in (cos, sin)]
        for got, x in zip(ops.run("rope", q, k, cos, sin, pos), (q, k), strict=True):
            size = np.abs(turned(np.abs(ops.exact(x)), np.abs(at[0]), np.abs(at[1]))) + 2 * np.abs(at[1])
            ops.assert_close(got, turned(ops.exact(x), *at), length=2, magnitude=size)


def test_rope_of_nothing_and_outside(ops):
    cos = ops.sample((4, 8), "f32")
    q = ops.sample((1, 0, 2, 8), "f32")
    assert ops.run("rope", q, q, cos, cos, np.zeros(0, np.int64))[0].shape == (1, 0, 2, 8)
    q = ops.sample((1, 1, 2, 8), "f32")
    for bad in (-1, 4):
        with pytest.raises(EvaluationError, match="leave the 4 cache rows"):
            ops.run("rope", q, q, cos, cos, np.array([bad]))


def convolve(x, w, bias, stride, padding, dilation, groups):
    x = np.pad(x, ((0, 0), (0, 0), (padding[0],) * 2, (padding[1],) * 2))
    reach = [d * (n - 1) + 1 for d, n in zip(dilation, w.shape[2:], strict=True)]
    extent = [(n - r) // s + 1 for n, r, s in zip(x.shape[2:], reach, stride, strict=True)]
    out = np.zeros((x.shape[0], w.shape[0], *extent))
    per, outs = w.shape[1], w.shape[0] // groups
    for o in range(w.shape[0]):
        first = o // outs * per
        for i in range(extent[0]):
            for j in range(extent[1]):
                rows = slice(i * stride[0], i * stride[0] + reach[0], dilation[0])
                columns = slice(j * stride[1], j * stride[1] + reach[1], dilation[1])
                part = x[:, first : first + per, rows, columns]
                out[:, o, i, j] = (part * w[o]).sum(axis=(1, 2, 3)) + bias[o]
    return out


@pytest.mark.spec("ops.conv-quant")
@pytest.mark.parametrize("dtype", [*FLOATS, "fp8e4m3"])
@pytest.mark.parametrize(
    ("stride", "padding", "dilation", "groups"),
    [(1, 0, 1, 1), ((2, 1), (1, 0), 1, 1), (1, 2, (2, 1), 2), (3, 1, 1, 4), ((1, 2), 0, 2, 1)],
)
def test_conv2d(ops, dtype, stride, padding, dilation, groups):
    x, w = ops.sample((2, 4, 9, 8), dtype, 1), ops.sample((8, 4 // groups, 3, 2), dtype, 2)
    bias = ops.sample((8,), dtype, 3)
    both = [v if isinstance(v, tuple) else (v, v) for v in (stride, padding, dilation)]
    attrs = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    for given in ((bias,), ()):
        wide = [ops.exact(v) for v in (x, w, bias if given else np.zeros(8))]
        want = convolve(*wide, *both, groups)
        size = convolve(*map(np.abs, wide), *both, groups)
        got = ops.run("conv2d", x, w, *given, **attrs)
        ops.assert_close(got, want, length=4 * 6 + 1, magnitude=size)
        witness = torch.conv2d(*map(torch.tensor, wide), *both, groups).numpy()
        ops.assert_close(got, witness, length=4 * 6 + 1, magnitude=size)


def test_conv2d_of_nothing(ops):
    w, bias = ops.sample((3, 2, 2, 2), "f32"), ops.sample((3,), "f32")
    assert ops.run("conv2d", np.zeros((0, 2, 4, 4), np.float32), w, bias).shape == (0, 3, 3, 3)
    got = ops.run("conv2d", np.zeros((1, 0, 4, 4), np.float32), np.zeros((3, 0, 2, 2), np.float32), bias)
    ops.assert_same(got, np.broadcast_to(bias.reshape(1, 3, 1, 1), (1, 3, 3, 3)).copy())


def test_conv2d_dynamic(ops):
    b, h = DimVar("B", 0, 9), DimVar("H", 1, 99)
    x, w = TensorType((b, 2, h, 8), "f32"), TensorType((3, 2, 2, 2), "f32")
    assert ops.infer("conv2d", x, w, stride=2).shape == (b, 3, (h - 2) // 2 + 1, 4)
    got = ops.run(
        "conv2d", ops.sample((1, 2, 5, 8), "f32"), ops.sample((3, 2, 2, 2), "f32"), types=(x, w), stride=2
    )
    assert got.shape == (1, 3, 2, 4)
    with pytest.raises(EvaluationError, match="smaller than the kernel's reach"):
        ops.run(
            "conv2d", ops.sample((1, 2, 1, 8), "f32"), ops.sample((3, 2, 2, 2), "f32"), types=(x, w), stride=2
        )


LIMITS = {"fp8e4m3": 448.0, "fp8e5m2": 57344.0, "f4e2m1": 6.0, "i8": 127.0}


@pytest.mark.spec("ops.conv-quant")
@pytest.mark.parametrize("target", list(LIMITS))
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
def test_quant(ops, dtype, target):
    x = ops.sample((3, 4, 32), dtype, 1, -5, 5)
    x[0, 0, :8] = 0
    codes, scales = ops.run("quant", x, group=8, target_dtype=target)
    assert codes.shape == x.shape and codes.dtype == ops.NUMPY[target] and scales.shape == (3, 4, 4)
    groups = ops.exact(x).reshape(3, 4, 4, 8)
    want = np.maximum(np.abs(groups).max(axis=-1), 1e-10) / LIMITS[target]
    ops.assert_close(scales, want)
    # The oracle scales by the f32 scale that was returned: then each code is one exact rounding.
    with np.errstate(over="ignore"):
        scaled = (groups.astype(np.float32) / scales[..., None]).clip(-LIMITS[target], LIMITS[target])
    exact = np.rint(scaled) if target == "i8" else scaled
    ops.assert_same(codes, exact.reshape(x.shape).astype(ops.NUMPY[target]))
    assert (ops.exact(codes)[0, 0, :8] == 0).all()
    back = (ops.exact(codes).reshape(groups.shape) * scales[..., None]).reshape(x.shape)
    step = {"fp8e4m3": 2**-4, "fp8e5m2": 2**-3, "f4e2m1": 0.25, "i8": 0.5 / 127}[target]
    assert np.abs(back - ops.exact(x)).max() <= 5 * step * 1.01


def test_quant_defaults_and_nan(ops):
    x = ops.sample((2, 256), "f32")
    x[1, 3] = np.nan
    codes, scales = ops.run("quant", x)
    assert codes.dtype == ops.NUMPY["fp8e4m3"] and scales.shape == (2, 2)
    assert np.isnan(scales[1, 0]) and not np.isnan(scales[1, 1]) and np.isnan(ops.exact(codes)[1, :128]).all()
    s = DimVar("S", 0, 9)
    _, scale = ops.infer("quant", TensorType((s, 256), "bf16")).elements
    assert scale == TensorType((s, 2), "f32")


Q, C, P = TensorType((2, 5, 4, 8), "f32"), TensorType((16, 8), "f32"), TensorType((5,), "i64")
X, W = TensorType((2, 4, 9, 8), "f32"), TensorType((8, 4, 3, 3), "f32")


@pytest.mark.parametrize(
    ("op", "types", "attrs", "message"),
    [
        ("rope", (Q, TensorType((2, 5, 2, 6), "f32"), C, C, P), {}, "equal but for heads"),
        ("rope", (Q, TensorType((2, 5, 8), "f32"), C, C, P), {}, "equal but for heads"),
        ("rope", (Q, Q, TensorType((16, 4), "f32"), C, P), {}, r"both must be \[positions, 8\]"),
        ("rope", (Q, Q, C, C, TensorType((4,), "i64")), {}, "pos_ids is"),
        ("rope", (Q, Q, C, C, TensorType((5,), "f32")), {}, "i32 or i64 is needed"),
        ("rope", (Q, Q, C.with_dtype("f64"), C.with_dtype("f64"), P), {}, "f32 or f32 is needed"),
        (
            "rope",
            (TensorType((1, 5, 2, 7), "f32"),) * 2 + (TensorType((9, 7), "f32"),) * 2 + (P,),
            {},
            "must be even",
        ),
        ("conv2d", (X, TensorType((8, 3, 3, 3), "f32")), {}, "does not fit x"),
        ("conv2d", (X, W), {"groups": 2}, "does not fit x"),
        ("conv2d", (X, TensorType((3, 2, 3, 3), "f32")), {"groups": 2}, "a multiple of groups"),
        ("conv2d", (X, W, TensorType((4,), "f32")), {}, "one bias per output"),
        ("conv2d", (X, TensorType((8, 4, 10, 3), "f32")), {}, "reaches over 10 elements of axis 2"),
        ("conv2d", (X, TensorType((8, 4, DimVar("K"), 3), "f32")), {}, "must be integers of 1 or more"),
        ("conv2d", (X, W), {"padding": -1}, "an integer of 0 or more is needed"),
        ("conv2d", (X, W), {"stride": (1, 1, 1)}, "two values are needed"),
        ("conv2d", (TensorType((2, 9, 8), "f32"), W), {}, "are needed"),
        ("conv2d", (X.with_dtype("i32"), W.with_dtype("i32")), {}, "a float is needed"),
        ("quant", (TensorType((2, 100), "f32"),), {}, "does not divide into groups of 128"),
        ("quant", (TensorType((2, 128), "i32"),), {}, "f32, f16 or bf16 is needed"),
        (
            "quant",
            (TensorType((2, 128), "f32"),),
            {"target_dtype": "i16"},
            "there are fp8e4m3, fp8e5m2, f4e2m1, i8",
        ),
        ("quant", (TensorType((2, 128), "f32"),), {"scheme": "per_row"}, "there are per_token_group"),
        ("quant", (TensorType((), "f32"),), {}, "does not divide"),
    ],
)
def test_refusals(ops, op, types, attrs, message):
    with pytest.raises(TypeRuleError, match=message):
        ops.infer(op, *types, **attrs)
