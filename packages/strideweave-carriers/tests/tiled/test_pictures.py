"""Counters and pictures of residency. Oracle: what was asked for, counted by hand; the picture read as XML."""

from __future__ import annotations

import json
import xml.etree.ElementTree
from collections import deque

import strideweave as sw
from strideweave.carriers.tiled_evictable import TileSelection, TileSet
from strideweave.carriers.tiled_evictable.stats import LOG
from strideweave.carriers.tiled_evictable.timeline import intervals


def choose(*experts):
    return TileSelection([experts, [0], [0]])


def test_stats_and_pictures(tiled):
    made = tiled.make(primary_capacity=2)
    made.carrier.project(made.tensor, choose(0, 1)).wait()
    made.carrier.project(made.tensor, choose(1, 2, 3)).wait()
    stats = made.carrier.stats()
    assert (stats.requests, stats.hits, stats.misses, stats.hit_rate) == (2, 1, 4, 0.2)
    assert stats.bytes_promoted == 3 * 24 and stats.bytes_streamed == 24 and stats.peak_resident_tiles == 2
    assert stats.promote_gigabytes_per_second > 0
    picture = xml.etree.ElementTree.fromstring(made.carrier.timeline_svg())
    assert len(picture.findall("{http://www.w3.org/2000/svg}rect")) == 3
    page = xml.etree.ElementTree.fromstring(made.carrier.timeline_html().removeprefix("<!DOCTYPE html>"))
    assert len(page.findall(".//{http://www.w3.org/2000/svg}rect")) == 3
    cells = {row.find("th").text: row.find("td").text for row in page.findall(".//tr")}
    assert (cells["misses"], cells["hit_rate"], cells["peak_resident_tiles"]) == ("4", "0.2", "2")
    trace = json.loads(made.carrier.chrome_trace())
    assert sorted(e["tid"] for e in trace["traceEvents"]) == [0, 1, 2]
    assert all(e["ph"] == "X" and e["dur"] >= 0 for e in trace["traceEvents"])


def test_stays_begin_with_the_carrier_and_end_with_it():
    """Two tiles are there from the start, one of them leaves and comes back; nothing is there after release."""
    carrier = sw.TiledEvictable(sw.CPU(6), sw.CPU(0), (3,), (2,))
    carrier.evict(TileSet([(1,)]))
    carrier.promote(TileSet([(1,)]))
    stays = intervals(carrier)
    assert [code for code, _, _ in stays] == [0, 1, 1, 2] and [since for _, since, _ in stays].count(0.0) == 3
    carrier.release()
    ended = intervals(carrier)
    assert [code for code, _, _ in ended] == [0, 1, 1, 2] and ended == intervals(carrier)
    assert all(to >= since for _, since, to in ended)


SVG = "{http://www.w3.org/2000/svg}"


def test_figures_of_the_pictures():
    """A clock that is set by hand: tile 3 is there from second 1 to 3, tile 0 from 2 until now, at 4."""
    carrier = sw.TiledEvictable(sw.CPU(0), sw.CPU(8), (2, 2), (2, 1))
    recorder, now = carrier._core.stats, [0.0]
    recorder.clock, recorder.began = lambda: now[0], 0.0
    for at, act in (
        (1.0, lambda: carrier.promote(TileSet([(1, 1)]))),
        (2.0, lambda: carrier.promote(TileSet([(0, 0)]))),
        (3.0, lambda: carrier.evict(TileSet([(1, 1)]))),
        (4.0, lambda: None),
    ):
        now[0] = at
        act()
    assert intervals(carrier) == [(0, 2.0, 4.0), (3, 1.0, 3.0)]
    picture = xml.etree.ElementTree.fromstring(carrier.timeline_svg())
    bars = [[float(bar.get(k)) for k in ("x", "y", "width")] for bar in picture.findall(SVG + "rect")]
    # 800 wide for 4 seconds, to the right of 90 for the labels; a row below the other.
    assert bars == [[90 + 400, 2, 400], [90 + 200, 16, 400]]
    titles = [bar.find(SVG + "title").text for bar in picture.findall(SVG + "rect")]
    assert titles == ["tile (0, 0): 2.000000 s to 4.000000 s", "tile (1, 1): 1.000000 s to 3.000000 s"]
    labels = [(text.text, float(text.get("y"))) for text in picture.findall(SVG + "text")]
    assert labels[:2] == [("(0, 0)", 11), ("(1, 1)", 25)] and [text for text, _ in labels[2:]] == [
        "0 s",
        "4 s",
    ]
    events = json.loads(carrier.chrome_trace())["traceEvents"]
    assert [(e["name"], e["tid"], e["ts"], e["dur"]) for e in events] == [
        ("tile (0, 0)", 0, 2e6, 2e6),
        ("tile (1, 1)", 3, 1e6, 2e6),
    ]


def test_the_log_is_bounded_and_what_it_forgot_was_there_from_the_beginning():
    carrier = sw.TiledEvictable(sw.CPU(0), sw.CPU(8), (4,), (2,))
    assert carrier._core.stats.log.maxlen == LOG and carrier.stats().hit_rate == 1.0
    carrier._core.stats.log = deque(maxlen=3)
    for code in (0, 1):
        carrier.promote(TileSet([(code,)]))
    carrier.evict(TileSet([(0,), (1,)]))
    found = intervals(carrier)
    assert [code for code, _, _ in found] == [0, 1]
    assert found[0][1] == 0.0 < found[1][1] <= found[1][2] == found[0][2]
