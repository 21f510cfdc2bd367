"""SVG of functions and modules."""

from __future__ import annotations

from html import escape

from tilefoundry.inspection.graph import function_graph
from tilefoundry.inspection.groups import child_groups
from tilefoundry.inspection.placing import PAD, ROW, Box, Placed, place, short
from tilefoundry.ir.core.module import Module
from tilefoundry.ir.hir.function import Function

__all__ = ["function_svg", "module_svg"]

FILL = {
    "param": "#cfe2f3",
    "weight": "#d9d2e9",
    "op": "#ffffff",
    "call": "#fff2cc",
    "loop": "#f3f7ee",
    "scope": "#f7f2ee",
    "result": "#d9ead3",
}
TITLE = 24


def function_svg(function: Function) -> str:
    """The data flow of ``function`` from parameters (blue, weights violet) down to its results (green)."""
    placed = place(function_graph(function))
    return _svg(placed.width, placed.height + TITLE, function.name, _graph(placed, 0, TITLE))


def _svg(width: float, height: float, title: str, parts: list[str]) -> str:
    width = max(width, len(title) * 8 + 2 * PAD)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" '
        f'viewBox="0 0 {width:g} {height:g}" font-family="monospace" font-size="11">'
    )
    arrow = (
        '<defs><marker id="a" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0,0 L8,4 L0,8 z" fill="#777"/></marker></defs>'
    )
    heading = f'<text x="{PAD}" y="17" font-size="13" font-weight="bold">{escape(title)}</text>'
    return "\n".join([head, arrow, heading, *parts, "</svg>"])


def _graph(placed: Placed, x: float, y: float) -> list[str]:
    boxes = [part for box in placed.boxes.values() for part in _box(box, x, y)]
    edges = [
        _edge(placed, placed.boxes[key], box, x, y)
        for box in placed.boxes.values()
        for key in box.node.inputs
    ]
    return [*edges, *boxes]


def _box(box: Box, x: float, y: float) -> list[str]:
    left, top = x + box.x, y + box.y
    parts = [
        f"<g><title>{escape(box.node.title)}\n{escape(box.node.detail)}</title>"
        f'<rect x="{left:g}" y="{top:g}" width="{box.width:g}" height="{box.height:g}" rx="5" '
        f'fill="{FILL[box.node.kind]}" stroke="#555"/>'
    ]
    middle, line = left + box.width / 2, top
    for text, weight in ((box.node.title, "bold"), (box.node.detail, "normal")):
        if text:
            line += ROW
            place = f'x="{middle:g}" y="{line:g}" text-anchor="middle" font-weight="{weight}"'
            parts.append(f"<text {place}>{escape(short(text))}</text>")
    parts.append("</g>")
    if box.inner is not None:
        parts += _graph(box.inner, left + (box.width - box.inner.width) / 2, line + PAD / 2)
    return parts


def _edge(placed: Placed, source: Box, target: Box, x: float, y: float) -> str:
    """A curve from ``source`` down to ``target``; straight down first, past every box that leaves room for it."""
    x1, y1 = source.x + source.width / 2, source.y + source.height
    x2, y2 = target.x + target.width / 2, target.y
    between = [box for box in placed.boxes.values() if box.y < y2 and y1 < box.y + box.height]
    start = max((box.y + box.height for box in between), default=y1)
    if any(box.x <= x1 <= box.x + box.width for box in between):
        start = y1
    bend = max(12.0, (y2 - start) / 2)
    x1, y1, x2, y2, start = x + x1, y + y1, x + x2, y + y2, y + start
    return (
        f'<path d="M{x1:g},{y1:g} V{start:g} C{x1:g},{start + bend:g} {x2:g},{y2 - bend:g} {x2:g},{y2:g}" '
        'fill="none" stroke="#777" marker-end="url(#a)"/>'
    )


def module_svg(module: Module) -> str:
    """The tree of ``module``: functions, methods and children; equal children in a row are drawn once."""
    parts, width, height = _module(module, PAD, TITLE, module.name)
    return _svg(width + 2 * PAD, height + TITLE + PAD, module.name, parts)


def _module(module: Module, x: float, y: float, title: str) -> tuple[list[str], float, float]:
    rows = [(_function_row(module, f.name), f"{f.name}{_signature(f)}") for f in module.functions]
    rows += [("#eeeeee", f"method {name}") for name in module.methods]
    inner: list[str] = []
    width = max([len(title), *(len(short(text)) + 2 for _, text in rows)]) * 6.9 + 2 * PAD
    line = y + TITLE + ROW
    for fill, text in rows:
        inner.append(
            f'<rect x="{x + PAD:g}" y="{line - 12:g}" width="9" height="9" fill="{fill}" stroke="#555"/>'
        )
        inner.append(f'<text x="{x + PAD + 14:g}" y="{line - 4:g}">{escape(short(text))}</text>')
        line += ROW
    for child, name in child_groups(module):
        parts, child_width, child_height = _module(child, x + PAD, line, name)
        inner += parts
        width = max(width, child_width + 2 * PAD)
        line += child_height + PAD
    height = line - y
    frame = (
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="6" '
        'fill="#000" fill-opacity="0.03" stroke="#555"/>'
        f'<text x="{x + PAD:g}" y="{y + 14:g}" font-weight="bold">{escape(title)}</text>'
    )
    return [frame, *inner], width, height


def _function_row(module: Module, name: str) -> str:
    return FILL["result"] if name == module.entry else FILL["call"]


def _signature(function: object) -> str:
    params = ", ".join(f"{p.name}: {p.type}" for p in getattr(function, "params", ()))
    result = f" -> {function.result}" if isinstance(function, Function) else ""
    return f"({params}){result}"
