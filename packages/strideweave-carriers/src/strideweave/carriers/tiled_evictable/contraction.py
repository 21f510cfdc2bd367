"""Products of matrices read box by box: ``out[x, y] = sum_z a[x, z] * b[y, z]``."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from ...dtypes import DType, Float32, Int64
from ...operations.checked import checked
from ...operations.matmul import MATMUL
from ...operations.operation import Result
from .access import Access, blocks

if TYPE_CHECKING:
    import torch


def wide(dtype: DType) -> DType:
    """The type in which sums of ``dtype`` are carried."""
    return Float32 if dtype.is_float else Int64


def contract(a: Access, b: Access, out: torch.Tensor, dtype: DType) -> None:
    """Fill ``out`` (dimensions y, x) with the product in ``dtype``: carried wide, rounded once.

    Raises:
        OverflowError: an integer result out of range.
    """
    columns, rows = out.shape
    for x in blocks(rows, a.cuts(0)):
        for y in blocks(columns, b.cuts(0)):
            piece = contract_box(a, b, x, y, dtype)
            if not dtype.is_float:
                checked("matmul", piece, dtype)
            out[y.start : y.stop, x.start : x.stop].copy_(piece)


def contract_box(a: Access, b: Access, x: range, y: range, dtype: DType) -> torch.Tensor:
    """One box of the product, dimensions (y, x), summed over the pieces into which tiles cut the contracted mode."""
    depth = _depth(a)
    edges = sorted({*range(0, depth, a.cuts(1)), *range(0, depth, b.cuts(1)), depth})
    spans = [range(lo, hi) for lo, hi in pairwise(edges)]
    if len(spans) == 1 and dtype.is_float:
        return _piece(a, b, x, y, spans[0], dtype)
    total = None
    for z in spans:
        piece = _piece(a, b, x, y, z, wide(dtype))
        total = piece if total is None else total.add_(piece)
    assert total is not None
    return total


def _depth(a: Access) -> int:
    return a.sizes[0] if a._swap else a.sizes[1]


def _piece(a: Access, b: Access, x: range, y: range, z: range, dtype: DType) -> torch.Tensor:
    views = [_contiguous(a.box((x, z))), _contiguous(b.box((y, z)))]
    attributes = {"contracted": (len(z), len(z))}
    return MATMUL.torch(views, attributes, Result((len(x), len(y)), dtype))


def _contiguous(view: torch.Tensor) -> torch.Tensor:
    # A product's bits may depend on strides and alignment, which must not depend on how a box was obtained.
    return view.contiguous()
