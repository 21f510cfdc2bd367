"""Page-locked memory of the exact size. Oracle: what a stand-in for the driver was told to lock and to unlock, and the
kernel's table of this process's pages."""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import pytest
import torch

import strideweave as sw
from strideweave.carriers.hostmemory import PAGE
from strideweave.movement import locked, page_locks
from strideweave.movement.locked import LockedPages, rounded_by_torch
from strideweave.movement.retirement import _stuck, retirement
from strideweave.testing import Fault, fail_at

sys.path.insert(0, str(Path(__file__).parent))
from test_mapping import present

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")

MIB = 1 << 20
OUT_OF_MEMORY, FAILED = 2, 700


class Driver:
    """Locked ranges by address, in ``limit`` bytes at most; who unlocked what, once ``gate`` is open."""

    def __init__(self):
        self.locked, self.unlocked, self.limit = {}, [], 1 << 40
        self.gate, self.refuse, self.most = threading.Event(), 0, 0
        self.gate.set()
        self.meanwhile = lambda: None

    def cuCtxGetCurrent(self, into):  # the driver's names
        ctypes.cast(into, ctypes.POINTER(ctypes.c_void_p))[0] = 1
        return 0

    def cuMemHostRegister_v2(self, address, nbytes, flags):
        assert flags == page_locks.PORTABLE and address.value % PAGE == 0 and nbytes.value % PAGE == 0
        if sum(self.locked.values()) + nbytes.value > self.limit:
            return OUT_OF_MEMORY
        self.locked[address.value] = nbytes.value
        self.most = max(self.most, sum(self.locked.values()))
        self.meanwhile()
        return 0

    def cuMemHostUnregister(self, address):
        self.gate.wait(20)
        if self.refuse:
            return self.refuse
        assert present(address.value, PAGE), "unmapped while it was locked"
        self.unlocked.append((address.value, threading.current_thread().name))
        del self.locked[address.value]
        return 0


@pytest.fixture
def driver(monkeypatch):
    found = Driver()
    monkeypatch.setattr(page_locks, "_driver", lambda: found)
    # Smaller than it is, for the sake of time.
    monkeypatch.setattr(locked, "SMALLEST", 4 * MIB)
    for name, value in (("is_available", True), ("init", None), ("current_device", 0), ("device_count", 1)):
        monkeypatch.setattr(torch.cuda, name, lambda value=value: value)
    yield found
    found.gate.set()
    found.refuse = 0
    gc.collect()
    assert retirement().settle(20) or not found.locked


