"""Shape and Layout values. Oracle: nested loops and the rules restated as examples."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

import strideweave as sw
from strideweave import Layout, Shape

pytestmark = pytest.mark.spec("values")

trees = st.recursive(
    st.integers(1, 5), lambda t: st.lists(t, min_size=1, max_size=3).map(tuple), max_leaves=4
)


@given(trees)
def test_decode_and_encode_count_first_mode_fastest(extents):
    shape = Shape(extents)
    leaves = shape.leaves()
    order = [c[::-1] for c in itertools.product(*(range(n) for n in leaves[::-1]))]
    for i, crd in enumerate(order):
        nested = shape.decode(i)
        assert Shape(nested).leaves() == crd if all(crd) else True
        assert shape.encode(nested) == i
    assert shape.size() == len(order)


@pytest.mark.parametrize("bad", [True, 1.0, "3", None, (2, True)])
def test_extents_must_be_integers(bad):
    with pytest.raises(TypeError):
        Shape(bad)


@pytest.mark.parametrize("bad", [0, -1, (2, 0)])
def test_extents_must_be_positive(bad):
    with pytest.raises(ValueError):
        Shape(bad)


def test_coordinates_are_checked():
    shape = Shape(4, (2, 3))
    for bad in (True, 1.0, (True, 0), (0, (1.0, 0))):
        with pytest.raises(TypeError):
            shape.encode(bad)
    for bad in (24, -1, (4, 0), (0, (2, 0)), (0,)):
        with pytest.raises(ValueError):
            shape.encode(bad)
    for bad in (24, -1):
        with pytest.raises(ValueError):
            shape.decode(bad)
    with pytest.raises(TypeError):
        shape.decode(True)


def test_values_compare_hash_and_freeze():
    assert Shape(4, 2) == Shape((4, 2)) and hash(Layout((4, 2))) == hash(Layout(Shape(4, 2), (1, 4)))
    with pytest.raises(AttributeError):
        Shape(4).extents = 5
    with pytest.raises(AttributeError):
        Layout(4).stride = 2


def test_layout_index_size_cosize():
    layout = Layout((4, (2, 3)), (6, (1, 2)))
    assert layout.index((3, (1, 2))) == 18 + 1 + 4 == layout(3, (1, 2))
    assert layout.size() == 24 and layout.cosize() == 24 and layout.is_injective()
    assert not layout.is_dense() and Layout((4, 2)).is_dense() and Layout((1, 4), (7, 1)).is_dense()
    assert not Layout((2, 2), (1, 1)).is_injective()


@pytest.mark.parametrize(
    ("shape", "stride", "error"), [((2, 2), (1,), ValueError), (2, -1, ValueError), (2, True, TypeError)]
)
def test_layout_refuses(shape, stride, error):
    with pytest.raises(error):
        Layout(shape, stride)


def test_algebra_is_the_shared_one():
    layout = Layout((9, (4, 8)), (59, (13, 1)))
    tiler = (Layout(3, 3), Layout((2, 4), (1, 8)))
    assert layout.logical_divide(tiler).shape.extents == ((3, 3), ((2, 4), (2, 2)))
    assert layout.zipped_divide(tiler).rank == 2 and layout.tiled_divide(tiler).rank == 3
    assert Layout(20, 2).composition(Layout((5, 4), (4, 1))) == Layout((5, 4), (8, 2))
    assert Layout(4, 2).complement(24) == Layout((2, 3), (1, 8))
    assert Layout((2, 3), (3, 1)).left_inverse().composition(Layout((2, 3), (3, 1))).coalesce() == Layout(6)
    assert Layout((2, 5), (5, 1)).blocked_product(Layout((3, 4))) == Layout(
        ((2, 3), (5, 4)), ((5, 10), (1, 30))
    )


def test_a_tensor_needs_room():
    carrier = sw.CPU(10)
    assert sw.Tensor(carrier, 4, Layout(6)).size() == 6
    for offset, layout in ((5, Layout(6)), (0, Layout(2, 10)), (-1, Layout(2))):
        with pytest.raises(ValueError):
            sw.Tensor(carrier, offset, layout)
    with pytest.raises(TypeError):
        sw.Tensor(carrier, True, Layout(2))
    with pytest.raises(TypeError):
        sw.Tensor(carrier, 0, (2, 2))
    with pytest.raises(TypeError):
        sw.Tensor(torch_like := object(), 0, Layout(2))
    assert torch_like is not None
