"""A node as one HTML file: tree, tables, pictures, canonical text."""

from __future__ import annotations

from html import escape
from typing import Any

from tilefoundry.inspection.pictures import view
from tilefoundry.inspection.script import as_script
from tilefoundry.inspection.summary import WEIGHT_COLUMNS, op_counts, summary, weight_rows
from tilefoundry.ir.core.module import Module

__all__ = ["page"]

STYLE = """
body { font-family: system-ui, sans-serif; margin: 2em; color: #222 }
pre { background: #f6f6f6; padding: 1em; overflow-x: auto }
table { border-collapse: collapse; font-family: monospace; font-size: 13px }
td, th { border: 1px solid #ccc; padding: 2px 8px; text-align: left }
div.picture { overflow-x: auto; border: 1px solid #ddd; margin: 1em 0 }
"""


def page(node: Any) -> str:
    """An HTML document that needs no other file: what ``summary`` says, every picture, the canonical text."""
    parts = [f"<h1>{escape(node.name)}</h1>", f"<pre>{escape(summary(node).split(chr(10) * 2)[0])}</pre>"]
    if isinstance(node, Module):
        parts += ["<h2>Weights</h2>", _table(WEIGHT_COLUMNS, weight_rows(node))]
    counts = [(name, str(count)) for name, count in op_counts(node).most_common()]
    parts += ["<h2>Ops</h2>", _table(("op", "uses"), counts), "<h2>Pictures</h2>"]
    parts += [f'<div class="picture">{svg}</div>' for svg in view(node).svgs]
    parts += ["<h2>Program</h2>", f"<pre>{escape(as_script(node))}</pre>"]
    head = f"<meta charset='utf-8'><title>{escape(node.name)}</title><style>{STYLE}</style>"
    return f"<!doctype html>\n<html><head>{head}</head>\n<body>\n" + "\n".join(parts) + "\n</body></html>\n"


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    if not rows:
        return "<p>none</p>"
    lines = [_row("th", head), *(_row("td", row) for row in rows)]
    return "<table>" + "\n".join(lines) + "</table>"


def _row(cell: str, texts: tuple[str, ...]) -> str:
    return "<tr>" + "".join(f"<{cell}>{escape(text)}</{cell}>" for text in texts) + "</tr>"
