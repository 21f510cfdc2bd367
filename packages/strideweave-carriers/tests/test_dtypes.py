"""Element types. Oracle: torch's own conversions, over every 8-bit pattern and random 16-bit ones."""

from __future__ import annotations

import copy
import math
import pickle

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import strideweave as sw
from strideweave.dtypes import ALL, as_dtype, from_torch_dtype

pytestmark = pytest.mark.spec("element-types")

SMALL = [sw.Float16, sw.BFloat16, sw.Float8E4M3, sw.Float8E5M2]


def torch_value(dtype, bits):
    kind = torch.uint8 if dtype.itemsize == 1 else torch.int16
    signed = bits - (1 << 16) if dtype.itemsize == 2 and bits >= 1 << 15 else bits
    return torch.tensor([signed], dtype=kind).view(dtype.torch()).float().item()


def same(a, b):
    return (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b))


@pytest.mark.parametrize("dtype", SMALL, ids=str)
def test_decode_matches_torch(dtype):
    step = 1 if dtype.itemsize == 1 else 7
    for bits in range(0, 1 << (8 * dtype.itemsize), step):
        value = dtype.unpack(bits.to_bytes(dtype.itemsize, "little"))
        assert same(value, torch_value(dtype, bits)), hex(bits)


@pytest.mark.parametrize("dtype", SMALL, ids=str)
@given(
    x=st.floats(width=32)
    | st.floats(-500, 500, width=32)
    | st.floats(-0.0001220703125, 0.0001220703125, width=32)
)
def test_rounding_matches_torch(dtype, x):
    expected = torch.tensor(x, dtype=torch.float32).to(dtype.torch()).float().item()
    assert same(dtype.round(x), expected)


@given(st.floats())
def test_float32_overflows_to_infinity(x):
    assert same(sw.Float32.round(x), torch.tensor(x, dtype=torch.float64).float().item())


def test_singletons_and_names():
    for dtype in ALL:
        assert as_dtype(dtype.name) is dtype and from_torch_dtype(dtype.torch()) is dtype
        assert pickle.loads(pickle.dumps(dtype)) is dtype and copy.deepcopy(dtype) is dtype
    with pytest.raises(TypeError, match=r"Float32.*Bool"):
        as_dtype("Float99")
    with pytest.raises(TypeError, match="complex64"):
        from_torch_dtype(torch.complex64)


@pytest.mark.parametrize(
    ("dtype", "value", "error"),
    [
        (sw.Int8, 128, OverflowError),
        (sw.UInt8, -1, OverflowError),
        (sw.Int32, 1.5, TypeError),
        (sw.Int32, True, TypeError),
        (sw.Bool, 1, TypeError),
        (sw.Float32, "1", TypeError),
        (sw.Float32, None, TypeError),
    ],
)
def test_slots_refuse(dtype, value, error):
    with pytest.raises(error):
        dtype.check(value)
