"""Unary and binary ops of the CPU surface, against numpy in float64."""

from __future__ import annotations

from math import erf

import numpy as np
import pytest

from .cpu_library import BF16, Library


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


UNARY = {
    "neg": np.negative, "abs": np.abs, "square": np.square, "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x), "exp": np.exp, "exp2": np.exp2, "log": np.log, "log2": np.log2,
    "ceil": np.ceil, "floor": np.floor, "round": np.rint, "sin": np.sin, "cos": np.cos,
    "erf": np.vectorize(erf, otypes=[np.float64]), "relu": lambda x: np.where(x < 0, 0, x), "sigmoid": sigmoid,
    "silu": lambda x: x * sigmoid(x), "tanh": np.tanh,
    "gelu": lambda x: 0.5 * x * (1 + np.vectorize(erf, otypes=[np.float64])(x / np.sqrt(2))),
    "gelu_tanh": lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
    "softplus": lambda x: np.logaddexp(x, 0), "identity": lambda x: x,
}  # fmt: skip
SIZES = (1, 3, 15, 16, 17, 1025, 100_003)


@pytest.mark.spec("cpp.cpu")
@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16"])
def test_unary(cpu: Library, name: str, dtype: str):
    """Oracle: numpy in float64. Bounds: a few units in the last place, absolute where results cancel."""
    kind = {"f32": np.float32, "f64": np.float64, "bf16": BF16}[dtype]
    relative = {"f32": 5e-7, "f64": 1e-14, "bf16": 4e-3}[dtype]
    absolute = {"f32": 1e-6, "f64": 1e-14, "bf16": 1e-6}[dtype] if "gelu" in name else 1e-30
    rng = np.random.default_rng(len(name))
    for size in SIZES:
        x = rng.uniform(0.01 if name in ("sqrt", "rsqrt", "log", "log2") else -9, 9, 2 * size).astype(kind)
        for step in (1, 2):
            out = np.zeros(size, kind)
            cpu(f"unary_{name}_{dtype}_{dtype}", x, out, size, step)
            want = UNARY[name](x[: size * step : step].astype(np.float64))
            np.testing.assert_allclose(out.astype(np.float64), want, rtol=relative, atol=absolute)


@pytest.mark.parametrize("name", ["exp", "sigmoid", "silu", "tanh", "relu", "gelu", "softplus"])
def test_unary_at_the_edges(cpu: Library, name: str):
    """NaN stays NaN; infinities and large arguments take the formula's limits."""
    limits = {
        "exp": [0, np.inf, 0, np.inf, 1],
        "sigmoid": [0, 1, 0, 1, 0.5],
        "silu": [np.nan, np.inf, 0, 200, 0],
        "tanh": [-1, 1, -1, 1, 0],
        "relu": [0, np.inf, 0, 200, 0],
        "gelu": [np.nan, np.inf, 0, 200, 0],
        "softplus": [0, np.inf, 0, 200, np.log(2)],
    }[name]
    x = np.array([-np.inf, np.inf, -200, 200, 0, np.nan], np.float32)
    out = np.zeros(6, np.float32)
    cpu(f"unary_{name}_f32_f32", x, out, 6, 1)
    np.testing.assert_allclose(out, np.array([*limits, np.nan], np.float32), atol=1e-30, rtol=1e-6)


def test_exp_over_its_whole_range(cpu: Library):
    """Oracle: float64 exp on a million floats from underflow to overflow; the stated bound is 2 ulp."""
    x = np.linspace(-104, 88.7, 1_000_001).astype(np.float32)
    out = np.zeros_like(x)
    cpu("unary_exp_f32_f32", x, out, x.size, 1)
    want = np.exp(x.astype(np.float64))
    ulp = np.abs(out - want) / np.spacing(want.astype(np.float32)).astype(np.float64)
    assert ulp.max() <= 2.0


def test_integers_wrap(cpu: Library):
    x = np.array([-(2**31), 5, -7, 70000], np.int32)
    for name, want in {"neg": -x, "abs": np.abs(x), "square": x * x}.items():
        out = np.zeros(4, np.int32)
        cpu(f"unary_{name}_i32_i32", x, out, 4, 1)
        np.testing.assert_array_equal(out, want)


def floor_div(a, b):
    return np.where(b == 0, 0, a // np.where(b == 0, 1, b)) if a.dtype.kind == "i" else np.floor_divide(a, b)


def modulo(a, b):
    return np.where(b == 0, 0, a % np.where(b == 0, 1, b)) if a.dtype.kind == "i" else np.mod(a, b)


def quotient(a, b):
    if a.dtype.kind != "i":
        return a / b
    wide = a.astype(np.int64), np.where(b == 0, 1, b).astype(np.int64)
    whole = np.sign(wide[0]) * np.sign(wide[1]) * (np.abs(wide[0]) // np.abs(wide[1]))
    return np.where(b == 0, 0, whole).astype(np.int32)


BINARY = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": quotient, "floor_div": floor_div, "mod": modulo,
    "minimum": np.minimum, "maximum": np.maximum, "cmp_eq": np.equal, "cmp_ne": np.not_equal, "cmp_lt": np.less,
    "cmp_le": np.less_equal, "cmp_gt": np.greater, "cmp_ge": np.greater_equal, "logical_and": np.logical_and,
    "logical_or": np.logical_or,
}  # fmt: skip


@pytest.mark.spec("cpp.cpu")
@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("dtype", ["f32", "i32"])
def test_binary(cpu: Library, name: str, dtype: str):
    """Oracle: numpy, elementwise and broadcast; numpy computes these float operations exactly rounded as well."""
    rng = np.random.default_rng(5)
    rows, columns = 37, 1003
    for low, high in ((-5, 5), (-(2**31), 2**31 - 1)):
        if dtype == "f32":
            a, b = (rng.uniform(-9, 9, (rows, columns)).astype(np.float32) for _ in range(2))
            b[::3] = a[::3]
            a[1, :7] = [np.nan, np.inf, -np.inf, 0, -0.0, np.nan, 1]
            b[1, :7] = [1, 2, 3, 0, 5, np.nan, np.nan]
        else:
            a, b = (rng.integers(low, high, (rows, columns), dtype=np.int32) for _ in range(2))
            b[0, :3], a[0, :3] = [0, -1, -1], [7, -(2**31), 5]
        with np.errstate(all="ignore"):
            want, rowed = BINARY[name](a, b), BINARY[name](a[3][None, :], b[:, 3][:, None])
        out = np.zeros((rows, columns), bool if name.startswith(("cmp", "log")) else a.dtype)
        cpu(f"binary_{name}_{dtype}", a, b, out, rows, columns)
        np.testing.assert_array_equal(out, want)
        cpu(f"broadcast_{name}_{dtype}", a[3].copy(), b[:, 3].copy(), out, rows, columns)
        np.testing.assert_array_equal(out, rowed)
