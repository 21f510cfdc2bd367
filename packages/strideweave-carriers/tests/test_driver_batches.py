"""Several copies by one call of CUDA's driver. Oracle: a library that reads the arrays it is given and moves bytes."""

from __future__ import annotations

import ctypes
import random

import pytest

from strideweave.movement import driver

STREAM = 7


class Function:
    """A function of a library, as ctypes hands it out: its argument types are set from outside."""

    def __init__(self, body):
        self.body, self.argtypes = body, None

    def __call__(self, *given):
        assert self.argtypes is not None and len(given) == len(self.argtypes)
        return self.body(*given)


class Library:
    """A library of driver ``version``: 12.8 names the copy at fault, 13.0 does not, earlier ones know no batches."""

    def __init__(self, version):
        self.status, self.batches, self.single = 0, [], 0
        if version >= 13.0:
            self.cuMemcpyBatchAsync_v2 = Function(lambda *a: self.take(*a))
        if version >= 12.8:
            self.cuMemcpyBatchAsync = Function(lambda *a: self.take(*a[:7], a[8]))

    def take(self, targets, sources, sizes, count, attributes, first, groups, stream):
        assert stream == STREAM and groups == 1 and first._obj.value == 0
        assert attributes._obj.order == 1 and attributes._obj.flags == 0 and not any(attributes._obj.hints)
        assert ctypes.sizeof(attributes._obj) == 24
        if self.status:
            return self.status
        words = [(ctypes.c_uint64 * count).from_address(at) for at in (targets, sources, sizes)]
        self.batches.append(count)
        for target, source, nbytes in zip(*words, strict=True):
            ctypes.memmove(target, source, nbytes)
        return 0

    def copy(self, target, source, nbytes, stream):
        assert stream == STREAM
        self.single += 1
        ctypes.memmove(target, source, nbytes)
        return self.status

    def queue(self, target, source, nbytes, stream):
        return self.copy(target, source, nbytes, stream)

    def reason(self, status, into):
        return 1


class Stream:
    cuda_stream = STREAM

    def query(self):
        return True


@pytest.mark.parametrize(("version", "count", "batched"), [
    (13.0, 40, True), (12.8, 40, True), (12.4, 40, False),
    (13.0, driver.BATCH, True), (13.0, driver.BATCH - 1, False), (13.0, 0, False),
])  # fmt: skip
def test_runs_arrive_where_they_should(monkeypatch, version, count, batched):
    library = Library(version)
    library.copy_batch = driver._batched(library)
    monkeypatch.setattr(driver, "_calls", lambda: library)
    rng = random.Random(count)
    source = (ctypes.c_ubyte * 4096)(*(rng.randrange(256) for _ in range(4096)))
    target, expected = (ctypes.c_ubyte * 4096)(), bytearray(4096)
    places = rng.sample(range(64), count)
    runs = [(rng.randrange(4000), place * 64, rng.randrange(1, 64)) for place in places]
    for at, to, nbytes in runs:
        expected[to : to + nbytes] = bytes(source)[at : at + nbytes]
    driver.copy_runs(ctypes.addressof(target), ctypes.addressof(source), runs, Stream())  # type: ignore[arg-type] # a stand-in
    assert bytes(target) == bytes(expected)
    assert (library.batches, library.single) == (([count], 0) if batched else ([], count))


@pytest.mark.parametrize("count", [2, 9])
def test_a_refusal_is_raised(monkeypatch, count):
    library = Library(13.0)
    library.copy_batch, library.status = driver._batched(library), 700
    monkeypatch.setattr(driver, "_calls", lambda: library)
    memory = (ctypes.c_ubyte * 64)()
    at = ctypes.addressof(memory)
    with pytest.raises(RuntimeError, match="error 700"):
        driver.copy_runs(at + 32, at, [(0, 0, 1)] * count, Stream())  # type: ignore[arg-type] # likewise
    assert not library.batches
