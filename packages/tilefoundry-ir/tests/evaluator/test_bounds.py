"""The bounds table holds for what it allows and fails for what it forbids. Oracle: exact fractions."""

from __future__ import annotations

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilefoundry.evaluator.bounds import MODEL_REL_L2, error_bound, unit_roundoff
from tilefoundry.ir.types import DType

FINITE = {
    "f64": np.float64,
    "f32": np.float32,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "fp8e4m3": ml_dtypes.float8_e4m3fn,
    "fp8e5m2": ml_dtypes.float8_e5m2,
}
floats = st.floats(-1e4, 1e4, width=32)


@pytest.mark.parametrize("name", list(FINITE))
def test_roundoff_is_half_an_epsilon(name):
    assert unit_roundoff(DType.from_name(name)) == float(ml_dtypes.finfo(FINITE[name]).eps) / 2
    assert (
        error_bound(DType.from_name(name)).least
        >= float(ml_dtypes.finfo(FINITE[name]).smallest_subnormal) / 2
    )


@pytest.mark.parametrize("name", ["i32", "bool"])
def test_exact_types_have_no_bound(name):
    with pytest.raises(ValueError, match="is exact: compare integers and bools for equality"):
        error_bound(DType.from_name(name))


@pytest.mark.spec("eval.bounds")
@given(st.lists(st.tuples(floats, floats), min_size=1, max_size=60), st.randoms())
def test_dot_products_in_any_order_stay_inside(pairs, rng):
    a, b = (np.array(v, np.float32) for v in zip(*pairs, strict=True))
    products = [Fraction(float(x)) * Fraction(float(y)) for x, y in zip(a, b, strict=True)]
    order = list(range(len(pairs)))
    rng.shuffle(order)
    total = np.float32(0)
    for i in order:
        total = np.float32(total + np.float32(a[i] * b[i]))
    exact, size = float(sum(products)), float(sum(map(abs, products)))
    for name in ("f32", "bf16", "f16"):
        with np.errstate(over="ignore"):
            result = float(np.asarray(total).astype(FINITE[name]))
        if np.isfinite(result):
            bound = error_bound(DType.from_name(name), len(pairs) + 1)
            assert abs(result - exact) <= bound.limit(exact, size)


@pytest.mark.spec("eval.bounds")
def test_accumulating_in_the_narrow_type_falls_outside():
    x = np.ones(4096, ml_dtypes.bfloat16)
    total = ml_dtypes.bfloat16(0)
    for one in x:
        total = ml_dtypes.bfloat16(float(total) + float(one))
    assert abs(float(total) - 4096) > error_bound(DType.bf16, 4096).limit(4096.0, 4096.0)


def test_rounding_an_intermediate_falls_outside():
    x, w = np.float32(1.37), np.float32(0.731)
    rounded = float(np.float32(ml_dtypes.bfloat16(x)) * w)
    assert abs(rounded - float(x) * float(w)) > error_bound(DType.f32, 2).limit(1.0, 1.0)


def test_model_bounds_follow_the_roundoff():
    assert MODEL_REL_L2[DType.f32] == 1e-5 and MODEL_REL_L2[DType.bf16] == 2e-2
    assert all(limit > unit_roundoff(dtype) for dtype, limit in MODEL_REL_L2.items())
