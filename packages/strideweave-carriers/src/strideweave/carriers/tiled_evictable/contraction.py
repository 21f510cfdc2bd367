"""Products of matrices read box by box: ``out[x, y] = sum_z a[x, z] * b[y, z]``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice, product
from typing import TYPE_CHECKING

from ...dtypes import DType, Float32, Int64
from ...operations.checked import unwrapped
from ...operations.matmul import MATMUL, integer_products
from ...operations.operation import Result
from .access import Access, Box, spans

if TYPE_CHECKING:
    import torch

Pairs = Iterator[tuple["torch.Tensor", "torch.Tensor"]]
"""Factors from either side, one pair for each piece of the contracted mode."""


def wide(dtype: DType) -> DType:
    """The type in which sums of ``dtype`` are carried."""
    return Float32 if dtype.is_float else Int64


def contract(a: Access, b: Access, out: torch.Tensor, dtype: DType) -> None:
    """Fill ``out`` (dimensions y, x) with the product in ``dtype``: carried wide, rounded once.

    Raises:
        OverflowError: an integer result out of range.
    """
    columns, rows = out.shape
    places = list(product(spans(rows, [a.cuts(0)]), spans(columns, [b.cuts(0)])))
    with products(a, b, places, dtype) as pieces:
        for (x, y), piece in zip(places, pieces, strict=True):
            out[y.start : y.stop, x.start : x.stop].copy_(piece)


@contextmanager
def products(a: Access, b: Access, places: Sequence[Box], dtype: DType) -> Iterator[Iterator[torch.Tensor]]:
    """The product in each box ``(x, y)``, in turn, dimensions (y, x)."""
    depth = _depth(a, b)
    with (
        a.read((x, z) for x, _ in places for z in depth) as left,
        b.read((y, z) for _, y in places for z in depth) as right,
    ):
        one, pairs = _product if dtype.is_float else _integers, zip(left, right, strict=False)
        yield (one(islice(pairs, len(depth)), box, dtype, len(depth)) for box in places)


def _depth(a: Access, b: Access) -> list[range]:
    """The pieces into which tiles of either operand cut the contracted mode."""
    extent = a.sizes[0] if a._swap else a.sizes[1]
    return spans(extent, (a.cuts(1), b.cuts(1)))


def _product(pairs: Pairs, box: Box, dtype: DType, count: int) -> torch.Tensor:
    """One box of the product, summed over ``count`` pairs of factors."""
    result = Result(tuple(map(len, box)), dtype if count == 1 else wide(dtype))
    total = None
    for pair in pairs:
        views = [_contiguous(view) for view in pair]
        # Factors have their modes last first.
        piece = MATMUL.torch(views, {"contracted": (len(views[0]), len(views[1]))}, result)
        total = piece if total is None else total.add_(piece)
    assert total is not None
    return total


def _integers(pairs: Pairs, box: Box, dtype: DType, count: int) -> torch.Tensor:
    """``_product`` of integers: exact, whatever a sum passes on its way."""
    wrapped, near = integer_products(*next(pairs))
    for pair in pairs:
        more = integer_products(*pair)
        wrapped.add_(more[0])
        near.add_(more[1])
    return unwrapped("matmul", wrapped, near, dtype)


def _contiguous(view: torch.Tensor) -> torch.Tensor:
    # A product's bits may depend on strides and alignment, which must not depend on how a box was obtained.
    return view.contiguous()
