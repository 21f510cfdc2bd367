"""Casts are bit exact. Oracles: rounding by exact fractions, Python integers; ml_dtypes as second witness."""

from __future__ import annotations

from fractions import Fraction
from math import isinf, isnan, nan, trunc

import ml_dtypes
import numpy as np
import pytest

# dtype -> (significant bits, exponent of the least normal number, largest finite value, what overflow gives)
FORMATS = {
    "f64": (53, -1022, Fraction(np.finfo(np.float64).max), "inf"),
    "f32": (24, -126, Fraction(float(np.finfo(np.float32).max)), "inf"),
    "f16": (11, -14, Fraction(65504), "inf"),
    "bf16": (8, -126, Fraction(float(ml_dtypes.finfo(ml_dtypes.bfloat16).max)), "inf"),
    "fp8e4m3": (4, -6, Fraction(448), "nan"),
    "fp8e5m2": (3, -14, Fraction(57344), "inf"),
    "f8e8m0": (1, -127, Fraction(2) ** 127, "nan"),
    "f4e2m1": (2, 0, Fraction(6), "max"),
}
INTEGERS = {"i8": (-(2**7), 2**7 - 1), "u8": (0, 255), "i16": (-(2**15), 2**15 - 1)}
INTEGERS |= {"i32": (-(2**31), 2**31 - 1), "i64": (-(2**63), 2**63 - 1)}
TYPES = [*FORMATS, *INTEGERS, "bool"]


def exact_float(value: float, dtype: str) -> float:
    """``value``, a double or an exact integer, rounded once to ``dtype``."""
    bits, least, largest, overflow = FORMATS[dtype]
    if isinstance(value, float) and isnan(value):
        return -0.0 if dtype == "f4e2m1" else nan
    if dtype == "f8e8m0" and value <= 0:
        return nan
    sign = -1.0 if np.signbit(value) else 1.0
    beyond = {"inf": sign * np.inf, "nan": nan, "max": sign * float(largest)}[overflow]
    if isinstance(value, float) and isinf(value):
        return beyond
    size = abs(Fraction(value))
    if dtype == "f8e8m0" and Fraction(2) ** -127 < size < Fraction(2) ** -126:
        return 2.0**-126  # as ml_dtypes has it
    exponent = size.numerator.bit_length() - size.denominator.bit_length() - 1
    exponent += size >= Fraction(2) ** (exponent + 1)
    quantum = Fraction(2) ** (max(exponent, least) - bits + 1)
    rounded = round(size / quantum) * quantum
    if dtype == "f8e8m0":
        rounded = max(rounded, Fraction(2) ** -127)
    return beyond if rounded > largest else sign * float(rounded)


def exact_integer(value: float, dtype: str) -> int:
    """A double truncated and saturated; NaN gives 0."""
    low, high = INTEGERS[dtype]
    if isnan(value):
        return 0
    if isinf(value):
        return high if value > 0 else low
    return min(max(trunc(Fraction(value)), low), high)


def wrapped(value: int, dtype: str) -> int:
    low, high = INTEGERS[dtype]
    return (value - low) % (high - low + 1) + low


def source_values(ops, dtype: str):
    """Every code of the small types; for the others edges, ties of the narrow types and random bits."""
    if dtype == "f4e2m1":
        return np.arange(16, dtype=np.uint8).view(ops.NUMPY[dtype])
    if dtype in ("fp8e4m3", "fp8e5m2", "f8e8m0", "i8", "u8"):
        return np.arange(256, dtype=np.uint8).view(ops.NUMPY[dtype])
    if dtype == "bool":
        return np.array([False, True])
    rng = np.random.default_rng(5)
    if dtype in INTEGERS:
        low, high = INTEGERS[dtype]
        powers = [s * (2**k) + d for k in range(63) for s in (1, -1) for d in (-1, 0, 1)]
        ties = [(2**k + 1) * 2**m + d for k in (3, 7, 8, 10, 24, 53) for m in (1, 4, 9) for d in (-1, 0, 1)]
        edge = [v for v in {*powers, *ties, low, high, 0} if low <= v <= high]
        return np.array(sorted(edge) + rng.integers(low, high, 200).tolist(), ops.NUMPY[dtype])
    return _float_values(ops, dtype, rng)


