"""Pictures of residency over time: an SVG for notebooks, a page around it, a trace for Chrome's viewer or Perfetto."""

from __future__ import annotations

import json
from dataclasses import fields
from html import escape
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .observed import Observed

ROW, WIDTH, LEFT = 14, 800, 90


def intervals(carrier: Observed) -> list[tuple[int, float, float]]:
    """``(code, from, to)`` in seconds since construction for every stay on primary that the log still holds."""
    recorder = carrier._core.stats
    now = recorder.clock() - recorder.began
    open_since: dict[int, float] = {}
    stays: list[tuple[int, float, float]] = []
    with carrier._core.lock:
        log = tuple(recorder.log)
        there = list(carrier._core.table.select(lambda record: record.primary is not None))
    for at, code, resident in log:
        if resident:
            open_since.setdefault(code, at)
        else:
            stays.append((code, open_since.pop(code, 0.0), at))
    # What nothing was noted of has been there all the time.
    stays += [(code, open_since.get(code, 0.0), now) for code in there]
    return sorted(stays)


def timeline_svg(carrier: Observed) -> str:
    """One row per tile that was on primary, time from left to right; hovering over a bar tells tile and times."""
    stays = intervals(carrier)
    rows = [(code, list(some)) for code, some in groupby(stays, itemgetter(0))]
    end = max((to for _, _, to in stays), default=1.0) or 1.0
    height = ROW * (len(rows) + 2)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 10}" height="{height}" '
        'font-family="monospace" font-size="10">'
    ]
    for k, (code, some) in enumerate(rows):
        name = escape(str(carrier._core.geometry.coordinate(code)))
        parts.append(f'<text x="2" y="{ROW * k + 11}">{name}</text>')
        for _, since, to in some:
            x, wide = LEFT + WIDTH * since / end, max(1.0, WIDTH * (to - since) / end)
            parts.append(
                f'<rect x="{x:.1f}" y="{ROW * k + 2}" width="{wide:.1f}" height="{ROW - 4}" fill="#4878a8">'
                f"<title>tile {name}: {since:.6f} s to {to:.6f} s</title></rect>"
            )
    parts.append(f'<text x="{LEFT}" y="{height - 6}">0 s</text>')
    parts.append(f'<text x="{LEFT + WIDTH - 60}" y="{height - 6}">{end:.3g} s</text></svg>')
    return "".join(parts)


def timeline_html(carrier: Observed) -> str:
    """A page of its own: the picture, and below it the counters."""
    counters = carrier.stats()
    named = [(field.name, getattr(counters, field.name)) for field in fields(counters)]
    named += [(name, getattr(counters, name)) for name in ("hit_rate", "promote_gigabytes_per_second")]
    rows = "".join(f"<tr><th>{name}</th><td>{value:g}</td></tr>" for name, value in named)
    title = f"Tiles of {type(carrier).__name__} on primary"
    return (
        f'<!DOCTYPE html><html><head><meta charset="utf-8"/><title>{title}</title></head><body><h1>{title}</h1>'
        f"{timeline_svg(carrier)}<table>{rows}</table></body></html>"
    )


def chrome_trace(carrier: Observed) -> str:
    """The stays as complete events in Chrome's trace format: one thread per tile, times in microseconds."""
    events = [
        {
            "name": f"tile {carrier._core.geometry.coordinate(code)}",
            "cat": "residency",
            "ph": "X",
            "pid": 0,
            "tid": code,
            "ts": since * 1e6,
            "dur": (to - since) * 1e6,
        }
        for code, since, to in intervals(carrier)
    ]
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ms"})
