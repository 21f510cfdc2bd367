"""Pictures: a layout as an SVG table whose cells show the index of each coordinate."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape

from .inttuple import IntTuple
from .inttuple import product as size_of

CELL = 28
LETTER, TITLE_LETTER = 6, 7.3
MARGIN = 30
MAX_CELLS = 4096
PALETTE = ("#cfe2f3", "#d9ead3", "#fff2cc", "#f4cccc", "#d9d2e9", "#d0e0e3", "#fce5cd", "#ead1dc")


def draw(function: Callable[[int], int], shape: IntTuple, title: str) -> str:
    """The SVG of ``function`` over the linear coordinates of ``shape``.

    The first mode runs down; all further modes together run to the right. Columns that would make the
    picture larger than ``MAX_CELLS`` cells are left out, and the title says so.
    """
    rows, columns = _table(shape)
    shown_rows = min(rows, MAX_CELLS)
    shown = max(1, min(columns, MAX_CELLS // shown_rows))
    cells = [[function(r + rows * c) for c in range(shown)] for r in range(shown_rows)]
    cut = (
        ""
        if (shown_rows, shown) == (rows, columns)
        else f" (first {shown_rows} x {shown} of {rows} x {columns})"
    )
    return svg_table(cells, title + cut)


def _table(shape: IntTuple) -> tuple[int, int]:
    total = size_of(shape)
    if not isinstance(shape, tuple) or len(shape) < 2:
        return 1, total
    rows = size_of(shape[0])
    return rows, total // rows


def svg_table(
    cells: Sequence[Sequence[object]], title: str, colours: Sequence[Sequence[int]] | None = None
) -> str:
    """An SVG table of ``cells`` (row by row) under ``title``.

    A cell's colour comes from ``colours`` where given, from its own value where that is an int; equal
    numbers modulo the palette share a colour.
    """
    rows, columns = len(cells), max(map(len, cells), default=0)
    wide = max(CELL, max((len(str(value)) for row in cells for value in row), default=0) * LETTER + 6)
    width = max(MARGIN + columns * wide + 4, math.ceil(len(title) * TITLE_LETTER) + 8)
    height = 2 * MARGIN + rows * CELL + 4
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="monospace" font-size="10" text-anchor="middle">',
        f'<text x="4" y="14" text-anchor="start" font-size="12">{escape(title)}</text>',
    ]
    parts += [_label(MARGIN + (c + 0.5) * wide, 2 * MARGIN - 8, c) for c in range(columns)]
    for r, row in enumerate(cells):
        parts.append(_label(MARGIN / 2, 2 * MARGIN + (r + 0.62) * CELL, r))
        for c, value in enumerate(row):
            number = colours[r][c] if colours is not None else value if isinstance(value, int) else 0
            parts.append(
                _cell(MARGIN + c * wide, 2 * MARGIN + r * CELL, wide, value, PALETTE[number % len(PALETTE)])
            )
    return "\n".join([*parts, "</svg>"])


def _label(x: float, y: float, text: object) -> str:
    return f'<text x="{x:g}" y="{y:g}" fill="#888">{escape(str(text))}</text>'


def _cell(x: int, y: int, wide: int, value: object, fill: str) -> str:
    return (
        f'<rect x="{x}" y="{y}" width="{wide}" height="{CELL}" fill="{fill}" stroke="#555"/>'
        f'<text x="{x + wide / 2:g}" y="{y + CELL * 0.62:g}">{escape(str(value))}</text>'
    )
