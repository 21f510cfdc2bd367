"""Tiles read ahead of an operation. Oracle: the slot values that a carrier was made with, tile by tile."""

from __future__ import annotations

import threading

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import strideweave as sw
from strideweave import seam
from strideweave.carriers.tiled_evictable import TileSelection, core, tile_stream
from strideweave.carriers.tiled_evictable.access import one_tile
from strideweave.carriers.tiled_evictable.gradients import pinned
from strideweave.carriers.tiled_evictable.packing import packing
from strideweave.carriers.tiled_evictable.tile_reader import row
from strideweave.carriers.tiled_evictable.tile_stream import TileStream
from strideweave.testing import Fault, fail_at, gated

TILES, SLOTS = 12, 6
BYTES = 4 * SLOTS
EVERY = tuple(range(TILES))


@pytest.fixture
def made(tiled):
    """Twelve tiles on secondary, of which the first two are on primary."""
    made = tiled.make((TILES, 1, 1), primary_capacity=2)
    made.carrier.promote(TileSelection([[0, 1], [0], [0]]))
    return made


def limits(patch, staged, group):
    patch.setattr(core, "STAGE", staged * BYTES)
    patch.setattr(core, "LITTLE", staged * BYTES)
    patch.setattr(tile_stream, "GROUP", group * BYTES)


def values(carrier, found):
    one = carrier._core
    return {c: None if s is None else row(one, s).tolist() for c, s in found.items()}


def expected(codes):
    return {c: [float(c * SLOTS + i + 1) for i in range(SLOTS)] for c in codes}


def read(carrier, steps, codes=EVERY):
    with pinned(carrier._core, codes, "read"), TileStream(carrier._core, enumerate(steps)) as stream:
        return [(key, values(carrier, found)) for key, found in stream]


