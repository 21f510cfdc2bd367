"""Layout algebra over nested positive integers, first mode fastest, as CuTe defines it.

Pure integers: this door loads the standard library only. Every function returns new values; every value is
immutable and may be shared between threads.
"""

from .coalesce import coalesce
from .complement import complement
from .compose import CompositionError, composition
from .coordinates import crd2idx, idx2crd
from .divide import flat_divide, logical_divide, tiled_divide, zipped_divide
from .injective import is_injective
from .inttuple import (
    IntTuple,
    as_int,
    compact_strides,
    congruent,
    depth,
    flatten,
    product,
    rank,
    unflatten,
    weakly_congruent,
)
from .inverse import left_inverse, right_inverse
from .layout import Layout, concatenate
from .picture import draw, svg_table
from .repeat import (
    blocked_product,
    flat_product,
    logical_product,
    raked_product,
    tiled_product,
    zipped_product,
)
from .swizzle import ComposedLayout, Swizzle, swizzled


def size(value: "Layout | ComposedLayout | IntTuple") -> int:
    """Number of coordinates of a layout or of a shape."""
    return value.size() if isinstance(value, (Layout, ComposedLayout)) else product(value)


def cosize(layout: "Layout | ComposedLayout") -> int:
    """One more than the largest index of a layout (for a ComposedLayout: a bound, see there)."""
    return layout.cosize()


__all__ = [
    # values
    "IntTuple",
    "Layout",
    "Swizzle",
    "ComposedLayout",
    "CompositionError",
    # trees and coordinates
    "as_int",
    "product",
    "size",
    "cosize",
    "depth",
    "rank",
    "flatten",
    "unflatten",
    "congruent",
    "weakly_congruent",
    "compact_strides",
    "crd2idx",
    "idx2crd",
    # algebra
    "concatenate",
    "coalesce",
    "composition",
    "complement",
    "left_inverse",
    "right_inverse",
    "is_injective",
    "logical_divide",
    "zipped_divide",
    "tiled_divide",
    "flat_divide",
    "logical_product",
    "zipped_product",
    "tiled_product",
    "flat_product",
    "blocked_product",
    "raked_product",
    "swizzled",
    # pictures
    "draw",
    "svg_table",
]
