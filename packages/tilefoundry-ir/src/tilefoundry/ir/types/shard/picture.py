"""Pictures of distributed tensors: which instance holds which element."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from math import prod

from tilefoundry.ir.layout import svg_table
from tilefoundry.ir.types.dim import Dim

__all__ = ["draw_shard"]

MOST = 64


def draw_shard(extents: Sequence[Dim], split_by: Mapping[int, int], title: str) -> str:
    """An SVG table of the canonical elements in row-major order, each cell showing its holder.

    A cell shows the coordinate of the instance along the mesh axes that split the tensor; one colour, one
    instance. Rows are the leading canonical axes up to the most square cut. Larger tensors show a corner.

    Args:
        extents: the canonical shape.
        split_by: canonical axis -> mesh axis that splits it.
        title: stands above the table.

    Raises ValueError for extents that are not known before a run.
    """
    shape = [extent for extent in extents if isinstance(extent, int)]
    if len(shape) != len(extents):
        raise ValueError(f"{title}: some extents are known at run time only; there is nothing to draw yet")
    cut = min(range(len(shape) + 1), key=lambda k: abs(prod(shape[:k]) - prod(shape[k:])))
    rows, columns = prod(shape[:cut]), prod(shape[cut:])
    splits = sorted(split_by.items(), key=lambda item: item[1])
    cells: list[list[object]] = []
    colours: list[list[int]] = []
    for row in list(product(*map(range, shape[:cut])))[:MOST]:
        line: list[object] = []
        shades: list[int] = []
        for column in list(product(*map(range, shape[cut:])))[:MOST]:
            at = (*row, *column)
            line.append(",".join(str(at[k]) for k, _ in splits) or "*")
            shades.append(_number([at[k] for k, _ in splits], [shape[k] for k, _ in splits]))
        cells.append(line)
        colours.append(shades)
    shown = (min(rows, MOST), min(columns, MOST))
    note = "" if shown == (rows, columns) else f" (first {shown[0]} x {shown[1]} of {rows} x {columns})"
    return svg_table(cells, title + note, colours)


def _number(at: list[int], extents: list[int]) -> int:
    value = 0
    for index, extent in zip(at, extents, strict=True):
        value = value * extent + index
    return value