def _float_values(ops, dtype: str, rng):
    kind = np.dtype(ops.NUMPY[dtype])
    bits = rng.integers(0, 256, (200, kind.itemsize), dtype=np.uint8).view(kind).reshape(-1)
    edge = [
        0.0,
        -0.0,
        np.nan,
        np.inf,
        -np.inf,
        447.9,
        448.0,
        463.99,
        464.0,
        464.01,
        480.0,
        61440.0,
        61439.0,
        65519.99,
    ]
    edge += [
        65520.0,
        5.0,
        5.01,
        0.25,
        0.75,
        2.5,
        3.5,
        1e-8,
        2.0**-150,
        2.0**-133,
        2.0**-25,
        2.0**-17,
        3e38,
        3.4e38,
    ]
    edge += [
        2.0**63,
        -(2.0**63),
        2.0**31,
        -(2.0**31) - 1,
        127.5,
        -128.5,
        255.9,
        1e300,
        2.0**-128,
        2.0**-127,
        3.0,
        1.5,
    ]
    for fraction in (2, 3, 7, 10, 23):
        for power in (-20, -6, 0, 5):
            tie = (1 + 2.0**-fraction) * 2.0**power + 2.0 ** (power - fraction - 1)
            edge += [tie, tie * (1 + 2.0**-40), tie * (1 - 2.0**-40), -tie]
    with np.errstate(over="ignore", invalid="ignore"):
        return np.concatenate([np.array(edge).astype(kind), bits])


def expected(value, source: str, target: str):
    if target == "bool":
        return bool(value != 0)
    if target in FORMATS:
        return exact_float(float(value) if source in FORMATS else int(value), target)
    return exact_integer(float(value), target) if source in FORMATS else wrapped(int(value), target)


@pytest.mark.spec("types.casts")
@pytest.mark.parametrize("source", TYPES)
@pytest.mark.parametrize("target", TYPES)
def test_cast_is_exact(ops, source, target):
    values = source_values(ops, source)
    got = ops.run("cast", values, dtype=target)
    want = [expected(v, source, target) for v in values]
    assert got.dtype == ops.NUMPY[target]
    for value, actual, exact in zip(values, got, want, strict=True):
        if target in FORMATS:
            actual = float(actual)
            same = (isnan(actual) and isnan(exact)) or (
                actual == exact and np.signbit(actual) == np.signbit(exact)
            )
        else:
            same = int(actual) == int(exact)
        assert same, f"{source} {value!r} to {target}: got {actual!r}, expected {exact!r}"


@pytest.mark.spec("types.casts")
@pytest.mark.parametrize("target", [t for t in FORMATS if t != "f64"])
def test_cast_from_f32_agrees_with_ml_dtypes(ops, target):
    values = source_values(ops, "f32")
    if target == "f8e8m0":
        # The witness rounds all of this range up; the nearest power of two may be the lower one.
        values = values[~((values > 2.0**-127) & (values < 2.0**-126))]
    with np.errstate(all="ignore"):
        witness = values.astype(ops.NUMPY[target]).astype(np.float64)
    got = ops.run("cast", values, dtype=target).astype(np.float64)
    np.testing.assert_array_equal(got, witness)


@pytest.mark.parametrize("dtype", list(FORMATS))
def test_a_cast_there_and_back_keeps_every_value(ops, dtype):
    values = source_values(ops, dtype)
    back = ops.run("cast", ops.run("cast", values, dtype="f64"), dtype=dtype)
    numbers = ~np.isnan(values.astype(np.float64))
    ops.assert_same(back[numbers], values[numbers])


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1, 4)])
def test_cast_keeps_any_shape(ops, shape):
    for target in ("bf16", "f4e2m1", "i8", "bool"):
        assert ops.run("cast", ops.sample(shape, "f32"), dtype=target).shape == shape
