"""Layout values, swizzles, pictures and what the door loads. Oracles: enumeration and golden text."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilefoundry.ir import layout as lay
from tilefoundry.ir.layout import ComposedLayout, Layout, Swizzle

pytestmark = pytest.mark.spec("layout-algebra")


@pytest.mark.spec("layout.function")
def test_default_strides_are_dense_first_mode_fastest():
    assert Layout((4, (2, 3))).stride == (1, (4, 8))


def test_lists_and_index_types_become_plain_ints():
    class Two:
        def __index__(self):
            return 2

    layout = Layout([Two(), [3]], [1, [2]])
    assert layout == Layout((2, (3,)), (1, (2,))) and hash(layout) == hash(Layout((2, (3,)), (1, (2,))))
    assert type(layout.shape[0]) is int


@pytest.mark.parametrize(
    ("shape", "stride", "error", "words"),
    [
        ((True, 2), None, TypeError, "bool"),
        ((2.0, 2), None, TypeError, "float"),
        ("ab", None, TypeError, "str"),
        ((0, 2), None, ValueError, "at least 1"),
        ((2, 2), (1, -1), ValueError, "at least 0"),
        ((2, 2), (1, (2,)), ValueError, "same form"),
        ((2, 2), (1,), ValueError, "same form"),
    ],
)
def test_refused_trees(shape, stride, error, words):
    with pytest.raises(error, match=words):
        Layout(shape, stride)


@pytest.mark.parametrize(
    ("coordinate", "error"),
    [
        ((4, 0), ValueError),
        ((0,), ValueError),
        ((0, 0, 0), ValueError),
        (True, TypeError),
        ((0, (1, 1)), TypeError),
    ],
)
def test_refused_coordinates(coordinate, error):
    with pytest.raises(error):
        Layout((4, 6))(coordinate)


def test_layouts_are_frozen():
    with pytest.raises(AttributeError):
        Layout((2, 2)).shape = (4,)  # type: ignore[misc] # the point of the test


@given(st.integers(0, 3), st.integers(0, 3), st.integers(-4, 4))
def test_swizzle_permutes_each_period(bits, base, shift):
    if abs(shift) < bits:
        with pytest.raises(ValueError, match="shift"):
            Swizzle(bits, base, shift)
        return
    swizzle = Swizzle(bits, base, shift)
    block = [swizzle(i) for i in range(swizzle.period)]
    assert sorted(block) == list(range(swizzle.period))
    assert [swizzle(i) for i in block] == list(range(swizzle.period))
    assert swizzle(3 * swizzle.period + 1) == 3 * swizzle.period + swizzle(1)


@pytest.mark.spec("layout.swizzle")
def test_swizzle_golden_bits():
    """Rows of eight 8-byte words, XORed by the row number: the textbook conflict-free tile."""
    tile = lay.swizzled(Swizzle(3, 0, 3), Layout((8, 8), (8, 1)))
    assert [[tile(r, c) - 8 * r for c in range(8)] for r in range(3)] == [
        [0, 1, 2, 3, 4, 5, 6, 7],
        [1, 0, 3, 2, 5, 4, 7, 6],
        [2, 3, 0, 1, 6, 7, 4, 5],
    ]


@pytest.mark.spec("layout.swizzle")
@given(st.integers(0, 40), st.sampled_from([Layout(16), Layout((4, 4), (4, 1)), Layout((2, 4), (3, 16))]))
def test_composed_layout_bounds_its_indices(offset, inner):
    composed = ComposedLayout(Swizzle(2, 1, 2), offset, inner)
    reached = [composed(i) for i in range(composed.size())]
    assert reached == [Swizzle(2, 1, 2)(offset + inner(i)) for i in range(inner.size())]
    assert max(reached) < composed.cosize()


def test_composed_layout_composes_inside():
    tile = lay.swizzled(Swizzle(2, 0, 2), Layout((4, 4), (4, 1)))
    row = tile.compose(Layout(4, 4))
    assert [row(i) for i in range(4)] == [tile(4 * i) for i in range(4)]


@pytest.mark.spec("layout.picture")
def test_picture_shows_every_index():
    root = ET.fromstring(Layout((3, 4), (4, 1))._repr_svg_())
    texts = [t.text for t in root.iter("{http://www.w3.org/2000/svg}text")]
    assert texts[0] == "(3,4):(4,1)"
    assert texts[5:10] == ["0", "0", "1", "2", "3"], "row label, then the first row"
    assert len(list(root.iter("{http://www.w3.org/2000/svg}rect"))) == 12


def test_picture_of_a_huge_layout_is_cut():
    picture = Layout((10**6, 10**6))._repr_svg_()
    assert "first 4096 x 1" in picture and picture.count("<rect") == 4096


@pytest.mark.spec("layout.pure")
def test_importing_the_door_loads_the_standard_library_only():
    code = (
        "import sys; before = set(sys.modules); import tilefoundry.ir.layout;"
        "new = {m.split('.')[0] for m in set(sys.modules) - before};"
        "print(sorted(new - set(sys.stdlib_module_names)))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "['tilefoundry']"
