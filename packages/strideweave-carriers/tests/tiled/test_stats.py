"""The time during which promotions are under way. Oracle: the set of all seconds that some promotion covers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import strideweave as sw
from strideweave.carriers.tiled_evictable import TiledEvictable, TileSet
from strideweave.carriers.tiled_evictable.stats import Recorder
from strideweave.testing import Fault, fail_at, gated


class Clock(Recorder):
    now = 0.0

    def clock(self):
        return self.now


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 10), st.integers(0, 5)), max_size=8))
def test_overlapping_promotions_count_once(given):
    recorder, covered = Clock(), set()
    events = []
    for begin, length, nbytes in given:
        events += [(begin, 1, nbytes), (begin + length, 2, nbytes)]
        covered |= set(range(begin, begin + length))
    # What begins as another ends overlaps it in nothing.
    for at, what, nbytes in sorted(events):
        recorder.now = at
        recorder.loading() if what == 1 else recorder.loaded(nbytes)
    found = recorder.snapshot(0, 0)
    assert found.promote_seconds == len(covered)
    assert found.bytes_promoted == sum(nbytes for _, _, nbytes in given)
    rate = found.bytes_promoted / len(covered) / 1e9 if covered else 0.0
    assert found.promote_gigabytes_per_second == pytest.approx(rate)


def test_two_promotions_at_a_gate_and_one_that_fails():
    """The wall clock of a second that both share is counted once; a failure ends its share and moves nothing."""
    carrier = TiledEvictable(sw.CPU(0), sw.CPU(64), (4,), (16,))
    begun = carrier._core.stats.clock()
    with gated("copy"):
        handles = [carrier.promote_async(TileSet([(k,)])) for k in (0, 2)]
    for handle in handles:
        handle.wait()
    passed = carrier._core.stats.clock() - begun
    found = carrier.stats()
    assert 0 < found.promote_seconds <= passed and found.bytes_promoted == 2 * 64
    with fail_at(1, "copy"), pytest.raises(Fault):
        carrier.promote(TileSet([(1,)]))
    failed = carrier.stats()
    assert failed.bytes_promoted == 2 * 64 and carrier._core.stats._loading == 0
    assert failed.promote_seconds <= carrier._core.stats.clock() - begun