def pinned(nbytes, dtype=sw.UInt8, **how):
    return sw.CPU(nbytes // dtype.itemsize, dtype=dtype, pinned=True, **how)


@pytest.mark.parametrize(
    "nbytes", [4 * MIB, 5 * MIB + 1, 6 * MIB, 8 * MIB - 1, 257 * MIB, 384 * MIB, 511 * MIB]
)
def test_the_exact_size_is_taken_where_torch_takes_a_twentieth_more(driver, nbytes):
    """Oracle: the next power of two."""
    power = next(1 << k for k in range(40) if 1 << k >= nbytes)
    assert rounded_by_torch(nbytes) == (power / nbytes > 1.05 + 1e-9)
    assert not rounded_by_torch(3 * MIB), "small ones are torch's"


def test_with_several_devices_memory_is_torchs(driver, monkeypatch):
    """The driver waits for one of them alone."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert not rounded_by_torch(5 * MIB)


def test_without_a_driver_memory_is_torchs(monkeypatch):
    monkeypatch.setattr(page_locks, "_driver", lambda: None)
    assert not rounded_by_torch(5 * MIB)
    assert (
        page_locks.lock(0, PAGE)
        == page_locks.unlock(0)
        == page_locks.enter_context(0)
        == page_locks.NO_DRIVER
    )


@pytest.mark.parametrize("dtype", [sw.UInt8, sw.BFloat16, sw.Float32])
@pytest.mark.parametrize("empty", [True, False])
def test_whole_pages_and_no_more(driver, dtype, empty):
    nbytes = 5 * MIB + 12
    with torch.inference_mode():
        carrier = pinned(nbytes, dtype, empty=empty)
    ((address, taken),) = driver.locked.items()
    assert address == carrier.host_address() and taken == 5 * MIB + PAGE
    assert carrier.flat().untyped_storage().nbytes() == nbytes == carrier.nbytes()
    assert present(address, taken) == taken
    assert not carrier.flat_bytes().any()
    carrier.flat().fill_(3)
    assert carrier.get_value(nbytes // dtype.itemsize - 1) == 3


def test_files_are_read_into_it_and_written_from_it(driver, tmp_path):
    """Oracle: the bytes of the files."""
    data, size = os.urandom(5 * MIB + 12), 5 * MIB + 12
    (tmp_path / "in").write_bytes(data)
    source = sw.FileBacked(tmp_path / "in", mutable=False, dtype=sw.UInt8)
    carrier = pinned(size)
    address = carrier.host_address()
    sw.move(sw.Tensor(source, 0, sw.Layout(size)), carrier)
    assert carrier.host_address() == address in driver.locked, "it has not been given other memory"
    assert bytes(carrier.flat().numpy()) == data
    copy = sw.move(sw.Tensor(carrier, 0, sw.Layout(size)), sw.CPU(0, dtype=sw.UInt8))
    assert bytes(copy.carrier.flat().numpy()) == data and list(driver.locked) == [address]


@pytest.mark.parametrize("how", ["released", "dropped"])
def test_memory_is_given_back_by_a_thread_of_its_own(driver, how):
    carrier = pinned(5 * MIB)
    address = carrier.host_address()
    assert carrier.is_pinned(), "asked of nobody: it is known"
    driver.gate.clear()
    if how == "released":
        carrier.release()
        assert not carrier.is_pinned()
    else:
        del carrier
    gc.collect()
    other = pinned(6 * MIB)
    assert address in driver.locked and present(address, PAGE), "a device may still use it"
    assert not retirement().settle(0.05)
    driver.gate.set()
    assert retirement().settle(20)
    assert driver.unlocked == [(address, "strideweave-unlock")] and not present(address, 5 * MIB)
    assert other.host_address() in driver.locked


def test_views_outlive_their_carrier(driver):
    """Oracle: the values that were written."""
    carrier = pinned(5 * MIB, sw.Int32)
    carrier.flat().copy_(torch.arange(carrier.size()))
    part, whole = carrier.flat()[7:9], carrier.flat().numpy()
    carrier.release()
    del carrier
    gc.collect()
    retirement().settle(20)
    assert part.tolist() == [7, 8] and len(driver.locked) == 1
    del part
    retirement().settle(20)
    assert whole[-1] == 5 * MIB // 4 - 1 and len(driver.locked) == 1
    del whole
    assert retirement().settle(20) and not driver.locked


def test_a_refusal_is_named_and_leaves_nothing(driver, monkeypatch):
    driver.limit = 8 * MIB
    unmapped = []
    real = locked.map_pages

    def noted(nbytes):
        unmapped.append(real(nbytes))
        return unmapped[-1]

    monkeypatch.setattr(locked, "map_pages", noted)
    kept = pinned(5 * MIB)
    with pytest.raises(RuntimeError, match=r"page-locking 6291456 bytes: .*ask for less.*pin_lazily"):
        pinned(6 * MIB)
    assert list(driver.locked) == [kept.host_address()]
    assert len(unmapped) > 1 and all(not present(m.address, m.nbytes) for m in unmapped[1:])
    with fail_at(1, "allocate"), pytest.raises(Fault):
        pinned(5 * MIB)
    assert list(driver.locked) == [kept.host_address()]


@pytest.mark.parametrize("why", ["limit", "large"])
def test_what_is_on_its_way_back_is_waited_for_where_there_may_be_no_other(driver, monkeypatch, why):
    """Oracle: the most bytes that were locked at once."""
    if why == "limit":
        driver.limit = 8 * MIB
    else:
        monkeypatch.setattr(locked, "LARGE", 6 * MIB)
    driver.gate.clear()
    del (first := [pinned(5 * MIB)])[:]
    assert not first and len(driver.locked) == 1
    threading.Timer(0.1, driver.gate.set).start()
    second = pinned(6 * MIB)
    assert list(driver.locked) == [second.host_address()] and driver.most == 6 * MIB


def test_memory_that_stays_locked_stays_mapped(driver):
    pages = LockedPages(5 * MIB, 0)
    address = pages.address
    driver.refuse = FAILED
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        del pages
        assert retirement().settle(20)
    assert present(address, 5 * MIB) == 5 * MIB
    assert [w.category for w in told] == [RuntimeWarning] and "status 700" in str(told[0].message)
    del _stuck[:]
    driver.locked.clear()


def test_an_interrupt_while_memory_is_locked_loses_none(driver):
    """Unmapped while the driver has it, its addresses could be given to somebody else."""
    driver.meanwhile = lambda: signal.raise_signal(signal.SIGINT)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            pinned(5 * MIB)
    finally:
        signal.signal(signal.SIGINT, before)
    gc.collect()
    assert retirement().settle(20) and len(driver.unlocked) == 1 and not driver.locked


def test_a_forked_child_leaves_the_parents_memory_alone(driver):
    """Oracle: exit status of the child, which reads the values and lets go of them."""
    carrier = pinned(5 * MIB, sw.Int32)
    carrier.flat().fill_(7)
    address = carrier.host_address()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        status = 1
        try:
            right = carrier.get_value(9) == 7
            carrier.release()
            gc.collect()
            retirement().start()
            right = right and retirement().settle(20)
            status = 0 if right and not driver.unlocked and present(address, PAGE) else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    carrier.release()
    assert retirement().settle(20) and [a for a, _ in driver.unlocked] == [address]


ENDING = """
import ctypes, threading, torch, strideweave as sw
from strideweave.movement import page_locks
gate, calls = threading.Event(), []

class Driver:
    def cuCtxGetCurrent(self, into):
        ctypes.cast(into, ctypes.POINTER(ctypes.c_void_p))[0] = 1
        return 0
    def cuMemHostRegister_v2(self, *_):
        calls.append("lock")
        return 0
    def cuMemHostUnregister(self, *_):
        gate.wait(20)
        return 0

driver = Driver()
page_locks._driver = lambda: driver
torch.cuda.is_available, torch.cuda.init, torch.cuda.current_device = lambda: True, bool, int
torch.cuda.device_count = lambda: 1
every = [sw.CPU(20 << 20, dtype=sw.UInt8, pinned=True) for _ in range(4)]
kept = every.pop().flat(), every.pop()
every.clear()
threading.Timer(0.1, gate.set).start()
print(len(calls))
"""


def test_the_process_ends_cleanly():
    """With memory that somebody has, and with memory that is being and that waits to be given back."""
    out = subprocess.run([sys.executable, "-c", ENDING], capture_output=True, text=True, timeout=120)
    assert (out.returncode, out.stdout, out.stderr) == (0, "4\n", "")
