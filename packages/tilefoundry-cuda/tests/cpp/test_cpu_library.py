"""What a library of the CPU surface shares with its process: threads, symbols, memory that it moves."""

from __future__ import annotations

import subprocess

import numpy as np

from .cpu_library import Library


def test_small_work_opens_no_parallel_region(cpu: Library):
    """The threshold decides; every item is visited exactly once either way."""
    threaded = cpu("threads_used", 1 << 20, 1) == 2
    assert cpu("threads_used", 1000, 1) == 1
    for items, cost in ((0, 1), (1, 10**9), (1000, 1), (1 << 20, 1), (3, 10**9)):
        hits = np.zeros(max(items, 1), np.int32)
        chunks = cpu("cover", items, cost, hits)
        assert (hits[:items] == 1).all()
        assert chunks == (0 if items == 0 else 2 if threaded and items > 1 and items * cost > 1 << 17 else 1)


def test_thread_count_comes_from_the_loader(cpu: Library):
    """A build without OpenMP stays on the calling thread, whatever it is told."""
    threaded = cpu("threads_used", 1 << 30, 1) == 2
    try:
        for threads in (1, 2, 7):
            cpu("tilefoundry_set_num_threads", threads)
            assert cpu("threads_used", 1 << 30, 1) == (threads if threaded else 1)
    finally:
        cpu("tilefoundry_set_num_threads", 2)


def test_moves(cpu: Library):
    x = np.arange(35, dtype=np.float32).reshape(5, 7)
    out = np.zeros((7, 5), np.float32)
    cpu("transpose", x, out, 5, 7)
    np.testing.assert_array_equal(out, x.T)
    strided = np.zeros(12, np.float32)
    cpu("fill_strided", strided, 4, 3, 2.5)
    assert strided.tolist() == [2.5, 0, 0] * 4
    clamped = np.zeros(4, np.float32)
    cpu("clamp_f32", np.array([-9, 0.5, 9, np.nan], np.float32), clamped, 4, -1.0, 1.0)
    np.testing.assert_array_equal(clamped, np.array([-1, 0.5, 1, np.nan], np.float32))


def test_library_needs_no_blas_and_shares_no_state(cpu: Library):
    """Oracle: the dynamic section; the tables are local to the library, the two setters are exported."""
    listing = subprocess.run(["nm", "-D", str(cpu.path)], capture_output=True, text=True, check=True).stdout
    names = {line.split()[-1]: line.split()[-2] for line in listing.splitlines()}
    assert not [n for n in names if "gemm" in n.lower() and names[n] == "U"]
    assert names["tilefoundry_set_blas"] in "TW"
    assert names["tilefoundry_set_num_threads"] in "TW"
    assert not [n for n in names if "thread_limit" in n or "blas_sgemm" in n]
