"""Jobs of the pool: done once, by a worker or by a thread that waits, and told of however they end."""

import os
import signal
import threading

import pytest
import torch

import strideweave as sw
from strideweave.movement import pool
from strideweave.movement.pool import Pool, PoolStopped

SIZE = 1 << 16


def say_and_wait(here, leave):
    here.set()
    leave.wait(30)


@pytest.fixture
def occupied(monkeypatch):
    """The process's pool with a single worker, which is busy until the event is set."""
    alone, leave, busy = Pool(1), threading.Event(), threading.Event()
    alone.submit(lambda: say_and_wait(busy, leave))
    assert busy.wait(10)
    monkeypatch.setattr(pool, "_pool", alone)
    yield leave
    leave.set()
    alone.stop()


def moved():
    source = sw.from_torch(torch.arange(SIZE) % 251)
    return source, sw.CPU(SIZE, dtype=sw.Int64)


def test_who_waits_copies_what_no_worker_has_begun(occupied):
    """Oracle: the values, while the only worker does something else."""
    source, target = moved()
    handle = sw.move_async(source, target)
    assert not handle.done and source.version == 0
    with pytest.raises(RuntimeError, match="request"):
        target.set_value(0, 1)
    result = handle.wait()
    assert handle.done and result.carrier is target and target.version == 1
    assert target.flat().equal(source.carrier.flat())
    occupied.set()
    assert pool.pool().submit(lambda: None).result() is None
    assert target.version == 1 and handle.wait() is result


def test_a_dropped_handle_is_left_to_the_workers(occupied):
    source, target = moved()
    handle = sw.move_async(source, target)
    del handle
    assert target.version == 0
    occupied.set()
    pool.pool().submit(lambda: None).result()
    assert target.version == 1 and target.get_value(SIZE - 1) == (SIZE - 1) % 251


def test_many_waiters_and_a_worker_do_a_job_once():
    """Oracle: a count."""
    workers, done = Pool(2), []
    for _ in range(200):
        ended = []
        job = workers.post(lambda: done.append(threading.get_ident()), ended.append)
        threads = [threading.Thread(target=job.help) for _ in range(3)]
        [t.start() for t in threads], [t.join(10) for t in threads]
        workers.submit(lambda: None).result()
        assert ended == [None]
    workers.stop()
    assert len(done) == 200


def test_what_work_raises_is_told_once(occupied):
    told, failure = [], ValueError("no")

    def fails():
        raise failure

    job = pool.pool().post(fails, told.append)
    job.look(), job.hurry()
    assert told == []
    job.help(), job.help()
    assert told == [failure]
    occupied.set()
    pool.pool().submit(lambda: None).result()
    assert told == [failure]


def test_a_pool_that_stops_refuses_what_nobody_has_done():
    workers, leave, told = Pool(1), threading.Event(), []
    busy = threading.Event()
    workers.post(lambda: say_and_wait(busy, leave), told.append)
    assert busy.wait(10)
    done = workers.post(lambda: None, told.append)
    workers.post(lambda: None, told.append)
    done.help()
    stopping = threading.Thread(target=workers.stop)
    stopping.start()
    threading.Timer(0.05, leave.set).start()
    stopping.join(10)
    assert not stopping.is_alive() and [type(error) for error in told] == [
        type(None),
        PoolStopped,
        type(None),
    ]
    with pytest.raises(PoolStopped, match="exiting"):
        workers.post(lambda: None, told.append)
    assert len(told) == 3


def test_an_interrupt_of_who_helps_comes_after_the_job(occupied):
    """The move has ended well, and the handler has been called: neither is lost."""
    told, steps = [], []

    def work():
        os.kill(os.getpid(), signal.SIGINT)
        steps.append("begun")
        steps.append("done")

    job = pool.pool().post(work, told.append)
    with pytest.raises(KeyboardInterrupt):
        job.help()
    assert steps == ["begun", "done"] and told == [None]


def test_a_job_that_was_helped_keeps_nothing_alive(occupied):
    """Its place in the queue remains until a worker comes by."""
    import gc
    import weakref

    source, target = moved()
    sw.move_async(source, target).wait()
    gone = weakref.ref(target), weakref.ref(source.carrier)
    del source, target
    gc.collect()
    assert gone[0]() is None and gone[1]() is None