codes = st.lists(st.integers(0, TILES - 1), min_size=1, max_size=4)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(codes, max_size=20), st.integers(1, 9), st.integers(1, 4), st.integers(1, 3))
def test_every_step_gets_its_tiles_in_turn(tiled, steps, staged, group, ahead):
    with pytest.MonkeyPatch.context() as patch:
        limits(patch, staged, group)
        patch.setattr(tile_stream, "STEPS", ahead)
        made = tiled.make((TILES, 1, 1), primary_capacity=2)
        made.carrier.promote(TileSelection([[0, 1], [0], [0]]))
        rooms = []
        allocate = made.carrier._core.mover.allocate

        def noted(prototype, slots):
            room = allocate(prototype, slots)
            rooms.append((slots // SLOTS, room))
            return room

        patch.setattr(made.carrier._core.mover, "allocate", noted)
        assert read(made.carrier, steps) == [(k, expected(step)) for k, step in enumerate(steps)]
        # What lies on primary takes no staging, and no group is larger than a step and its own bound.
        largest = max([len({*step} - {0, 1}) for step in steps], default=0)
        assert max([tiles for tiles, _ in rooms], default=0) <= max(largest, group + largest - 1, 1)


@pytest.mark.spec("A72")
@pytest.mark.parametrize("staged", [1, 2, 3, 6])
def test_all_groups_share_the_staging_of_one_piece_of_work(made, monkeypatch, staged):
    limits(monkeypatch, staged, 1)
    alive = []
    allocate = made.carrier._core.mover.allocate

    def noted(prototype, slots):
        alive.append(slots // SLOTS)
        return allocate(prototype, slots)

    monkeypatch.setattr(made.carrier._core.mover, "allocate", noted)
    assert read(made.carrier, [[c] for c in EVERY]) == [(c, expected([c])) for c in EVERY]
    # Rooms are used again, so these are all that there ever were at once.
    assert sum(alive) <= staged and len(alive) == min(staged, tile_stream.GROUPS)


def test_staging_is_written_again_once_nothing_reads_there(made, monkeypatch):
    limits(monkeypatch, 3, 1)
    mover, calls = made.carrier._core.mover, []
    copy = mover.copy
    monkeypatch.setattr(mover, "copy", lambda moves: calls.append("copy") or copy(moves))
    monkeypatch.setattr(mover, "finish", lambda: calls.append("finish"))
    read(made.carrier, [[c] for c in EVERY])
    # Ten tiles are not on primary, and there is room for three.
    assert calls == ["copy"] * 3 + ["finish", "copy"] * 7 + ["finish"] * 3


def test_a_step_may_need_more_than_the_staging_holds(made, monkeypatch):
    limits(monkeypatch, 2, 1)
    steps = [[2, 3, 4, 5], [6], [7, 8, 9], [2]]
    assert read(made.carrier, steps) == [(k, expected(step)) for k, step in enumerate(steps)]


def test_tiles_without_storage_are_none(tiled):
    made = tiled.make((TILES, 1, 1))
    made.carrier.project(made.tensor, TileSelection([[3], [0], [0]])).wait().backward(sw.ones((1, 3, 2)))
    assert read(made.tensor.grad.carrier, [[3, 4]]) == [(0, {3: [1.0] * SLOTS, 4: None})]


def test_a_group_reads_a_tile_once(made, monkeypatch):
    limits(monkeypatch, 6, 2)
    read(made.carrier, [[5], [5], [5], [6], [0], [0]])
    assert made.carrier.stats().bytes_streamed == 2 * BYTES


def test_the_next_groups_are_under_way_before_the_first_is_given(made, monkeypatch):
    limits(monkeypatch, 6, 2)
    submitted = []
    monkeypatch.setattr(seam, "hook", lambda kind: submitted.append(kind) if kind == "submit" else None)
    with (
        pinned(made.carrier._core, EVERY, "read"),
        TileStream(made.carrier._core, ((c, [c]) for c in EVERY[2:])) as stream,
    ):
        counts = [len(submitted) for _ in stream]
    # Ten tiles make five groups of two. Three begin at once, each of the rest when the one before has been given.
    assert counts == [3, 3, 4, 4, 5, 5, 5, 5, 5, 5]
    monkeypatch.setattr(seam, "hook", None)


@pytest.mark.parametrize("n", [1, 2, 5])
def test_a_copy_that_fails_is_raised_at_its_turn(made, monkeypatch, n):
    limits(monkeypatch, 3, 1)
    given_before = []
    with (
        pinned(made.carrier._core, EVERY, "read"),
        fail_at(n, "copy"),
        pytest.raises(Fault),
        TileStream(made.carrier._core, ((c, [c]) for c in EVERY[2:])) as stream,
    ):
        for key, _ in stream:
            given_before.append(key)
    # One worker may copy groups in another order than that of their turns, but what was given was complete.
    assert given_before == list(EVERY[2 : 2 + len(given_before)]) and len(given_before) <= n + 1
    made.carrier.wait_idle()
    assert read(made.carrier, [EVERY]) == [(0, expected(EVERY))]


def test_a_block_that_ends_early_waits_for_what_it_began(made, monkeypatch):
    limits(monkeypatch, 3, 1)
    monkeypatch.setattr(tile_stream, "STEPS", 1)
    given, left = threading.Event(), threading.Event()

    def work():
        with pinned(made.carrier._core, EVERY, "read"):
            try:
                # The first is on primary; the two behind it are held up.
                with TileStream(made.carrier._core, ((c, [c]) for c in (0, 5, 6))) as stream:
                    next(stream)
                    given.set()
                    raise KeyboardInterrupt
            except KeyboardInterrupt:
                left.set()

    with gated() as gate:
        thread = threading.Thread(target=work)
        thread.start()
        assert given.wait(30) and gate.reached.wait(30) and not left.wait(0.2)
        gate.open()
        assert left.wait(30)
        thread.join(30)


def test_values_are_aligned_alike_wherever_a_tile_lies(tiled):
    # Kernels sum in another order where memory is aligned otherwise; torch gives 64 bytes to fresh memory.
    carrier = tiled.make((TILES, 1, 1)).carrier
    form = packing(
        carrier._footprint(carrier.full_tensor().layout, 0, "read"), carrier.geometry, (1, 1, 1), "canonical"
    )
    rows = torch.arange(1.0, TILES * SLOTS + 1).view(TILES, SLOTS)
    assert form.verbatim and len({r.data_ptr() % 64 for r in rows}) > 1
    for values in rows:
        tile = one_tile(values, form, (1, 3, 2))
        assert tile.data_ptr() % 64 == 0 and torch.equal(tile.reshape(-1), values)


@pytest.mark.spec("A108", "OPS.available")
@pytest.mark.parametrize("staged", [1, 2, 4, 24])
@pytest.mark.parametrize("group", [1, 3])
def test_operations_and_gradients_whatever_is_read_ahead(tiled, monkeypatch, staged, group):
    def results():
        made = tiled.make((3, 4), (2, 3), where="secondary", primary_capacity=1)
        other = sw.from_torch(torch.arange(1.0, 61).view(5, 12))
        found = []
        for call in (
            lambda t: sw.matmul(t, other),
            lambda t: sw.reduce_sum(t, "a b -> a"),
            sw.relu,
            lambda t: sw.mul(t, t),
            lambda t: sw.add(t, 2.0),
        ):
            t = made.carrier.full_tensor()
            out = call(t)
            flat = torch.arange(1.0, out.size() + 1)
            out.backward(sw.Tensor(sw.from_torch(flat).carrier, 0, sw.Layout(out.shape)))
            whole = t.grad.carrier.project(t.grad, TileSelection([range(3), range(4)])).wait()
            found += [tiled.by_mode(out), tiled.by_mode(whole)]
        return found

    before = results()
    monkeypatch.setattr(core, "STAGE", staged * BYTES)
    monkeypatch.setattr(core, "LITTLE", staged * BYTES)
    monkeypatch.setattr(tile_stream, "GROUP", group * BYTES)
    assert all(torch.equal(a, b) for a, b in zip(before, results(), strict=True))
