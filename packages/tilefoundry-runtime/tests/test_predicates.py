"""Each predicate's measure. Oracle: numpy float64 formulas, Python integers, and values worked out by hand."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tilefoundry.runtime import (
    PREDICATES,
    AllClose,
    Cosine,
    Equal,
    MaxAbs,
    MaxRel,
    NanInf,
    Predicate,
    RelL2,
    Ulp,
)

NAN, INF = float("nan"), float("inf")
REFERENCED = [AllClose(1e-3, 1e-3), RelL2(1e-3), Cosine(0.999), Equal(), Ulp(2), MaxAbs(1e-3), MaxRel(1e-3)]
RELAXED = [
    AllClose(1e-3, 1e-3, equal_nan=True),
    RelL2(1e-3, equal_nan=True),
    Cosine(0.999, equal_nan=True),
    Equal(equal_nan=True),
    Ulp(2, equal_nan=True),
    MaxAbs(1e-3, equal_nan=True),
    MaxRel(1e-3, equal_nan=True),
]


def t(*values, dtype=torch.float32):
    return torch.tensor(values, dtype=dtype)


@pytest.mark.spec("check.predicates")
def test_the_table_of_predicates():
    assert list(PREDICATES) == [
        "allclose",
        "rel_l2",
        "cosine",
        "equal",
        "ulp",
        "max_abs",
        "max_rel",
        "nan_inf",
    ]
    assert [n for n, p in PREDICATES.items() if p.discrete] == ["equal"]
    assert [n for n, p in PREDICATES.items() if not p.needs_reference] == ["nan_inf"]
    assert {n: p.bounds for n, p in PREDICATES.items() if p.bounds} == {
        "allclose": ("atol", "rtol"),
        "rel_l2": ("max",),
        "cosine": ("min",),
        "ulp": ("max",),
        "max_abs": ("max",),
        "max_rel": ("max",),
    }
    assert all(issubclass(p, Predicate) and p.name == n for n, p in PREDICATES.items())


@pytest.mark.parametrize("bound", [-1, NAN, INF, "1", None, True, -1e-30])
def test_bounds_are_finite_and_not_negative(bound):
    for build in (lambda b: AllClose(b, 0), lambda b: AllClose(0, b), RelL2, Ulp, MaxAbs, MaxRel):
        with pytest.raises(ValueError, match="must be a finite number at least 0"):
            build(bound)
    if bound != -1 and bound != -1e-30:
        with pytest.raises(ValueError, match=r"must be a finite number in \[-1, 1\]"):
            Cosine(bound)


def test_ulps_are_whole():
    with pytest.raises(ValueError, match="counts representable values"):
        Ulp(0.5)


FLOATS = hnp.arrays(np.float32, st.integers(1, 12), elements=st.floats(-(2.0**100), 2.0**100, width=32))


@given(FLOATS, st.integers(0, 2**32 - 1))
def test_measures_equal_numpy_in_float64(reference, seed):
    noise = np.random.default_rng(seed).standard_normal(reference.shape) * 1e-3
    candidate = (reference * (1 + noise)).astype(np.float32)
    c, r = candidate.astype(np.float64), reference.astype(np.float64)
    pair = torch.from_numpy(candidate), torch.from_numpy(reference)
    assert MaxAbs(0).measure(*pair).values["max_abs"] == np.abs(c - r).max()
    if np.linalg.norm(r) > 0:
        want = np.linalg.norm(c - r) / np.linalg.norm(r)
        assert RelL2(0).measure(*pair).values["rel_l2"] == pytest.approx(want, rel=1e-9, abs=1e-300)
        if np.linalg.norm(c) > 0 and np.abs(r).max() > 1e-30:
            scaled = c / np.abs(c).max(), r / np.abs(r).max()
            cosine = scaled[0] @ scaled[1] / np.linalg.norm(scaled[0]) / np.linalg.norm(scaled[1])
            assert Cosine(-1).measure(*pair).values["cosine"] == pytest.approx(cosine, abs=1e-12)
    if np.all(r != 0):
        assert MaxRel(0).measure(*pair).values["max_rel"] == (np.abs(c - r) / np.abs(r)).max()
    for atol, rtol in ((0, 1e-3), (1e-2, 0), (1e3, 1e-4)):
        assert AllClose(atol, rtol).measure(*pair).passed == bool(
            np.all(np.abs(c - r) <= atol + rtol * np.abs(r))
        )


INTEGERS = {
    torch.uint8: (0, 255),
    torch.int8: (-128, 127),
    torch.int16: (-(2**15), 2**15 - 1),
    torch.int32: (-(2**31), 2**31 - 1),
    torch.int64: (-(2**63), 2**63 - 1),
}


@given(st.data(), st.sampled_from(list(INTEGERS)))
def test_integer_differences_are_exact(data, dtype):
    low, high = INTEGERS[dtype]
    values = st.lists(
        st.one_of(st.integers(low, high), st.sampled_from([low, high, 0])), min_size=1, max_size=6
    )
    a = data.draw(values)
    b = data.draw(st.lists(st.integers(low, high), min_size=len(a), max_size=len(a)))
    result = Equal().measure(t(*a, dtype=dtype), t(*b, dtype=dtype))
    assert result.values["max_abs"] == max(abs(x - y) for x, y in zip(a, b, strict=True))
    assert result.values["differing"] == sum(x != y for x, y in zip(a, b, strict=True))
    assert result.passed == (a == b)


def test_small_integers_do_not_wrap():
    assert Equal().measure(t(0, dtype=torch.uint8), t(1, dtype=torch.uint8)).values["max_abs"] == 1
    assert Equal().measure(t(-128, dtype=torch.int8), t(127, dtype=torch.int8)).values["max_abs"] == 255
    assert (
        Equal().measure(t(True, False, dtype=torch.bool), t(True, True, dtype=torch.bool)).values["differing"]
        == 1
    )


TYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.float8_e4m3fn, torch.float8_e5m2]


@pytest.mark.parametrize("dtype", TYPES)
def test_ulps_count_neighbours(dtype):
    bits = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[dtype.itemsize]
    codes = torch.arange(0, 40, dtype=bits)
    positive = codes.view(dtype)
    for step in (1, 3, 7):
        shifted = (codes + step).view(dtype)
        assert Ulp(step).measure(shifted, positive).values["ulp"] == step
        assert (
            Ulp(step).measure(shifted, positive).passed
            and not Ulp(step - 1).measure(shifted, positive).passed
        )
    # Across zero: from the smallest positive to the smallest negative is two steps; both zeros are one value.
    smallest = torch.ones(1, dtype=bits).view(dtype)
    negative = (-smallest.float()).to(dtype) if dtype.itemsize < 4 else -smallest
    assert Ulp(2).measure(smallest, negative).values["ulp"] == 2
    zero = torch.zeros(1, dtype=dtype)
    minus_zero = (torch.ones(1, dtype=bits) << (8 * dtype.itemsize - 1)).view(dtype)
    assert Ulp(0).measure(zero, minus_zero).passed


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("predicate", REFERENCED, ids=lambda p: p.name)
def test_equal_tensors_pass_in_every_type(dtype, predicate):
    x = torch.tensor([1.0, -2.0, 0.5, 0.0]).to(dtype)
    assert predicate.measure(x, x.clone()).passed
    y = torch.tensor([1.0, -2.0, 4.0, 0.0]).to(dtype)
    assert not predicate.measure(y, x).passed


@pytest.mark.parametrize("predicate", REFERENCED, ids=lambda p: p.name)
def test_nan_fails(predicate):
    for c, r in ((t(42, NAN), t(42, NAN)), (t(42, NAN), t(42, 1)), (t(42, 1), t(42, NAN))):
        result = predicate.measure(c, r)
        assert not result.passed and result.values == {} and "NaN" in result.note


@pytest.mark.parametrize("predicate", RELAXED, ids=lambda p: p.name)
def test_equal_nan_takes_nan_on_both_sides_alone(predicate):
    assert predicate.measure(t(42, NAN), t(42, NAN)).passed
    assert "1 NaN on both sides" in predicate.measure(t(42, NAN), t(42, NAN)).note
    assert not predicate.measure(t(42, NAN), t(42, 1)).passed
    assert not predicate.measure(t(42, 1), t(42, NAN)).passed


@pytest.mark.parametrize("predicate", REFERENCED, ids=lambda p: p.name)
def test_equal_infinities_are_equal_and_others_fail(predicate):
    result = predicate.measure(t(1, INF, -INF), t(1, INF, -INF))
    assert result.passed and "2 equal infinities" in result.note
    for c, r in ((t(1, INF), t(1, -INF)), (t(1, INF), t(1, 3e38)), (t(1, 3e38), t(1, INF))):
        assert not predicate.measure(c, r).passed
    assert not predicate.measure(t(2, INF), t(1, INF)).passed or predicate.name == "cosine"


@pytest.mark.parametrize("predicate", [*REFERENCED, NanInf()], ids=lambda p: p.name)
def test_empty_tensors_pass_with_a_note(predicate):
    result = predicate.measure(torch.empty(0, 3), torch.empty(0, 3))
    assert result.passed and result.note == "no elements"


def test_nan_inf_judges_the_candidate_alone():
    assert NanInf().measure(t(42, NAN), t(42, NAN)).values == {"nan": 1, "inf": 0}
    assert not NanInf().measure(t(42, NAN), t(42, NAN)).passed
    assert not NanInf().measure(t(INF)).passed
    assert NanInf().measure(t(1.0), t(NAN)).passed
    assert NanInf().measure(t(1e300, dtype=torch.float64)).passed


@pytest.mark.spec("check.note-where-meaningless")
def test_cosine_of_zeros():
    both = Cosine(0.9).measure(torch.zeros(3), torch.zeros(3))
    assert both.passed and "both sides are zero" in both.note and both.values == {"l2": 0.0}
    for c, r in ((torch.zeros(3), torch.ones(3)), (torch.ones(3), torch.zeros(3))):
        one = Cosine(-1).measure(c, r)
        assert (
            not one.passed
            and "one side is zero" in one.note
            and one.values == {"l2": pytest.approx(math.sqrt(3))}
        )


@pytest.mark.spec("check.note-where-meaningless")
def test_a_relative_distance_against_zero():
    result = RelL2(1e-6).measure(t(3, 4), torch.zeros(2))
    assert not result.passed and result.values == {"l2": 5.0} and "the reference is zero" in result.note
    result = MaxRel(0.1).measure(t(1.0, 2e-3), t(1.0, 0.0))
    assert result.values == {"max_rel": 0.0, "max_abs_at_zero": pytest.approx(2e-3)}
    assert result.passed and "zero at 1 differing elements" in result.note
    assert not MaxRel(1e-3).measure(t(1.0, 2e-3), t(1.0, 0.0)).passed
    assert MaxRel(0).measure(t(0.0), t(0.0)).note is None


def test_nothing_is_clamped():
    tiny = MaxRel(0.1).measure(t(2e-20), t(1e-20))
    assert not tiny.passed and tiny.values["max_rel"] == pytest.approx(1.0, rel=1e-6)
    small = RelL2(0.5).measure(t(2e-13, dtype=torch.float64), t(1e-13, dtype=torch.float64))
    assert not small.passed and small.values["rel_l2"] == pytest.approx(1.0)
    big = RelL2(0.5).measure(t(3e38, 3e38), t(3e38, -3e38))
    assert math.isfinite(big.values["rel_l2"]) and big.values["rel_l2"] == pytest.approx(math.sqrt(2))
    assert Cosine(-1).measure(t(3e38, 0), t(3e38, 3e38)).values["cosine"] == pytest.approx(math.sqrt(0.5))
    assert MaxAbs(1).measure(t(3e38), t(-3e38)).values["max_abs"] == pytest.approx(6e38)
    denormal = RelL2(0.5).measure(t(2e-320, dtype=torch.float64), t(1e-320, dtype=torch.float64))
    assert not denormal.passed


def test_differences_below_float32_are_seen():
    a = t(1.0 + 1e-12, dtype=torch.float64)
    assert not Equal().measure(a, t(1.0, dtype=torch.float64)).passed
    assert not RelL2(1e-13).measure(a, t(1.0, dtype=torch.float64)).passed


def test_large_doubles_are_finite():
    a = t(1e300, dtype=torch.float64)
    assert Ulp(0).measure(a, a.clone()).passed
    assert not Ulp(0).measure(a * 2, a).passed
