"""Counters and pictures of residency. Oracle: what was asked for, counted by hand; the picture read as XML."""

from __future__ import annotations

import json
import xml.etree.ElementTree

import strideweave as sw
from strideweave.carriers.tiled_evictable import TileSelection, TileSet
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
