"""Elementwise ops over dtypes, ranks and broadcast forms. Oracles: numpy float64 formulas, exact integers."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from tilefoundry.ir.errors import EvaluationError, TypeRuleError
from tilefoundry.ir.types import DimVar, TensorType

FLOATS = ["f64", "f32", "f16", "bf16", "fp8e4m3", "fp8e5m2"]
INTEGERS = ["i8", "u8", "i16", "i32", "i64"]
FORMS = [
    ((), ()),
    ((5,), ()),
    ((2, 3), (2, 3)),
    ((2, 3), (3,)),
    ((2, 1, 4), (3, 1)),
    ((2, 4, 8), (8,)),
    ((4, 1), (1, 8)),
    ((0, 3), (1, 3)),
    ((1,), (0,)),
    ((2, 3, 1, 2), (1, 1, 5, 1)),
]
SHAPES = [(), (7,), (2, 3), (1, 4, 1), (0,), (3, 0, 2), (2, 1, 2, 3)]

erf = np.vectorize(math.erf, otypes=[np.float64])


def gelu_tanh(x):
    return x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


UNARY = {
    "neg": lambda x: -x,
    "abs": np.abs,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sqrt": np.sqrt,
    "exp": np.exp,
    "exp2": np.exp2,
    "log": np.log,
    "log2": np.log2,
    "square": lambda x: x * x,
    "ceil": np.ceil,
    "floor": np.floor,
    "round": np.rint,
    "sin": np.sin,
    "cos": np.cos,
    "erf": lambda x: erf(x) if x.size else x,
    "relu": lambda x: np.maximum(x, 0),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "tanh": np.tanh,
    "softplus": lambda x: np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))),
    "gelu": gelu_tanh,
}
# Results that pass through a cancelling step carry the rounding of terms of this size.
MAGNITUDE = {"gelu": lambda x: np.abs(x), "log": lambda x: 1.0, "log2": lambda x: 1.0, "sin": lambda x: 1.0}
MAGNITUDE |= {"cos": lambda x: 1.0, "softplus": lambda x: np.maximum(x, 0)}
TORCH = {
    "relu": torch.relu,
    "silu": torch.nn.functional.silu,
    "gelu": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
}
TORCH |= {"softplus": lambda x: torch.nn.functional.softplus(x, threshold=1e9)}


@pytest.mark.spec("ops.elementwise")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", list(UNARY))
def test_unary_floats(ops, name, dtype):
    low = 0.1 if name in ("rsqrt", "sqrt", "log", "log2") else -3.0
    for seed, shape in enumerate(SHAPES):
        x = ops.sample(shape, dtype, seed, low, 3.0)
        wide = ops.exact(x)
        want = UNARY[name](wide)
        size = MAGNITUDE.get(name, lambda x: 0.0)(wide)
        ops.assert_close(ops.run(name, x), want, magnitude=size, steps=4, length=4)
        function = TORCH.get(name) or getattr(torch, name)
        ops.assert_close(
            ops.run(name, x), function(torch.tensor(wide)).numpy(), magnitude=size, steps=4, length=4
        )


@pytest.mark.parametrize("dtype", FLOATS)
def test_gelu_without_approximation(ops, dtype):
    x = ops.sample((3, 50), dtype, 1, -5.0, 5.0)
    wide = ops.exact(x)
    got = ops.run("gelu", x, approximate="none")
    ops.assert_close(got, wide / 2 * (1 + erf(wide / np.sqrt(2))), magnitude=np.abs(wide), length=8, steps=4)


@pytest.mark.parametrize("dtype", ["f64", "f32", "f16", "bf16"])
def test_unary_special_values(ops, dtype):
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -1.0]).astype(ops.NUMPY[dtype])
    cases = {
        "exp": [1, 1, np.inf, 0, np.nan],
        "log": [-np.inf, -np.inf, np.inf, np.nan, np.nan, np.nan],
        "sqrt": [0, -0.0, np.inf, np.nan, np.nan, np.nan],
        "rsqrt": [np.inf, -np.inf, 0, np.nan, np.nan, np.nan],
        "relu": [0, 0, np.inf, 0, np.nan, 0],
        "tanh": [0, 0, 1, -1, np.nan],
        "sigmoid": [0.5, 0.5, 1, 0, np.nan],
        "softplus": [np.log(2), np.log(2), np.inf, 0, np.nan],
        "erf": [0, 0, 1, -1, np.nan],
        "abs": [0, 0, np.inf, np.inf, np.nan, 1],
    }
    for name, want in cases.items():
        ops.assert_close(ops.run(name, x)[: len(want)], want, steps=4)


def test_round_goes_to_even(ops):
    x = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.49999997], np.float32)
    ops.assert_same(ops.run("round", x), np.array([-2, -2, -0.0, 0, 2, 2, 0], np.float32))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_unary_integers_wrap(ops, dtype):
    info = np.iinfo(ops.NUMPY[dtype])
    x = np.array([info.min, info.min + 1, 0, 1, 7, info.max], ops.NUMPY[dtype])
    modulus = 2**info.bits
    for name, function in (
        ("neg", lambda v: -v),
        ("abs", abs),
        ("square", lambda v: v * v),
        ("relu", lambda v: max(v, 0)),
    ):
        want = [(function(int(v)) - info.min) % modulus + info.min for v in x]
        ops.assert_same(ops.run(name, x), np.array(want, x.dtype))


def test_logical_ops(ops):
    a, b = np.array([True, True, False, False]), np.array([True, False, True, False])
    ops.assert_same(ops.run("logical_not", a), ~a)
    ops.assert_same(ops.run("logical_and", a, b), a & b)
    ops.assert_same(ops.run("logical_or", a, b), a | b)


ARITHMETIC = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "floor_div": np.floor_divide,
    "mod": np.mod,
    "minimum": np.minimum,
    "maximum": np.maximum,
}
COMPARE = {
    "cmp_eq": np.equal,
    "cmp_ne": np.not_equal,
    "cmp_lt": np.less,
    "cmp_le": np.less_equal,
    "cmp_gt": np.greater,
    "cmp_ge": np.greater_equal,
}


@pytest.mark.spec("ops.elementwise")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", [*ARITHMETIC, *COMPARE])
def test_binary_floats(ops, name, dtype):
    for seed, (left, right) in enumerate(FORMS):
        a, b = ops.sample(left, dtype, seed), ops.sample(right, dtype, seed + 100, 0.25, 3.0)
        got = ops.run(name, a, b)
        if name in COMPARE:
            ops.assert_same(got, np.asarray(COMPARE[name](ops.exact(a), ops.exact(b))))
        elif name in ("floor_div", "mod") and dtype == "f32":
            # The quotient of two f32 is not a double; exact fractions decide which side of a whole number it is on.
            ops.assert_close(got, _exact_division(name, a, b), magnitude=np.abs(ops.exact(b)), length=2)
        else:
            ops.assert_close(got, ARITHMETIC[name](ops.exact(a), ops.exact(b)))


def _exact_division(name, a, b):
    from fractions import Fraction

    def one(x, y):
        quotient = Fraction(float(x)) // Fraction(float(y))
        return (
            float(quotient)
            if name == "floor_div"
            else float(Fraction(float(x)) - quotient * Fraction(float(y)))
        )

    a, b = np.broadcast_arrays(a, b)
    flat = [one(x, y) for x, y in zip(a.reshape(-1), b.reshape(-1), strict=True)]
    return np.array(flat, np.float64).reshape(a.shape)


@pytest.mark.spec("ops.elementwise")
@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("name", ["add", "sub", "mul", "floor_div", "mod", "minimum", "maximum", *COMPARE])
def test_binary_integers(ops, name, dtype):
    info = np.iinfo(ops.NUMPY[dtype])
    rng = np.random.default_rng(3)
    a = np.concatenate(
        [[info.min, info.min, info.max, info.max, 0], rng.integers(info.min, info.max, 40)]
    ).astype(ops.NUMPY[dtype])
    b = np.concatenate(
        [[-1 if info.min else 1, 1, 3, info.max, 5], rng.integers(info.min, info.max, 40)]
    ).astype(ops.NUMPY[dtype])
    b[b == 0] = 7
    got = ops.run(name, a, b)
    if name in COMPARE:
        ops.assert_same(got, COMPARE[name](a, b))
        return
    python = {
        "add": lambda x, y: x + y,
        "sub": lambda x, y: x - y,
        "mul": lambda x, y: x * y,
        "floor_div": lambda x, y: x // y,
        "mod": lambda x, y: x % y,
        "minimum": min,
        "maximum": max,
    }[name]
    want = [(python(int(x), int(y)) - info.min) % 2**info.bits + info.min for x, y in zip(a, b, strict=True)]
    ops.assert_same(got, np.array(want, a.dtype))


@pytest.mark.spec("ops.nan")
def test_nan_wins_in_minimum_and_maximum(ops):
    a, b = np.array([1, np.nan, 2], np.float32), np.array([np.nan, 1, 3], np.float32)
    for name in ("minimum", "maximum"):
        got = ops.run(name, a, b)
        assert np.isnan(got[:2]).all() and not np.isnan(got[2])


def test_division_signs_follow_python(ops):
    a = np.array([7.0, -7.0, 7.0, -7.0, 1.0], np.float32)
    b = np.array([2.0, 2.0, -2.0, -2.0, 0.1], np.float32)
    ops.assert_same(ops.run("floor_div", a, b), np.array([3, -4, -4, 3, 9], np.float32))
    ops.assert_same(ops.run("mod", a[:4], b[:4]), np.array([1, 1, -1, -1], np.float32))


def test_integer_division_by_zero_is_an_error(ops):
    for name in ("floor_div", "mod"):
        with pytest.raises(EvaluationError, match=f"tf.{name}: an integer divisor is 0"):
            ops.run(name, np.array([1, 2], np.int32), np.array([1, 0], np.int32))


@pytest.mark.spec("ops.elementwise")
@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS])
def test_clamp(ops, dtype):
    x = ops.sample((3, 40), dtype, 2, -4.0 if dtype != "u8" else 0.0, 4.0)
    for low, high in ((-1, 2), (None, 1), (0, None), (3, 3)):
        want = np.clip(ops.exact(x), -np.inf if low is None else low, np.inf if high is None else high)
        got = ops.run("clamp", x, min_val=low, max_val=high)
        assert got.dtype == x.dtype
        np.testing.assert_array_equal(ops.exact(got), want)


def test_clamp_keeps_nan_and_takes_bounds_outside_an_integer_type(ops):
    assert np.isnan(ops.run("clamp", np.array([np.nan], np.float32), min_val=0.0)[0])
    x = np.array([-128, 0, 127], np.int8)
    ops.assert_same(ops.run("clamp", x, min_val=-1000, max_val=1000), x)
    ops.assert_same(ops.run("clamp", x, min_val=500), np.full(3, 127, np.int8))
    ops.assert_same(ops.run("clamp", x, max_val=-500), np.full(3, -128, np.int8))


def test_dynamic_extents_broadcast(ops):
    b, s = DimVar("B", 0, 9), DimVar("S", 1, 9)
    left, right = TensorType((b, s, 4), "f32"), TensorType((s, 1), "f32")
    assert ops.infer("add", left, right).shape == (b, s, 4)
    for rows, columns in ((2, 3), (1, 1), (0, 5)):
        x, y = ops.sample((rows, columns, 4), "f32"), ops.sample((columns, 1), "f32", 1)
        ops.assert_same(ops.run("add", x, y, types=(left, right)), x + y)


F32, I32, BOOL = TensorType((2, 3), "f32"), TensorType((2, 3), "i32"), TensorType((2, 3), "bool")


@pytest.mark.parametrize(
    ("op", "types", "attrs", "message"),
    [
        ("add", (F32, I32), {}, "operands must have one dtype, got lhs: f32.*rhs: i32"),
        ("add", (F32, TensorType((4,), "f32")), {}, "extents 3, 4 differ and none is 1"),
        (
            "add",
            (TensorType((DimVar("B"),), "f32"), TensorType((DimVar("C"),), "f32")),
            {},
            "extents B, C differ",
        ),
        ("add", (BOOL, BOOL), {}, "a number is needed"),
        ("add", (TensorType((2,), "f8e8m0"),) * 2, {}, "f8e8m0 stores values without arithmetic"),
        ("neg", (TensorType((2,), "f4e2m1"),), {}, "f4e2m1 stores values without arithmetic"),
        ("div", (I32, I32), {}, "do not divide exactly; use tf.floor_div"),
        ("div", (BOOL, BOOL), {}, "a float is needed"),
        ("logical_and", (F32, F32), {}, "bool is needed"),
        ("logical_not", (I32,), {}, "bool is needed"),
        ("exp", (I32,), {}, "a float is needed"),
        ("sigmoid", (I32,), {}, "a float is needed"),
        ("relu", (BOOL,), {}, "a number is needed"),
        ("abs", (BOOL,), {}, "a number is needed"),
        ("clamp", (F32,), {}, "needs min_val or max_val"),
        ("clamp", (F32,), {"min_val": 2, "max_val": 1}, "min_val=2 lies above max_val=1"),
        ("clamp", (I32,), {"min_val": 0.5}, "min_val=0.5 is a float"),
        ("clamp", (F32,), {"min_val": "a"}, "a number is needed, got 'a'"),
    ],
)
def test_refusals(ops, op, types, attrs, message):
    with pytest.raises(TypeRuleError, match=message):
        ops.infer(op, *types, **attrs)
