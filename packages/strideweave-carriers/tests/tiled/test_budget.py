"""Bytes that carriers share. Oracle: the sum of the bytes of tiles on primary, over all members."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import strideweave as sw
from strideweave.carriers.tiled_evictable import Bundle, DeviceBudget, TileSelection, TileSet

TILE = 2 * 4


def members(count):
    return [sw.TiledEvictable(sw.CPU(0), sw.CPU(8), (4,), (2,)) for _ in range(count)]


def tiles(*numbers):
    return TileSet((n,) for n in numbers)


def test_a_released_member_gives_its_bytes_back():
    budget = DeviceBudget(2 * TILE)
    first, second = members(2)
    Bundle([first, second], budget)
    first.promote(tiles(0, 1))
    assert budget.used == 2 * TILE
    first.release()
    assert budget.used == 0
    second.promote(tiles(2, 3))
    assert second.primary_tiles == tiles(2, 3) and budget.used == 2 * TILE
    second.evict(tiles(2))
    assert budget.used == TILE


def test_more_than_the_whole_budget_is_refused_before_anything_changes():
    budget = DeviceBudget(2 * TILE)
    first, second = members(2)
    Bundle([first, second], budget)
    second.promote(tiles(1))
    for use in (lambda: first.promote(tiles(0, 1, 2)), lambda: first.hold(tiles(0, 1, 2)).__enter__()):
        with pytest.raises(ValueError, match="3 tiles of 8 bytes on primary exceed the budget of 16"):
            use()
    assert second.primary_tiles == tiles(1) and budget.used == TILE


def lru_of_members(accesses, capacity):
    """What is on primary after accesses ``(member, tile)``: a plain list from least to most recently used."""
    held = []
    for access in accesses:
        if access in held:
            held.remove(access)
        elif len(held) == capacity:
            held.pop(0)
        held.append(access)
    return sorted(held)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), min_size=1, max_size=25), st.integers(1, 4))
def test_victims_are_the_least_recently_used_of_all_members(accesses, capacity):
    made = members(3)
    Bundle(made, DeviceBudget(capacity * TILE))
    for member, tile in accesses:
        carrier = made[member]
        carrier.project(carrier.full_tensor(), TileSelection([[tile]])).wait()
    found = [(m, t) for m, carrier in enumerate(made) for (t,) in carrier.primary_tiles.coordinates]
    assert sorted(found) == lru_of_members(accesses, capacity)


def test_a_promotion_replaces_what_another_member_has_not_used_for_longer():
    """The tile used longest ago is the first member's, though the second has one of its own to give."""
    first, second = members(2)
    Bundle([first, second], DeviceBudget(2 * TILE))
    first.promote(tiles(0))
    second.promote(tiles(0))
    second.promote(tiles(1))
    assert first.primary_tiles == tiles() and second.primary_tiles == tiles(0, 1)


def test_a_shortage_names_the_budget_and_who_holds_its_bytes():
    first, second = members(2)
    Bundle([first, second], DeviceBudget(2 * TILE))
    with (
        first.hold(tiles(0, 1)),
        pytest.raises(RuntimeError, match=r"budget of 16 bytes has 0 free.* held by hold.* raise the budget"),
    ):
        second.promote(tiles(3))
    second.promote(tiles(3))
