"""Conversions of the CPU surface between element types, against ml_dtypes and numpy."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from .cpu_library import BF16, Library


def all_floats() -> np.ndarray:
    """Every upper half of a float, with four lower halves that sit on and beside rounding ties."""
    high = np.arange(1 << 16, dtype=np.uint32)[:, None] << 16
    return (high | np.array([0, 1, 0x8000, 0xFFFF], np.uint32)).reshape(-1).view(np.float32)


FORMATS = {
    "f16": (np.float16, np.uint16),
    "bf16": (BF16, np.uint16),
    "fp8e4m3": (ml_dtypes.float8_e4m3fn, np.uint8),
    "fp8e5m2": (ml_dtypes.float8_e5m2, np.uint8),
    "f4e2m1": (ml_dtypes.float4_e2m1fn, np.uint8),
}


@pytest.mark.parametrize("name", FORMATS)
def test_narrowing_rounds_like_ml_dtypes(cpu: Library, name: str):
    """Oracle: ml_dtypes on a quarter of a million floats; NaN only has to stay NaN."""
    dtype, bits = FORMATS[name]
    floats = all_floats()
    if name == "f4e2m1":
        floats = floats[~np.isnan(floats)]
    out = np.zeros(floats.size, bits)
    cpu(f"to_{name}", floats, out, floats.size)
    with np.errstate(all="ignore"):
        want = floats.astype(dtype)
    nan = np.isnan(want.astype(np.float32))
    assert np.array_equal(np.isnan(out.view(dtype).astype(np.float32)), nan)
    assert np.array_equal(out[~nan], want.view(bits)[~nan])


@pytest.mark.parametrize("name", [*FORMATS, "f8e8m0"])
def test_widening_is_exact(cpu: Library, name: str):
    """Oracle: ml_dtypes on every code."""
    dtype, bits = {**FORMATS, "f8e8m0": (ml_dtypes.float8_e8m0fnu, np.uint8)}[name]
    codes = np.arange(16 if name == "f4e2m1" else 1 << (8 * np.dtype(bits).itemsize)).astype(bits)
    out = np.zeros(codes.size, np.float32)
    cpu(f"from_{name}", codes, out, codes.size)
    np.testing.assert_array_equal(out, codes.view(dtype).astype(np.float32))


def test_e8m0_takes_the_nearest_power_of_two(cpu: Library):
    """Oracle: ml_dtypes, live: ties go up; zero and negative values, which the format has not, give NaN."""
    edges = [1, 1.49, 1.5, 1.51, 3, 6, 0.75, 0, -4, np.inf, np.nan, 2.0**-127, 1.5 * 2.0**-127, 2.0**-149]
    values = np.concatenate([np.array(edges, np.float32), all_floats()])
    out = np.zeros(values.size, np.uint8)
    cpu("to_f8e8m0", values, out, values.size)
    with np.errstate(invalid="ignore"):
        want = values.astype(ml_dtypes.float8_e8m0fnu).view(np.uint8)
    np.testing.assert_array_equal(out, want)


def test_float_to_integer_truncates_and_saturates(cpu: Library):
    floats = np.array([0.9, -0.9, 2.5e9, -2.5e9, np.nan, np.inf, 2147483520, -2147483648], np.float32)
    out = np.zeros(floats.size, np.int32)
    cpu("convert_f32_i32", floats, out, floats.size)
    assert out.tolist() == [0, 0, 2**31 - 1, -(2**31), 0, 2**31 - 1, 2147483520, -(2**31)]
    wide = np.array([1e19, -1e19, 2.0**62, np.nan])
    out64 = np.zeros(4, np.int64)
    cpu("convert_f64_i64", wide, out64, 4)
    assert out64.tolist() == [2**63 - 1, -(2**63), 2**62, 0]
