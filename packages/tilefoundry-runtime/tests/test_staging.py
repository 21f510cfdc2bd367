"""The way through pinned memory. Oracle: the tensors that were saved.

Without a GPU a stand-in queues every copy and performs it only when somebody waits, so that a buffer that is
written too early shows.
"""

import contextlib
import os

import pytest
import torch
from checkpoints import write_single

from tilefoundry.ir.errors import CheckpointError
from tilefoundry.runtime import SafetensorsResource
from tilefoundry.runtime.resource import read_many, spans, staging

RAW = {f"w{i:02}": torch.randn(1000 + 7 * i) for i in range(60)}


class Queue:
    """A stream whose work waits for ``synchronize``."""

    def __init__(self, *_):
        self.work = []

    def wait_stream(self, other):
        other.synchronize()

    def synchronize(self):
        self.run_until(len(self.work))

    def run_until(self, end):
        for i in range(end):
            if self.work[i] is not None:
                target, source = self.work[i]
                target[:] = source
                self.work[i] = None

    def record_event(self):
        return Event(self, len(self.work))


class Event:
    def __init__(self, queue, position):
        self.queue, self.position = queue, position

    def synchronize(self):
        self.queue.run_until(self.position)


class Late:
    """Memory whose slices are copied into by a queue."""

    def __init__(self, array, queue):
        self.array, self.queue = array, queue

    def __getitem__(self, window):
        return Late(self.array[window], self.queue)

    def copy_(self, source, non_blocking):
        assert non_blocking
        self.queue.work.append((self.array, source))


@pytest.fixture
def stand_in(monkeypatch):
    queues = []

    def stream(*_):
        queues.append(Queue())
        return queues[-1]

    monkeypatch.setattr(torch.cuda, "current_stream", Queue)
    monkeypatch.setattr(torch.cuda, "Stream", stream)
    monkeypatch.setattr(torch.cuda, "stream", lambda _: contextlib.nullcontext())

    class Buffer:
        def __init__(self, size):
            self.memory = torch.empty(size, dtype=torch.uint8)
            self.view = memoryview(self.memory.numpy())
            self.copied = None

    monkeypatch.setattr(staging, "_Buffer", Buffer)
    monkeypatch.setattr(staging, "bytes_of", lambda t: Late(t.reshape(-1).view(torch.uint8), queues[-1]))
    monkeypatch.setattr(spans, "SPAN_BYTES", 4096)
    monkeypatch.setattr(read_many, "_on_gpu", lambda device: True)
    return queues


def test_buffers_are_reused_only_after_their_copies(tmp_path, stand_in):
    made = SafetensorsResource(str(write_single(tmp_path, RAW)), device="cpu")
    out = made.read_many(list(RAW))
    assert len(stand_in[0].work) > 60
    assert all(torch.equal(out[key], tensor) for key, tensor in RAW.items())


def test_a_read_that_fails_ends_the_whole(tmp_path, stand_in, monkeypatch):
    real, calls = os.preadv, []

    def fails(fd, buffers, at):
        calls.append(at)
        if len(calls) == 20:
            raise OSError(5, "Input/output error")
        return real(fd, buffers, at) if len(calls) < 30 else 0

    monkeypatch.setattr(spans.os, "preadv", fails)
    made = SafetensorsResource(str(write_single(tmp_path, RAW)), device="cpu")
    with pytest.raises((OSError, CheckpointError)):
        made.read_many(list(RAW))
    assert all(work is None for work in stand_in[0].work)
    monkeypatch.setattr(spans.os, "preadv", real)
    assert torch.equal(made.read_many(["w03"])["w03"], RAW["w03"])


@pytest.mark.gpu
@pytest.mark.parametrize("size", [1 << 16, 8 << 20])
def test_it_is_right_on_a_side_stream(tmp_path, monkeypatch, size):
    # With small spans the ring of buffers goes round many times.
    monkeypatch.setattr(spans, "SPAN_BYTES", size)
    raw = {f"w{i}": torch.randn((1 << 20) + i) for i in range(40)}
    made = SafetensorsResource(str(write_single(tmp_path, raw)), device="cuda")
    for _ in range(3):
        with torch.cuda.stream(torch.cuda.Stream()):
            out = made.read_many(list(raw))
            sums = {key: t.clone() for key, t in out.items()}
        torch.cuda.synchronize()
        assert all(torch.equal(sums[key].cpu(), tensor) for key, tensor in raw.items())


@pytest.mark.gpu
def test_a_truncated_file_on_the_way_to_a_gpu(tmp_path, monkeypatch):
    monkeypatch.setattr(spans, "SPAN_BYTES", 1 << 16)
    raw = {f"w{i}": torch.randn(1 << 18) for i in range(8)}
    folder = write_single(tmp_path, raw)
    made = SafetensorsResource(str(folder), device="cuda")
    made.load("w0")
    with open(next(folder.glob("*.safetensors")), "r+b") as file:
        file.truncate(1 << 20)
    with pytest.raises(CheckpointError, match="truncated"):
        made.read_many(list(raw))
    torch.cuda.synchronize()
