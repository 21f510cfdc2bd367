"""Long copies in portions. Oracle: the pieces in order, and a lane that says when a portion is done."""

from __future__ import annotations

import random
from contextlib import nullcontext

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from strideweave.movement.portions import AHEAD, PORTION, Portions, portions_of, queue_in_turn
from strideweave.movement.transfer import Run


class Lane:
    """Keeps what is to follow each portion until the test lets it happen."""

    device = 0

    def __init__(self):
        self.open = []

    def follow(self, completion, settle):
        self.open.append(settle)


@pytest.fixture(autouse=True)
def no_device(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device", lambda index: nullcontext())


def pieces(sizes):
    return [Run(k << 40, k << 41, nbytes) for k, nbytes in enumerate(sizes)]


@given(st.lists(st.integers(1, PORTION // 2), max_size=30))
def test_portions_are_the_pieces_in_order(sizes):
    given = pieces(sizes)
    found = portions_of(given)
    assert [piece for portion in found for piece in portion] == given
    for portion in list(found)[:-1]:
        assert PORTION <= sum(p.nbytes for p in portion) < PORTION + PORTION // 2
    assert all(found)


@pytest.mark.parametrize("seed", range(8))
def test_few_are_queued_at_once_and_all_in_the_end(seed):
    """Portions of one stream end in order; threads may notice it in another one."""
    rng = random.Random(seed)
    given = pieces([rng.randrange(1, PORTION) for _ in range(24)])
    lane, queued = Lane(), []
    copy = Portions(given, lambda part: queued.append(list(part)), lane, None)  # type: ignore[arg-type] # a stand-in
    copy.begin()
    while lane.open:
        assert len(lane.open) <= AHEAD and not copy.completion.done
        lane.open.pop(rng.randrange(len(lane.open)))(None)
    assert [piece for portion in queued for piece in portion] == given
    assert copy.completion.done and copy.completion.error is None


@pytest.mark.parametrize("broken", range(5))
@pytest.mark.parametrize("late", [False, True])
def test_a_failure_settles_once_nothing_is_under_way(broken, late):
    """``late``: the device fails at a portion that was queued, else the queueing of it."""
    given, lane, queued, fault = pieces([PORTION] * 5), Lane(), [], RuntimeError("fault")

    def queue(part):
        queued.append(part)
        if not late and len(queued) == broken + 1:
            raise fault

    copy = Portions(given, queue, lane, None)  # type: ignore[arg-type] # as above
    if broken == 0 and not late:
        with pytest.raises(RuntimeError, match="fault"):
            copy.begin()
        assert len(queued) == 1 and not lane.open
        return
    copy.begin()
    ended = 0
    while lane.open:
        assert not copy.completion.done
        settle = lane.open.pop(0)
        settle(fault if late and ended == broken else None)
        ended += 1
    assert copy.completion.error is fault
    assert len(queued) == (min(5, broken + AHEAD) if late else broken + 1)


class Marks:
    """Events of a stream that does its work when one is waited for; ``failing`` is the wait that reports a failure."""

    def __init__(self, failing=None):
        self.taken, self.given, self.waits, self.failing = 0, 0, 0, failing

    def take(self):
        self.taken += 1
        return self

    def give(self, event):
        self.given += 1

    def synchronize(self):
        self.waits += 1
        if self.waits == self.failing:
            raise RuntimeError("fault")


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_a_worker_waits_before_it_queues_more(count):
    lane, queued = Lane(), []
    lane.marks = Marks()

    def queue(part):
        assert len(queued) - lane.marks.waits < AHEAD
        queued.extend(part)

    given = pieces([PORTION] * count)
    queue_in_turn(given, queue, lane)  # type: ignore[arg-type] # as above
    assert queued == given and lane.marks.taken == lane.marks.given == count
    lane.marks = Marks(failing=1)
    queued.clear()
    if count > AHEAD:
        with pytest.raises(RuntimeError, match="fault"):
            queue_in_turn(given, queued.extend, lane)  # type: ignore[arg-type] # as above
        assert len(queued) == AHEAD
