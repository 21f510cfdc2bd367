"""What is queued between the copies of a prefetch. Oracle: the runs themselves, and a driver that keeps a list."""

from __future__ import annotations

import ctypes
import itertools
import sys
import threading
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import strideweave as sw
from strideweave.movement import bursts, cuda, driver
from strideweave.movement.bursts import BURST, Turn, bursts_of, pieces_of
from strideweave.movement.transfer import Run

sys.path.insert(0, str(Path(__file__).parent))
from fake_driver import LANE, Library, Stream

RUNS = st.lists(st.integers(1, 3 * BURST), min_size=1, max_size=20)


def runs_of(sizes):
    """Runs apart from one another."""
    return [Run(k << 40, k << 41, nbytes) for k, nbytes in enumerate(sizes)]


def bytes_of(runs):
    """Every stretch of source and target, with neighbours joined: what is copied, however it is cut."""
    joined = []
    for source, target, nbytes in runs:
        if joined and joined[-1][0] + joined[-1][2] == source and joined[-1][1] + joined[-1][2] == target:
            joined[-1][2] += nbytes
        else:
            joined.append([source, target, nbytes])
    return joined


@given(RUNS)
def test_bursts_are_the_runs_in_order_and_none_is_long(sizes):
    runs = runs_of(sizes)
    found = list(bursts_of(runs))
    assert (
        bytes_of([piece for burst in found for piece in burst]) == bytes_of(runs) == [list(r) for r in runs]
    )
    assert all(0 < sum(p.nbytes for p in burst) <= BURST for burst in found)
    assert [p for burst in found for p in burst] == list(pieces_of(runs))
    # No two neighbours would have fitted into one.
    for one, following in itertools.pairwise(found):
        assert sum(p.nbytes for p in one) + following[0].nbytes > BURST


class Words(Library):
    """A driver that also writes words, and keeps the order of everything that was queued."""

    def __init__(self):
        super().__init__()
        self.order = []

    def copy(self, target, source, nbytes, stream):
        self.order.append(nbytes)
        return super().copy(target, source, nbytes, stream)

    copy_batch = None

    def write_word(self, stream, address, value, flags):
        assert (stream, value, flags) == (LANE, 1, 0)
        status = self._status("write_word")
        if not status:
            ctypes.c_uint32.from_address(address).value = value
            self.order.append("turn")
        return status


class Lane:
    """What is used of a lane to queue a copy."""

    def __init__(self):
        self.stream, self.turns = Stream(), Turn(Stream(), -1)  # type: ignore[arg-type] # what is used of a stream

    def clear(self):
        return self.stream

    def give_way(self):
        self.turns.queue()


@pytest.fixture
def words(monkeypatch):
    """The driver, on a machine without one; page-locked memory is plain memory there."""
    library, plain = Words(), torch.zeros
    monkeypatch.setattr(driver, "_calls", lambda: library)
    monkeypatch.setattr(driver, "_bound", threading.local())
    monkeypatch.setattr(torch, "zeros", lambda *size, pin_memory=False, **how: plain(*size, **how))
    return library


def test_a_turn_follows_each_burst(words, monkeypatch):
    monkeypatch.setattr(bursts, "BURST", 64)
    monkeypatch.setattr(cuda, "_within_one_device", lambda source, target: True)
    source, target = sw.CPU(256, dtype=sw.UInt8), sw.CPU(256, dtype=sw.UInt8)
    source.flat().random_(0, 255)
    cuda._enqueue_behind(source, target, [Run(0, 0, 150), Run(160, 150, 20), Run(200, 200, 30)], Lane())  # type: ignore[arg-type] # a stand-in
    assert words.order == [64, "turn", 64, "turn", 22, 20, "turn", 30, "turn"]
    assert torch.equal(target.flat()[:150], source.flat()[:150])
    assert torch.equal(target.flat()[150:170], source.flat()[160:180])
    assert torch.equal(target.flat()[200:230], source.flat()[200:230])


def test_what_somebody_waits_for_has_no_turns(words, monkeypatch):
    monkeypatch.setattr(bursts, "BURST", 64)
    monkeypatch.setattr(cuda, "_within_one_device", lambda source, target: True)
    source, target = sw.CPU(256, dtype=sw.UInt8), sw.CPU(256, dtype=sw.UInt8)
    cuda._enqueue(source, target, [Run(0, 0, 256)], Lane())  # type: ignore[arg-type] # likewise
    assert words.order == [256]


def test_a_refused_turn_is_an_error_after_which_nothing_is_under_way(words, monkeypatch):
    monkeypatch.setattr(bursts, "BURST", 64)
    monkeypatch.setattr(cuda, "_within_one_device", lambda source, target: True)
    source, target = sw.CPU(256, dtype=sw.UInt8), sw.CPU(256, dtype=sw.UInt8)
    words.refuse, words.refuse_at = 801, "write_word"
    with pytest.raises(RuntimeError, match=r"write of a word: .*reason 801"):
        cuda._enqueue_behind(source, target, [Run(0, 0, 256)], Lane())  # type: ignore[arg-type] # likewise
    assert words.done[LANE] == words.queued[LANE] == 1


def test_without_the_call_torch_writes_the_word(monkeypatch):
    """Drivers before CUDA 12, and other makers': the word lies on the device, and a fill is queued on the stream."""
    library, plain, streams = Library(), torch.zeros, []
    library.write_word = None

    class On:
        def __init__(self, stream):
            streams.append(stream)

        def __enter__(self):
            return None

        def __exit__(self, *error):
            return None

    monkeypatch.setattr(driver, "_calls", lambda: library)
    monkeypatch.setattr(torch, "zeros", lambda *size, device, **how: plain(*size, dtype=torch.int32))
    monkeypatch.setattr(torch.cuda, "stream", On)
    monkeypatch.setattr(torch.cuda, "device", lambda index: On(None))
    stream = Stream()
    turn = Turn(stream, 0)  # type: ignore[arg-type] # likewise
    turn._word.fill_(7)
    turn.queue()
    assert turn._word.item() == 0 and streams == [None, stream]


@pytest.mark.gpu
def test_a_copy_in_demand_waits_for_one_burst_at_the_most():
    """Oracle: the copy's values are there while most of a gigabyte that was queued before it is not."""
    from strideweave.movement.cuda import TO_DEVICE
    from strideweave.movement.pool import BACKGROUND

    big, goal = (
        sw.CPU(1 << 30, dtype=sw.UInt8, pinned=True, empty=True),
        sw.CUDA(1 << 30, dtype=sw.UInt8, empty=True),
    )
    small, near = sw.CPU(1 << 20, dtype=sw.UInt8, pinned=True), sw.CUDA(1 << 20, dtype=sw.UInt8)
    small.flat().random_(0, 255)
    TO_DEVICE.submit(small, near, [Run(0, 0, 1 << 20)]).result()
    torch.cuda.synchronize()
    overtook = []
    for _ in range(8):
        behind = TO_DEVICE.submit(big, goal, [Run(0, 0, 1 << 30)], BACKGROUND)
        TO_DEVICE.submit(small, near, [Run(0, 0, 1 << 20)]).result()
        overtook.append(not behind.done)
        behind.result()
    # A thread may be kept from looking for longer than a gigabyte takes, though not most of the time.
    assert sum(overtook) >= 4, overtook
    assert torch.equal(near.flat().cpu(), small.flat())
