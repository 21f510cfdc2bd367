"""Many threads on one carrier. Oracle: every projection's values, which no transition may change."""

from __future__ import annotations

import random
import threading
import time

import pytest
import torch

import strideweave as sw
from strideweave import seam
from strideweave.carriers.tiled_evictable import LRU, Bundle, DeviceBudget, TileSelection, TileSet
from strideweave.testing import Fault

CONFLICTS = ("incomplete", "places", "place(s)")


def tiles(*experts):
    return TileSet((e, 0, 0) for e in experts)


def choose(*experts):
    return TileSelection([experts, [0], [0]])


def run_all(workers, seconds):
    """Run workers (called with a stop event) in threads; their failures are raised."""
    stop, failures = threading.Event(), []

    def guarded(worker):
        try:
            while not stop.is_set():
                worker()
        except BaseException as error:
            failures.append(error)
            stop.set()

    threads = [threading.Thread(target=guarded, args=(w,), daemon=True) for w in workers]
    [t.start() for t in threads]
    stop.wait(seconds)
    stop.set()
    deadline = time.monotonic() + 60
    for thread in threads:
        thread.join(max(0.1, deadline - time.monotonic()))
        assert not thread.is_alive(), "a worker is stuck"
    if failures:
        raise failures[0]


def tolerant(action):
    """Run ``action``; refusals for unfinished work of others are part of the game."""
    try:
        action()
    except RuntimeError as error:
        if not any(word in str(error) for word in CONFLICTS):
            raise


def workers_on(made, full, seed, tiled, faulty=False):
    rng = random.Random(seed)
    count = made.carrier.grid_shape[0]

    def some():
        return rng.sample(range(count), rng.randint(1, 3))

    def check_projection():
        wanted = some()
        order = rng.choice(["canonical", "tile"])
        compact = made.carrier.project(made.tensor, choose(*wanted), order=order).wait()
        assert torch.equal(tiled.by_mode(compact), full[wanted])

    def forgiving(action):
        def act():
            try:
                tolerant(action)
            except Fault:
                assert faulty

        return act

    return [
        forgiving(check_projection),
        forgiving(check_projection),
        forgiving(lambda: made.carrier.promote(tiles(*some()))),
        forgiving(lambda: made.carrier.evict(tiles(*some()))),
        forgiving(lambda: made.carrier.promote_async(tiles(*some()))),
        forgiving(lambda: made.carrier.evict_async(tiles(*some()))),
        forgiving(
            lambda: torch.equal(tiled.by_mode(sw.relu(made.tensor)), full) or pytest.fail("relu differs")
        ),
        forgiving(lambda: sw.relu(made.carrier.project(made.tensor, choose(*some())).wait())),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("capacity", [None, 4])
@pytest.mark.parametrize("policy", [None, LRU(3)])
@pytest.mark.parametrize("faults", [False, True])
def test_eight_threads(tiled, capacity, policy, faults):
    made = tiled.make(grid=(6, 1, 1), where="none", primary_capacity=capacity, residency_policy=policy)
    values = torch.rand(6, 3, 2) + 1
    for e in range(0, 6, 2):
        part = sw.from_torch(values[e : e + 2].clone())
        made.carrier.update(choose(e, e + 1), part).wait()
        made.carrier.wait_idle()
    counter = [0]

    def sometimes(kind):
        counter[0] += 1
        if counter[0] % 97 == 0:
            raise Fault("now and then")

    before = seam.install(sometimes) if faults else seam.install(None)
    try:
        run_all(workers_on(made, values, 7, tiled, faults), 3)
        made.carrier.wait_idle()
    finally:
        seam.install(before)
    core = made.carrier._core
    assert not core.active and not core.deferred
    assert not any(r.needed() or r.transit or r.claim for r in core.table.touched())
    assert core.primary.used == core.table.resident_count() <= (capacity or 6)
    every = made.carrier.project(made.tensor, choose(*range(6))).wait()
    assert torch.equal(tiled.by_mode(every), values)
    made.carrier.wait_idle()
    made.carrier.release()


@pytest.mark.slow
def test_bundles_under_one_budget_from_many_threads(tiled):
    members = [tiled.make(grid=(4, 1, 1)) for _ in range(4)]
    full = tiled.dense(members[0].tensor, members[0].values)
    budget = DeviceBudget(6 * 24)
    bundles = [Bundle([m.carrier for m in members[k : k + 2]], budget=budget) for k in (0, 2)]
    rng = random.Random(3)

    def projecting():
        made, wanted = rng.choice(members), rng.sample(range(4), 2)
        compact = made.carrier.project(made.tensor, choose(*wanted)).wait()
        assert torch.equal(tiled.by_mode(compact), full[wanted])

    def promoting():
        rng.choice(bundles).promote(tiles(*rng.sample(range(4), rng.randint(1, 3))))
        assert budget.used <= budget.nbytes

    run_all([lambda: tolerant(projecting)] * 3 + [lambda: tolerant(promoting)] * 3, 3)
    for made in members:
        made.carrier.wait_idle()
    assert budget.used == 24 * sum(len(m.carrier.primary_tiles) for m in members) <= budget.nbytes
