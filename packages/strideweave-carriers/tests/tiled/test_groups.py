"""Tiles that are pinned and used as a group. Oracles: pins counted tile by tile, and a plain list in order of use."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

import strideweave as sw
from strideweave.carriers.tiled_evictable import TiledEvictable, TileSelection, TileSet
from strideweave.carriers.tiled_evictable import table as tables
from strideweave.carriers.tiled_evictable.resident import Gathering
from strideweave.carriers.tiled_evictable.slots import Slab, Slot
from strideweave.carriers.tiled_evictable.standing import pin_resident, unpin_resident
from strideweave.carriers.tiled_evictable.table import Group, TileTable

COUNT = 5


def resident_table():
    table = TileTable(COUNT, "invalid")
    slab = Slab(sw.CPU(0), COUNT)
    for code in range(COUNT):
        table.place(table[code], Slot(slab, code))
    return table


steps = st.lists(
    st.tuples(
        st.sampled_from(["pin", "unpin", "drop", "look"]), st.integers(0, 3), st.integers(0, COUNT - 1)
    ),
    max_size=40,
)


@given(steps)
@example([("pin", 1, 0), ("look", 0, 0), ("unpin", 1, 0), ("look", 0, 1), ("drop", 1, 0)])
def test_a_tile_is_needed_while_a_group_that_has_it_is_pinned(steps):
    table = resident_table()
    members = [(0, 1), (1, 2, 3), (3,), (0, 4)]
    groups = [Group(tuple(table[c] for c in codes)) for codes in members]
    pins, dropped = [0] * len(groups), set()
    for what, k, code in steps:
        if what == "pin" and k not in dropped:
            table.pin(groups[k])
            pins[k] += 1
        elif what == "unpin" and pins[k]:
            table.unpin(groups[k])
            pins[k] -= 1
        elif what == "drop":
            groups[k].drop()
            dropped.add(k)
        if what != "look":
            # Pins may be entered long after they came, and some never are.
            continue
        table.enter_pins()
        expected = any(pins[i] and code in codes for i, codes in enumerate(members))
        assert table[code].needed() == expected and table[code].is_free() == (not expected)
        assert table[code].holders() == (["project"] if expected else [])
    for k in dropped:
        known = any(groups[k] in (record.groups or ()) for record in groups[k].records)
        assert not known or pins[k], "a dropped group is remembered by nobody once it is unpinned"


@settings(deadline=None)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("tile"), st.integers(0, COUNT - 1)),
            st.tuples(st.just("group"), st.integers(0, 2)),
            st.tuples(st.just("leave"), st.integers(0, COUNT - 1)),
            st.tuples(st.just("look"), st.just(0)),
        ),
        max_size=40,
    ),
    st.sampled_from([0, 1, 128]),
)
def test_the_order_of_use_is_that_of_single_uses(steps, late):
    """Whenever it is asked for, and however many uses of groups are entered late."""
    table, members = resident_table(), [(2, 0), (4, 2, 1), (3,)]
    groups = [Group(tuple(table[c] for c in codes)) for codes in members]
    slots = {code: table[code].primary for code in range(COUNT)}
    order = list(range(COUNT))

    def use(code):
        order.remove(code)
        order.append(code)

    before, tables.LATE = tables.LATE, late
    try:
        for what, k in steps:
            if what == "tile":
                table.touch(table[k])
                use(k)
            elif what == "group":
                table.touch_group(groups[k])
                for code in members[k]:
                    use(code)
            elif what == "leave":
                # A tile that left and came back is the most recently used.
                table.displace(table[k])
                table.place(table[k], slots[k])
                use(k)
            else:
                assert [r.code for r in table.least_recent()] == order
        assert [r.code for r in table.least_recent()] == order
        stamps = [table[code].stamp for code in order]
        assert stamps == sorted(stamps)
    finally:
        tables.LATE = before


def pending(carrier, *codes):
    """A resident projection whose gather has not run yet, as on a device."""
    core = carrier._core
    gathering = Gathering(core)
    bound = TileSelection([codes]).bind(core.geometry)
    gathering.standing = pin_resident(core, gathering, bound, "project")
    assert gathering.standing is not None
    return gathering


def test_an_eviction_waits_for_every_gather_of_its_tiles():
    carrier = TiledEvictable(sw.CPU(12), sw.CPU(0), (3,), (4,))
    first, second = pending(carrier, 0, 1), pending(carrier, 1, 2)
    handle = carrier.evict_async(TileSet([(1,)]))
    for gathering in (first, second):
        assert not handle.done and (1,) in carrier.primary_tiles.coordinates
        unpin_resident(carrier._core, gathering, gathering.standing)
        carrier._core.poke()
    handle.wait()
    assert carrier.primary_tiles.coordinates == ((0,), (2,))


def test_what_is_claimed_or_moving_is_looked_up_again():
    """A standing selection is not used once one of its tiles is about to leave."""
    carrier = TiledEvictable(sw.CPU(12), sw.CPU(0), (3,), (4,))
    core = carrier._core
    codes = TileSelection([[0, 1]]).bind(core.geometry)
    first = pending(carrier, 0, 1)
    held = Gathering(core)
    held.standing = pin_resident(core, held, codes, "project")
    handle = carrier.evict_async(TileSet([(0,)]))
    assert pin_resident(core, Gathering(core), codes, "project") is None
    for gathering in (first, held):
        unpin_resident(core, gathering, gathering.standing)
    core.poke()
    handle.wait()
    assert pin_resident(core, Gathering(core), codes, "project") is None
    carrier.promote(TileSet([(0,)]))
    again = Gathering(core)
    again.standing = pin_resident(core, again, codes, "project")
    assert again.standing is not held.standing
    unpin_resident(core, again, again.standing)
    assert carrier.stats().hits == 6


def test_writing_and_releasing_are_refused_while_a_gather_runs():
    carrier = TiledEvictable(sw.CPU(12), sw.CPU(0), (3,), (4,))
    gathering = pending(carrier, 0)
    for act in (lambda: carrier.set_value(9, 1.0), carrier.release):
        try:
            act()
        except RuntimeError as error:
            assert "project" in str(error)
        else:
            raise AssertionError("not refused")
    unpin_resident(carrier._core, gathering, gathering.standing)
    carrier.set_value(9, 1.0)
    carrier.release()


def test_selections_that_are_never_seen_again_leave_nothing_behind():
    """However many there are, records know only of those that are remembered."""
    carrier = TiledEvictable(sw.CPU(12), sw.CPU(0), (3,), (4,))
    tensor = carrier.full_tensor()
    for _ in range(1000):
        carrier.project(tensor, TileSelection([[0, 2]]), order="tile").wait()
    core = carrier._core
    assert len(core.standing) <= 256 and len(core.table._late) <= tables.LATE
    assert all(len(record.groups or ()) <= 256 for record in core.table.touched())
    for _ in range(300):
        carrier.evict(TileSet([(1,)]))
        carrier.promote(TileSet([(1,)]))
        carrier.project(tensor, TileSelection([[0, 2]]), order="tile").wait()
    assert all(len(record.groups or ()) <= 256 for record in core.table.touched())
