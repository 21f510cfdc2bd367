"""Bytes that carriers share. Oracle: the sum of the bytes of tiles on primary, over all members."""

from __future__ import annotations

import pytest

import strideweave as sw
from strideweave.carriers.tiled_evictable import Bundle, DeviceBudget, TileSet

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
