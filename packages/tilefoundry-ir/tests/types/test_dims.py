"""Arithmetic on extents. Oracle: Python's own integers, over every or many values of the variables."""

from __future__ import annotations

import operator
from itertools import product as pairs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilefoundry.ir.types import DimVar, ceildiv
from tilefoundry.ir.types.dim import (
    bounds,
    dim_vars,
    evaluate_dim,
    floordiv,
    product,
    proven_equal,
    substitute,
)

M, N = DimVar("M", 0, 7), DimVar("N", 2, 9)
VALUES = [{"M": m, "N": n} for m, n in pairs(range(7), range(2, 9))]

# A tree of arithmetic: a leaf, or an operator over trees; evaluated twice, on extents and on integers.
LEAVES = st.one_of(st.integers(-4, 9), st.sampled_from(["M", "N"]))
TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.tuples(st.sampled_from(["+", "-", "*"]), inner, inner),
        st.tuples(st.sampled_from(["//", "%", "ceil"]), inner, st.integers(1, 6)),
    ),
    max_leaves=6,
)
OPS = {"+": operator.add, "-": operator.sub, "*": operator.mul}
INT_OPS = {"//": operator.floordiv, "%": operator.mod, "ceil": lambda a, b: -(-a // b)}
DIM_OPS = {"//": floordiv, "%": lambda a, b: a - floordiv(a, b) * b, "ceil": ceildiv}


def value(tree, leaf, divide):
    if not isinstance(tree, tuple):
        return leaf(tree)
    op, left, right = tree
    left = value(left, leaf, divide)
    return OPS[op](left, value(right, leaf, divide)) if op in OPS else divide[op](left, right)


def as_dim(tree):
    return value(tree, lambda x: {"M": M, "N": N}.get(x, x), DIM_OPS)


def as_int(tree, env):
    return value(tree, lambda x: env.get(x, x), INT_OPS)


@pytest.mark.spec("types.dims")
@given(TREES)
def test_an_expression_has_the_value_of_its_integers(tree):
    dim = as_dim(tree)
    for env in VALUES:
        assert evaluate_dim(dim, env) == as_int(tree, env)


@pytest.mark.spec("types.dims")
@given(TREES)
def test_bounds_enclose_every_value(tree):
    dim = as_dim(tree)
    low, high = bounds(dim)
    assert all(low <= evaluate_dim(dim, env) <= high for env in VALUES)


@pytest.mark.spec("types.dims")
@given(TREES, TREES)
def test_substituting_is_evaluating_inside(outer, inner):
    dim = substitute(as_dim(outer), {"M": as_dim(inner)})
    for env in VALUES[::5]:
        assert evaluate_dim(dim, env) == as_int(outer, {**env, "M": as_int(inner, env)})


@pytest.mark.spec("types.dims")
def test_expressions_have_one_normal_form():
    assert M + N == N + M and 2 * M - M == M and M - M == 0 and (N + N) // 2 == N
    assert (4 * N + 6) // 2 == 2 * N + 3 and (4 * N + 3) // 4 == N and ceildiv(4 * N + 1, 4) == N + 1
    assert (M + 1) * (M - 1) == M * M - 1 and product((2, N, 3)) == 6 * N and product(()) == 1
    assert hash(M + N) == hash(N + M) and len({M + N, N + M, N + M + 0}) == 1
    assert ceildiv(7, 2) == 4 and isinstance(ceildiv(7, 2), int)
    assert dim_vars((M + 1) // 3 + N) in ((M, N), (N, M)) and dim_vars(5) == ()


@pytest.mark.spec("types.dims")
def test_text_reads_back_to_the_same_extent():
    for dim in (M + N, 2 * M - 3, (M + N) // 4 + 1, ceildiv(M * N, 4), 3 - N):
        assert eval(str(dim), {"M": M, "N": N}) == dim


@pytest.mark.spec("types.dims")
@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: DimVar("N", 3, 3),
            ValueError,
            r"DimVar N: the range \[3, 3\) is empty or negative; give lo",
        ),
        (lambda: DimVar("N", -1, 3), ValueError, r"DimVar N: the range \[-1, 3\)"),
        (lambda: DimVar("N", True, 3), TypeError, "DimVar N: bounds are integers, got True"),
        (lambda: DimVar("N", 1.0, 3), TypeError, r"DimVar N: bounds are integers, got 1\.0"),
        (lambda: DimVar("a b"), ValueError, "a DimVar's name must be an identifier, got 'a b'"),
        (lambda: N // 0, ValueError, "dims divide by positive integers only, got 0"),
        (lambda: N // -2, ValueError, "dims divide by positive integers only, got -2"),
        (lambda: N // 2.0, TypeError, r"dims divide by integers only, got 2\.0"),
        (lambda: N // M, TypeError, "dims divide by integers only, got DimVar"),
        (lambda: N + 1.5, TypeError, r"1\.5"),
        (lambda: evaluate_dim(M + N, {"M": 1}), KeyError, "needs a value for N"),
    ],
)
def test_refused_extents(make, error, message):
    with pytest.raises(error, match=message):
        make()


@given(TREES, TREES)
def test_what_is_proven_equal_is_equal_for_every_value(left, right):
    dims = [value(tree, lambda leaf: {"M": M, "N": N}.get(leaf, leaf), DIM_OPS) for tree in (left, right)]
    every = [
        [value(tree, lambda leaf: env.get(leaf, leaf), INT_OPS) for tree in (left, right)] for env in VALUES
    ]
    if proven_equal(*dims):
        assert all(a == b for a, b in every)
    assert proven_equal(dims[0], dims[0])
