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
from strideweave.carriers.pairs import drop_pair, try_hold_pair

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


def test_holds_that_threads_take_and_end_are_counted_exactly():
    """Holds end without a lock. Oracle: no reader beside a writer, one version per write, nothing held afterwards."""
    carriers = [sw.CPU(4) for _ in range(2)]
    writes, failures = [0] * 8, []

    def work(seed):
        rng = random.Random(seed)
        try:
            for _ in range(4000):
                source, target = rng.sample(carriers, 2)
                if rng.random() < 0.5 and try_hold_pair(source, target):
                    assert len(target._writers) == 1 and not target._readers
                    wrote = rng.random() < 0.5
                    writes[seed] += wrote
                    drop_pair(source, target, wrote)
                    continue
                try:
                    source.hold_for_read()
                except RuntimeError:
                    continue
                assert not source._writers
                source.drop_read()
        except BaseException as error:
            failures.append(error)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=(k,), daemon=True) for k in range(8)]
        [t.start() for t in threads], [t.join(60) for t in threads]
    finally:
        sys.setswitchinterval(before)
    assert not failures and not any(t.is_alive() for t in threads), failures
    assert not any(c._readers or c._writers for c in carriers)
    assert sum(c.version for c in carriers) == sum(writes) > 0


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
    monkeypatch.setattr(threading, "excepthook", lambda hook: reported.append(hook.exc_value))
    completion = Completion()
    completion.add_callback(lambda: 1 / 0)
    completion.add_callback(lambda: seen.append(1))
    completion.resolve(None)
    assert seen == [1] and isinstance(reported[0], ZeroDivisionError)


def test_the_interpreters_own_report_of_a_failing_callback_ends_nothing():
    code = (
        "from strideweave.movement.completion import Completion\n"
        "c = Completion()\n"
        "c.add_callback(lambda: 1 / 0)\n"
        "c.add_callback(lambda: print('went on'))\n"
        "c.resolve(None)\n"
    )
    done = run(code)
    assert done.stdout == "went on\n" and "ZeroDivisionError" in done.stderr and not done.returncode


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


@pytest.mark.parametrize("helpers", [0, 4])
def test_exit_during_a_copy_is_clean(helpers):
    out = run(
        "import strideweave as sw\n"
        "from strideweave.movement import parallel\n"
        f"parallel.helper_count = lambda: {helpers}\n"
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


FORKED = """
import os, threading, time
import strideweave as sw
from strideweave.carriers.tiled_evictable import LRU, Prefetcher, TiledEvictable, TileSelection, TileSet

def held(lock, condition=False):
    taken, leave = threading.Event(), threading.Event()
    def hold():
        with lock:
            taken.set(), leave.wait(60)
    thread = threading.Thread(target=hold, daemon=True)
    thread.start(), taken.wait(10)
    return leave

def in_child(check):
    pid = os.fork()
    if pid == 0:
        begun = time.monotonic()
        try:
            good = check()
        except BaseException as error:
            print(repr(error), flush=True)
            good = False
        os._exit(0 if good and time.monotonic() - begun < 1 else 1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

def refused(*calls):
    for call in calls:
        try:
            call()
        except sw.ForkedProcessError as error:
            assert "spawn" in str(error)
        else:
            return False
    return True
"""


def forked(body):
    out = run(FORKED + body)
    assert out.stdout.strip() == "0" and out.returncode == 0, (out.stdout, out.stderr)


def test_fork_while_another_thread_holds_a_carriers_lock():
    """The child refuses that carrier within a second; others, and the parent, go on."""
    forked(
        "x, y = sw.ones(4), sw.ones(4)\n"
        "leave = held(x.carrier._lock)\n"
        "code = in_child(lambda: refused(lambda: x.carrier.set_value(0, 1.0), lambda: sw.move(x, sw.CPU(0)),\n"
        "    lambda: x.carrier.get_value(0)) and (y + y).tolist() == [2.0] * 4)\n"
        "leave.set()\n"
        "assert x.tolist() == [1.0] * 4\n"
        "print(code)\n"
    )


def test_fork_while_another_thread_holds_a_tiled_carriers_lock():
    forked(
        "c, d = (TiledEvictable(sw.CPU(0), sw.CPU(8), (4,), (2,), residency_policy=LRU(2)) for _ in range(2))\n"
        "t, u, one = c.full_tensor(), d.full_tensor(), TileSelection([[1]])\n"
        "ahead = Prefetcher(d)\n"
        "leaves = [held(k) for k in (c._core.lock, d.residency_policy._lock, ahead._lock, d._core.stats._lock)]\n"
        "code = in_child(lambda: refused(lambda: c.project(t, one), lambda: c.promote(one), lambda: c.evict(one),\n"
        "    c.wait_idle) and ahead.project(u, one).wait().size() == 2)\n"
        "[leave.set() for leave in leaves]\n"
        "assert c.project(t, one).wait().size() == 2\n"
        "print(code)\n"
    )


def test_fork_during_a_write_and_a_residency_change():
    """What a thread of the parent was writing is refused in the child; what was only read is not."""
    forked(
        "from strideweave import seam\n"
        "from strideweave.testing import gated\n"
        "source, target = sw.ones(4), sw.CPU(4)\n"
        "whole = sw.Evictable(sw.ones(4).carrier, sw.FileBacked(None, 0))\n"
        "with gated('copy') as gate:\n"
        "    handle = sw.move_async(source, target)\n"
        "    gate.reached.wait(10)\n"
        "    thread = threading.Thread(target=whole.evict)\n"
        "    thread.start()\n"
        "    while not whole._moving: time.sleep(0.001)\n"
        "    def check():\n"
        "        seam.install(None)\n"
        "        return refused(handle.wait, lambda: target.set_value(0, 1.0), whole.promote) and (\n"
        "            (source + source).tolist() == [2.0] * 4)\n"
        "    code = in_child(check)\n"
        "    gate.open()\n"
        "    thread.join(), handle.wait()\n"
        "print(code)\n"
    )


def test_a_block_device_is_the_parents(tmp_path):
    forked(
        f"device = sw.BlockDevice({str(tmp_path / 'blocks')!r})\n"
        "mine = device.allocate(4)\n"
        "mine.set_value(1, 5.0)\n"
        "leave = held(device._lock)\n"
        "code = in_child(lambda: refused(lambda: device.allocate(4)) and mine.get_value(1) == 5.0)\n"
        "leave.set()\n"
        "print(code)\n"
    )
