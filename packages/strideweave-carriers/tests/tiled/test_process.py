"""Exit and fork. Oracle: exit codes, and what each process prints."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

PROGRAM = """
import os, sys, threading, time
import strideweave as sw
from strideweave.carriers.tiled_evictable import TiledEvictable, TileSelection, TileSet
from strideweave.testing import gated
"""


def run(body: str, timeout: float = 120) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-c", PROGRAM + body], capture_output=True, text=True, timeout=timeout
    )


@pytest.mark.slow
@pytest.mark.spec("A103")
def test_exit_during_a_large_copy_ends_well():
    done = run("""
carrier = TiledEvictable(sw.CPU(0, dtype=sw.UInt8), sw.CPU(1 << 30, dtype=sw.UInt8), (4,), (1 << 28,))
handle = carrier.promote_async(TileSet([(i,) for i in range(4)]))
assert not handle.done
print("leaving")
""")
    assert (done.returncode, done.stdout, done.stderr) == (0, "leaving\n", "")


@pytest.mark.spec("A103")
def test_fork_with_a_request_pending():
    begun = time.perf_counter()
    done = run("""
carrier = TiledEvictable(sw.CPU(0), sw.CPU(8), (4,), (2,))
tensor = carrier.full_tensor()
quiet = TiledEvictable(sw.CPU(0), sw.CPU(8), (4,), (2,))
with gated("copy") as gate:
    handle = carrier.project(tensor, TileSelection([[1, 2]]))
    held = carrier.hold(TileSet([(0,)]))
    gate.reached.wait(10)
    child = os.fork()
    if child == 0:
        from strideweave import seam
        seam.install(None)
        begun = time.perf_counter()
        refused = 0
        for call in (
            handle.wait, carrier.wait_idle, lambda: carrier.project(tensor, TileSelection([[0]])),
            held.__enter__, lambda: carrier.hold(TileSet([(0,)])),
        ):
            try:
                call()
            except sw.ForkedProcessError as error:
                refused += "spawn" in str(error)
        good = quiet.project(quiet.full_tensor(), TileSelection([[3]])).wait().size() == 2
        os._exit(0 if refused == 5 and good and time.perf_counter() - begun < 1 else 1)
    gate.open()
    assert handle.wait().size() == 4
_, status = os.waitpid(child, 0)
print(os.waitstatus_to_exitcode(status))
""")
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr
    assert time.perf_counter() - begun < 60
