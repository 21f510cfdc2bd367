"""Index tensors on a device. Oracle: the numbers that went in, read once everything was sent; torch's own gather."""

from __future__ import annotations

import ctypes
import random
import threading
from contextlib import nullcontext

import pytest
import torch

import strideweave as sw
from strideweave.carriers.tiled_evictable import TiledEvictable, TileSelection, indices
from strideweave.movement import driver


class Late:
    """A driver whose copies are made when an event of theirs is waited for, as late as a device may make them."""

    def __init__(self):
        self.pending, self.events = [], {}

    def queue(self, target, source, nbytes, stream):
        self.pending.append((target, source, nbytes))
        return 0

    def event_create(self, into, flags):
        handle = len(self.events) + 1
        self.events[handle] = 0
        ctypes.cast(into, ctypes.POINTER(ctypes.c_void_p))[0] = handle
        return 0

    def event_record(self, event, stream):
        self.events[event] = len(self.pending)
        return 0

    def event_synchronize(self, event):
        self.make(self.events[event])
        return 0

    def make(self, count):
        for k, job in enumerate(self.pending[:count]):
            if job is not None:
                ctypes.memmove(*job)
                self.pending[k] = None


class Stream:
    cuda_stream, device_index = 3, 0

    def query(self):
        return True


def test_words_are_written_again_only_after_their_copies(monkeypatch):
    late, plain = Late(), torch.empty
    monkeypatch.setattr(driver, "_calls", lambda: late)
    monkeypatch.setattr(torch.cuda, "device", lambda index: nullcontext())
    monkeypatch.setattr(indices, "WORDS", 64)
    monkeypatch.setattr(torch, "empty", lambda *size, pin_memory=False, **how: plain(*size, **how))
    sender, rng = indices.Sender(Stream(), torch.device("cpu")), random.Random(5)  # type: ignore[arg-type] # what is used of a stream
    sent = []
    for _ in range(300):
        wanted = tuple(rng.randrange(1 << 40) for _ in range(rng.randrange(1, 33)))
        sent.append((wanted, sender.send(wanted)))
    assert any(job is not None for job in late.pending), "nothing was left to be late"
    late.make(len(late.pending))
    assert all(tuple(found.tolist()) == wanted for wanted, found in sent)


@pytest.mark.gpu
def test_selections_never_seen_before_on_two_threads_with_streams_of_their_own(monkeypatch):
    monkeypatch.setattr(indices, "WORDS", 128)
    monkeypatch.setattr(indices, "_senders", {})
    values = torch.randn(64, 4, 6, device="cuda")
    carrier = TiledEvictable(sw.from_torch(values.reshape(-1)).carrier, sw.CPU(0), (64, 1, 1), (1, 4, 6))
    tensor, wrong = carrier.full_tensor(carrier.row_major_layout()), []
    torch.cuda.synchronize()

    def work(seed):
        rng = random.Random(seed)
        with torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(400):
                wanted = rng.sample(range(64), rng.randrange(1, 33))
                compact = carrier.project(tensor, TileSelection([wanted, [0], [0]]), order="tile").on_stream()
                if not torch.equal(sw.to_torch(compact), values[wanted]):
                    wrong.append(wanted)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
