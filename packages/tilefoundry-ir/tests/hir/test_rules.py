"""Shape rules as properties. Oracle: numpy's own broadcasting, reshaping, slicing and joining."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tilefoundry.ir.core.expr import Var
from tilefoundry.ir.errors import TypeRuleError
from tilefoundry.ir.hir import HIR_OPS
from tilefoundry.ir.hir.windows import split_starts
from tilefoundry.ir.types import TensorType

extents = st.integers(0, 4)
shapes = st.lists(extents, max_size=4).map(tuple)


def infer(op, *operands, **attrs):
    """The result's shape, or None where typing refuses."""
    args = tuple(Var(TensorType(shape, "f32"), f"x{i}") for i, shape in enumerate(operands))
    try:
        return HIR_OPS[op].call(args, attrs).type.shape
    except TypeRuleError:
        return None


def attempt(function, *args, **kwargs):
    """numpy's shape, or None where numpy refuses."""
    try:
        return function(*args, **kwargs).shape
    except (ValueError, IndexError):
        return None


@given(shapes, shapes)
def test_broadcasting(left, right):
    assert infer("add", left, right) == attempt(np.add, np.zeros(left), np.zeros(right))


@given(shapes, st.lists(st.integers(-1, 6), max_size=4).map(tuple))
def test_reshape(shape, new):
    assert infer("reshape", shape, new_shape=new) == attempt(np.zeros(shape).reshape, new)


@given(shapes, st.lists(st.integers(-4, 3), max_size=4).map(tuple))
def test_transpose(shape, perm):
    assert infer("transpose", shape, perm=perm) == attempt(np.zeros(shape).transpose, perm)


@given(shapes, shapes, st.integers(-5, 4))
def test_concat(left, right, axis):
    want = attempt(np.concatenate, [np.zeros(left), np.zeros(right)], axis)
    assert infer("concat", left, right, axis=axis) == want


@given(shapes.filter(len), st.integers(-5, 4), st.booleans())
def test_reduce(shape, axis, keepdim):
    want = attempt(lambda: np.zeros(shape).sum(axis=axis, keepdims=keepdim))
    assert infer("reduce", shape, axes=(axis,), keepdim=keepdim, kind="sum") == want


@given(shapes, shapes)
def test_matmul(left, right):
    if min(len(left), len(right)) < 2:
        assert infer("matmul", left, right) is None
    else:
        assert infer("matmul", left, right) == attempt(np.matmul, np.zeros(left), np.zeros(right))


@given(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9), st.integers(1, 3))
def test_slice_fits_exactly_where_every_element_exists(extent, start, size, stride):
    touched = [start + i * stride for i in range(size)]
    fits = all(at < extent for at in touched)
    got = infer("slice", (extent,), starts=(start,), sizes=(size,), strides=(stride,))
    assert got == ((size,) if fits else None)


@given(st.lists(st.one_of(st.integers(0, 9), st.sampled_from(["i", "j"])), max_size=5))
def test_starts_split_and_join_again(given_starts):
    operands, attr = split_starts(given_starts, lambda start: isinstance(start, str))
    rest = iter(operands)
    assert [next(rest) if start is None else start for start in attr] == given_starts
