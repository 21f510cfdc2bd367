"""Layout algebra. Oracle: enumeration of every coordinate over small random layouts."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tilefoundry.ir import layout as lay
from tilefoundry.ir.layout import CompositionError, Layout

pytestmark = pytest.mark.spec("layout-algebra")

extents = st.integers(1, 6)


def trees(leaf, max_leaves=4):
    return st.recursive(
        leaf, lambda inner: st.lists(inner, min_size=1, max_size=3).map(tuple), max_leaves=max_leaves
    )


@st.composite
def layouts(draw, max_size=400, max_stride=24):
    shape = draw(trees(extents))
    assume(lay.product(shape) <= max_size)
    count = len(lay.flatten(shape))
    flat = draw(st.lists(st.integers(0, max_stride), min_size=count, max_size=count))
    return Layout(shape, lay.unflatten(tuple(flat), shape))


@st.composite
def compact(draw, max_size=400):
    """Dense layouts with their leaves in any order."""
    shape = draw(trees(extents))
    assume(lay.product(shape) <= max_size)
    flat = lay.flatten(shape)
    order = draw(st.permutations(range(len(flat))))
    stride, step = [0] * len(flat), 1
    for k in order:
        stride[k], step = step, step * flat[k]
    return Layout(shape, lay.unflatten(tuple(stride), shape))


def image(layout) -> list[int]:
    """Indices in the order of the coordinates, from nested loops that share nothing with the library."""
    flat = list(zip(lay.flatten(layout.shape), lay.flatten(layout.stride), strict=True))
    ranges = [range(s) for s, _ in reversed(flat)]
    strides = [d for _, d in reversed(flat)]
    return [sum(c * d for c, d in zip(crd, strides, strict=True)) for crd in itertools.product(*ranges)]


@pytest.mark.spec("layout.function")
@given(layouts())
def test_evaluation_follows_nested_loops(layout):
    expected = image(layout)
    assert [layout(i) for i in range(layout.size())] == expected
    assert layout.cosize() == max(expected) + 1
    assert [layout(lay.idx2crd(i, layout.shape)) for i in range(layout.size())] == expected
    assert layout.flatten().size() == layout.size() and image(layout.flatten()) == expected


@given(trees(extents))
def test_coordinates_round_trip(shape):
    for i in range(min(lay.product(shape), 500)):
        crd = lay.idx2crd(i, shape)
        assert lay.congruent(crd, shape)
        assert lay.crd2idx(crd, shape) == i


@pytest.mark.spec("layout.coalesce")
@given(layouts())
def test_coalesce_keeps_the_function_and_merges_all_it_can(layout):
    small = lay.coalesce(layout)
    assert small.depth <= 1
    assert image(small) == image(layout)
    modes = small.flat_modes()
    assert small.size() == 1 or all(s > 1 for s, _ in modes)
    assert all(b[1] != a[0] * a[1] for a, b in itertools.pairwise(modes))


@given(layouts())
def test_coalesce_by_profile_keeps_modes_apart(layout):
    assume(isinstance(layout.shape, tuple))
    small = lay.coalesce(layout, (1,) * layout.rank)
    assert [image(m) for m in small.modes()] == [image(m) for m in layout.modes()]


def affine_over(values: list[int], extent: int) -> bool:
    """Whether values[0..extent) is a layout's function, found by trying every first factor."""
    if extent == 1:
        return values[0] == 0
    for first in (n for n in range(2, extent + 1) if extent % n == 0):
        step = values[1]
        if any(values[i] != i % first * step + values[i - i % first] for i in range(extent)):
            continue
        if affine_over(values[::first], extent // first):
            return True
    return False


@pytest.mark.spec("layout.composition")
@settings(max_examples=120)
@given(layouts(max_stride=12), layouts(max_size=60, max_stride=12))
def test_composition_is_exact_or_refused(outer, inner):
    try:
        composed = lay.composition(outer, inner)
    except CompositionError:
        return
    assert [composed(i) for i in range(inner.size())] == [outer(b) for b in image(inner)]
    assert composed.size() == inner.size()
    assert lay.weakly_congruent(inner.shape, composed.shape)


@settings(max_examples=120)
@given(compact(max_size=96), st.integers(1, 12), st.integers(1, 12))
def test_composition_with_one_mode_is_refused_only_without_an_answer(outer, extent, step):
    assume((extent - 1) * step < outer.size())
    wanted = [image(outer)[i * step] for i in range(extent)]
    if affine_over(wanted, extent):
        assert image(lay.composition(outer, Layout(extent, step))) == wanted
    else:
        with pytest.raises(CompositionError):
            lay.composition(outer, Layout(extent, step))


@pytest.mark.spec("layout.composition")
def test_composition_of_the_known_bad_pair_is_refused():
    with pytest.raises(CompositionError, match=r"\(4,6,8\):\(2,3,5\).*6:3"):
        lay.composition(Layout((4, 6, 8), (2, 3, 5)), Layout(6, 3))


def test_composition_outside_the_domain_is_refused():
    with pytest.raises(CompositionError, match="reaches index 8"):
        lay.composition(Layout(8), Layout(3, 4))


def test_composition_cute_examples():
    """Golden values from the worked examples of the CuTe layout algebra."""
    assert str(lay.composition(Layout((6, 2), (8, 2)), Layout((4, 3), (3, 1)))) == "((2,2),3):((24,2),8)"
    assert str(lay.composition(Layout(20, 2), Layout((5, 4), (4, 1)))) == "(5,4):(8,2)"
    assert str(lay.composition(Layout((10, 2), (16, 4)), Layout((5, 4), (1, 5)))) == "(5,(2,2)):(16,(80,4))"
    by_mode = lay.composition(Layout((12, (4, 8)), (59, (13, 1))), (Layout(3, 4), Layout(8, 2)))
    assert str(by_mode) == "(3,(2,4)):(236,(26,1))"


@pytest.mark.spec("layout.complement")
@given(layouts(max_stride=40), st.integers(1, 200))
def test_complement_fills_the_gaps_once(layout, target):
    try:
        rest = lay.complement(layout, target)
    except ValueError:
        return
    own = [m for m in layout.flat_modes() if m[1] > 0 and m[0] > 1]
    base = Layout(tuple(s for s, _ in own) or 1, tuple(d for _, d in own) or 0)
    both = sorted(a + b for a in image(base) for b in image(rest))
    assert both == list(range(len(both))), "every sum reached once and without a gap"
    assert len(both) >= target and image(rest) == sorted(image(rest))


def test_complement_refuses_overlap():
    with pytest.raises(ValueError, match="stride 3 is no multiple"):
        lay.complement(Layout((2, 2), (1, 3)))


@given(compact())
def test_inverses_of_a_bijection(layout):
    right, left = lay.right_inverse(layout), lay.left_inverse(layout)
    assert [layout(right(i)) for i in range(right.size())] == list(range(layout.size()))
    assert [left(layout(i)) for i in range(layout.size())] == list(range(layout.size()))


@pytest.mark.spec("layout.inverses")
@given(layouts())
def test_right_inverse_is_a_right_inverse(layout):
    right = lay.right_inverse(layout)
    assert [layout(right(i)) for i in range(right.size())] == list(range(right.size()))


@pytest.mark.spec("layout.inverses")
@given(layouts(max_stride=60))
def test_left_inverse_where_there_is_one(layout):
    try:
        left = lay.left_inverse(layout)
    except ValueError:
        return
    assert [left(layout(i)) for i in range(layout.size())] == list(range(layout.size()))


@pytest.mark.spec("layout.injective")
@settings(max_examples=100)
@given(layouts(max_stride=60))
def test_injectivity_matches_enumeration(layout):
    assert lay.is_injective(layout) == (len(set(image(layout))) == layout.size())


def test_injectivity_of_huge_layouts_needs_no_walk():
    big = 10**12
    assert lay.is_injective(Layout((big, big), (1, big)))
    assert lay.is_injective(Layout((big, big), (big + 1, big)))
    assert not lay.is_injective(Layout((big + 1, big + 2), (big + 1, big)))
    assert not lay.is_injective(Layout((big, big), (3, 5)))
    assert not lay.is_injective(Layout((4, big, big), (1, 3, 4 * big)))


@pytest.mark.spec("layout.divides")
@settings(max_examples=100)
@given(compact(max_size=120), st.data())
def test_divide_partitions(layout, data):
    total = layout.size()
    extent = data.draw(st.sampled_from([n for n in range(1, total + 1) if total % n == 0]))
    steps = [n for n in range(1, total // extent + 1) if (total // extent) % n == 0]
    tile = Layout(extent, data.draw(st.sampled_from(steps)))
    try:
        divided = lay.logical_divide(layout, tile)
    except CompositionError:
        return
    assert divided.rank == 2 and sorted(image(divided)) == sorted(image(layout))
    first = [layout(i) for i in image(tile)]
    assert image(divided[0]) == first


@pytest.mark.spec("layout.divides")
def test_divide_forms_agree_on_shapes():
    """Golden shapes of the four forms for a 9x(4x8) layout and a 3 x (2,4) tiler."""
    layout = Layout((9, (4, 8)), (59, (13, 1)))
    tiler = (Layout(3, 3), Layout((2, 4), (1, 8)))
    assert str(lay.logical_divide(layout, tiler)) == "((3,3),((2,4),(2,2))):((177,59),((13,2),(26,1)))"
    assert str(lay.zipped_divide(layout, tiler).shape) == "((3, (2, 4)), (3, (2, 2)))"
    assert str(lay.tiled_divide(layout, tiler).shape) == "((3, (2, 4)), 3, (2, 2))"
    assert str(lay.flat_divide(layout, tiler).shape) == "(3, (2, 4), 3, (2, 2))"


def test_divide_refuses_a_ragged_edge():
    with pytest.raises(ValueError, match="do not fill"):
        lay.logical_divide(Layout(10), 4)


@pytest.mark.spec("layout.products")
@given(compact(max_size=24), compact(max_size=24))
def test_product_repeats_without_overlap(block, order):
    whole = lay.logical_product(block, order)
    assert image(whole[0]) == image(block)
    assert sorted(image(whole)) == list(range(block.size() * order.size()))
    assert [v // block.size() for v in image(whole[1])] == image(order)


@pytest.mark.spec("layout.products")
def test_blocked_and_raked_products():
    """Golden values from the CuTe documentation's 2x5 by 3x4 product."""
    block, order = Layout((2, 5), (5, 1)), Layout((3, 4), (1, 3))
    assert str(lay.blocked_product(block, order)) == "((2,3),(5,4)):((5,10),(1,30))"
    assert str(lay.raked_product(block, order)) == "((3,2),(4,5)):((10,5),(30,1))"
