"""Threads over shared carriers, exit during a copy, fork. Oracle: no deadlock, whole values, exit codes."""

from __future__ import annotations

import gc
import os
import random
import subprocess
import sys
import threading
import time

import pytest

import strideweave as sw

pytestmark = pytest.mark.spec("threads-and-processes")

N = 4096


def whole(values):
    """All values of one writer: a torn copy would mix two."""
    assert len(set(values)) == 1, f"torn: {sorted(set(values))}"


@pytest.mark.slow
def test_eight_threads_over_shared_carriers():
    """Movers, evictors, readers and writers for seconds: every value seen is whole, every error a documented one."""
    stop = time.monotonic() + 4
    shared = sw.Evictable(sw.full(N, 1.0).carrier, sw.FileBacked(None, 0))
    plain = sw.full(N, 2.0)
    targets = [sw.CPU(N), sw.Generic(), sw.FileBacked(None, N)]
    failures, done = [], [0]

    def work(seed):
        rng = random.Random(seed)
        while time.monotonic() < stop and not failures:
            try:
                one_step(rng)
                done[0] += 1
            except (RuntimeError, TypeError, ValueError) as error:
                if not isinstance(error, RuntimeError) or "wait" not in str(error):
                    failures.append(error)
            except BaseException as error:
                failures.append(error)

    def one_step(rng):
        choice = rng.randrange(7)
        tensor = sw.Tensor(shared, 0, sw.Layout(N))
        if choice == 0:
            shared.evict()
        elif choice == 1:
            shared.promote()
        elif choice == 2:
            whole(sw.move(tensor, sw.CPU(0)).tolist()[:: N // 64])
        elif choice == 3:
            handle = sw.move_async(plain, rng.choice(targets))
            handle.wait()
        elif choice == 4:
            whole((tensor * 2).tolist()[:: N // 64])
        elif choice == 5:
            sw.move_async(plain, sw.CPU(0))
        else:
            gc.collect(0)

    threads = [threading.Thread(target=work, args=(seed,), daemon=True) for seed in range(8)]
    [t.start() for t in threads]
    for t in threads:
        t.join(60)
        assert not t.is_alive(), "deadlock"
    assert not failures, failures[0]
    assert done[0] > 50
    shared.release()


def test_threads_take_turns_on_single_slots():
    """Oracle: every write counted once, every value one that some thread wrote, nobody refused."""
    carrier, errors = sw.CPU(4), []

    def work(k):
        try:
            for i in range(300):
                carrier.set_value(i % 4, float(k))
                assert carrier.get_value(i % 4) in range(8)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    [t.start() for t in threads], [t.join(60) for t in threads]
    assert not errors and carrier.version == 8 * 300


def test_wait_from_eight_threads_gives_one_object():
    from strideweave.testing import gated

    seen = []
    with gated() as gate:
        handle = sw.move_async(sw.ones(3), sw.CPU(0))
        threads = [threading.Thread(target=lambda: seen.append(handle.wait())) for _ in range(8)]
        [t.start() for t in threads]
        gate.open()
        [t.join(30) for t in threads]
    assert len(seen) == 8 and all(s is seen[0] for s in seen)


def test_carriers_dropped_inside_a_collection_take_no_lock():
    """A collection while a lock is held must not need that lock: finalisers close files only."""
    carrier = sw.FileBacked(None, 4)
    cycle = [carrier]
    cycle.append(cycle)
    fd = carrier._fd
    other = sw.CPU(4)
    with other._lock:
        del carrier, cycle
        gc.collect()
    with pytest.raises(OSError):
        os.fstat(fd)


def run(code, timeout=120):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=timeout)


def test_a_failing_callback_ends_neither_the_worker_nor_the_others(monkeypatch):
    from strideweave.movement.completion import Completion

    seen, reported = [], []
    monkeypatch.setattr(sys, "unraisablehook", lambda hook: reported.append(hook.exc_value))
    completion = Completion()
    completion.add_callback(lambda: 1 / 0)
    completion.add_callback(lambda: seen.append(1))
    completion.resolve(None)
    assert seen == [1] and isinstance(reported[0], ZeroDivisionError)


def test_a_system_without_more_threads_still_copies(monkeypatch):
    from strideweave.movement.pool import Pool

    pool = Pool(4)
    pool.submit(lambda: None).result()

    def no_more(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", no_more)
    done = []
    parts = [pool.submit(lambda k=k: done.append(k)) for k in range(20)]
    [p.result() for p in parts]
    assert sorted(done) == list(range(20))
    fresh = Pool(1)
    with pytest.raises(RuntimeError, match="new thread"):
        fresh.submit(lambda: done.append(99))
    pool.stop(), fresh.stop()
    assert 99 not in done


def test_exit_during_a_copy_is_clean():
    out = run(
        "import strideweave as sw\n"
        "x = sw.zeros(1 << 26)\n"  # 256 MiB
        "h = [sw.move_async(x, sw.CPU(0)) for _ in range(4)]\n"
        "f = sw.move_async(x, sw.FileBacked(None, 0))\n"
        "print(sum(k.done for k in h) < 5)\n"
    )
    assert out.returncode == 0 and out.stderr == "" and out.stdout.strip() == "True"


def test_fork_gives_the_child_a_pool_of_its_own():
    out = run(
        "import os, time, strideweave as sw\n"
        "from strideweave.testing import gated\n"
        "x = sw.ones(4)\n"
        "sw.move(x, sw.CPU(0))\n"
        "with gated() as gate:\n"
        "    h = sw.move_async(x, sw.CPU(0))\n"
        "    gate.reached.wait(10)\n"
        "    pid = os.fork()\n"
        "    if pid == 0:\n"
        "        from strideweave import seam; seam.install(None)\n"
        "        t = time.monotonic()\n"
        "        try: h.wait()\n"
        "        except sw.ForkedProcessError as e: ok = 'spawn' in str(e) and time.monotonic() - t < 1\n"
        "        ok = ok and sw.move(x, sw.CPU(0)).tolist() == [1.0] * 4\n"
        "        os._exit(0 if ok else 7)\n"
        "    gate.open()\n"
        "    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), h.wait().tolist() == [1.0] * 4)\n"
    )
    assert out.stdout.strip() == "0 True", out.stderr


def test_grad_mode_of_the_worker_does_not_matter():
    with sw.no_grad():
        handle = sw.move_async(sw.ones(2), sw.CPU(0))
    assert handle.wait().autograd_ctx is None
    x = sw.ones(2)
    handle = sw.move_async(x, sw.CPU(0))
    with sw.no_grad():
        assert handle.wait().autograd_ctx is not None
