"""How tensors show themselves: a line of text, and a table for notebooks."""

from __future__ import annotations

from html import escape

from .constructors import tolist
from .dtypes import Scalar
from .tensor import Tensor

SHOWN = 12
ROWS, COLUMNS = 16, 16


def text(tensor: Tensor) -> str:
    """``Tensor(shape, dtype, carrier, [values])``; values of small, readable tensors only."""
    head = f"Tensor({tensor.shape.extents}, {tensor.dtype()}, {_place(tensor)}"
    node = f", {tensor.autograd_ctx.name}" if tensor.autograd_ctx is not None else ""
    return f"{head}{_values(tensor)}{node})"


def _place(tensor: Tensor) -> str:
    released = " released" if tensor.carrier.is_released() else ""
    return type(tensor.carrier).__name__ + released


def _readable(tensor: Tensor) -> bool:
    carrier = tensor.carrier
    return carrier.host and not carrier.dependent and not carrier.is_released()


def _values(tensor: Tensor) -> str:
    if not _readable(tensor) or tensor.size() > SHOWN:
        return ""
    return ", [" + ", ".join(map(number, tolist(tensor))) + "]"


def number(value: Scalar) -> str:
    """A value in at most six digits."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def html(tensor: Tensor) -> str:
    """The line of text over a table of the first rows and columns; the first mode runs down."""
    caption = f"<pre>{escape(text(tensor))}</pre>"
    if not _readable(tensor):
        return caption
    modes = tensor.layout.concrete.modes()
    rows = modes[0].size() if modes else 1
    columns = tensor.size() // rows
    body = []
    for r in range(min(rows, ROWS)):
        cells = [number(tensor.value(r + rows * c)) for c in range(min(columns, COLUMNS))]
        dots = "<td>...</td>" if columns > COLUMNS else ""
        body.append("<tr>" + "".join(f"<td>{escape(c)}</td>" for c in cells) + dots + "</tr>")
    more = "<tr><td>...</td></tr>" if rows > ROWS else ""
    return caption + "<table>" + "".join(body) + more + "</table>"
