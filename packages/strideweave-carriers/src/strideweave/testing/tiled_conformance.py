"""What tiles must do between two tiers, as a test class. Derive from it, say how to make the tiers, and run pytest.

    class TestMine(TiledConformance):
        def make_primary(self, n, dtype):
            return Mine(n, dtype=dtype)

        def make_secondary(self, n, dtype):
            return MyFile(n, dtype=dtype)

The oracle is a list of the slots' values: tile ``t`` of ``T`` slots is ``values[t * T : (t + 1) * T]``.
"""

from __future__ import annotations

from abc import abstractmethod

import pytest

from ..carriers.base import Carrier
from ..carriers.tiled_evictable import TiledEvictable, TileSelection, TileSet, TileState
from ..dtypes import DType, Float32
from ..tensor import Tensor
from .faults import fail_at, gated, sweep

GRID, TILE = (4,), (3,)
SLOTS = GRID[0] * TILE[0]
VALUES = [float(3 * k - 7) for k in range(SLOTS)]
BOTH, SECONDARY = TileState("both", True, False), TileState("secondary", True, False)
DIRTY, INVALID = TileState("primary", True, True), TileState("none", False, False)


class TiledConformance:
    """Where tiles lie, what moves them, and what failures leave behind, for one pair of tier classes."""

    @abstractmethod
    def make_primary(self, n: int, dtype: DType) -> Carrier:
        """A fresh, mutable carrier of ``n`` slots of the class that computes."""

    @abstractmethod
    def make_secondary(self, n: int, dtype: DType) -> Carrier:
        """A fresh, mutable carrier of ``n`` slots of the class that tiles are evicted to."""

    def backed(self, capacity: int | None = None) -> TiledEvictable:
        """Four tiles of three slots whose values lie on the secondary tier."""
        full = self.make_secondary(SLOTS, Float32)
        for slot, value in enumerate(VALUES):
            full.set_value(slot, value)
        return TiledEvictable(self.make_primary(0, Float32), full, GRID, TILE, primary_capacity=capacity)

    def values(self, carrier: TiledEvictable) -> list:
        """All values, slot by slot, which moves nothing."""
        return [carrier.get_value(slot) for slot in range(SLOTS)]

    def states(self, carrier: TiledEvictable) -> list[TileState]:
        """The state of each tile."""
        return [carrier.tile_state((tile,)) for tile in range(GRID[0])]

    def test_tiles_begin_where_the_values_are(self) -> None:
        """Values on secondary are clean, values on primary dirty, and without values no tile is valid."""
        carrier = self.backed()
        assert self.states(carrier) == [SECONDARY] * 4 and self.values(carrier) == VALUES
        full = self.make_primary(SLOTS, Float32)
        loaded = TiledEvictable(full, self.make_secondary(0, Float32), GRID, TILE)
        assert self.states(loaded) == [DIRTY] * 4
        nothing = TiledEvictable(self.make_primary(0, Float32), self.make_secondary(0, Float32), GRID, TILE)
        assert self.states(nothing) == [INVALID] * 4
        with pytest.raises(RuntimeError):
            nothing.promote(TileSet([(0,)]))

    def test_promotion_and_eviction_keep_values(self) -> None:
        """Promoted tiles are on both tiers, clean evicted ones on secondary again; no version counts."""
        carrier = self.backed()
        some = TileSet([(1,), (3,)])
        carrier.promote(some)
        assert self.states(carrier) == [SECONDARY, BOTH, SECONDARY, BOTH]
        assert self.values(carrier) == VALUES and carrier.version == 0
        carrier.evict(TileSet([(3,)]))
        assert self.states(carrier) == [SECONDARY, BOTH, SECONDARY, SECONDARY]
        assert self.values(carrier) == VALUES and carrier.version == 0

    def test_a_written_tile_is_dirty_and_evicted_with_its_value(self) -> None:
        """A write promotes its tile; eviction writes it back."""
        carrier = self.backed()
        carrier.set_value(4, 0.5)
        assert self.states(carrier) == [SECONDARY, DIRTY, SECONDARY, SECONDARY] and carrier.version == 1
        carrier.evict(TileSet([(1,)]))
        assert self.states(carrier) == [SECONDARY] * 4
        assert self.values(carrier) == [*VALUES[:4], 0.5, *VALUES[5:]]

    def test_a_projection_gathers_the_selection_in_its_order(self) -> None:
        """Compact results hold the selected tiles one after another, resident or not."""
        for capacity in (None, 1):
            carrier = self.backed(capacity)
            carrier.promote(TileSet([(2,)]))
            compact = carrier.project(carrier.full_tensor(), TileSelection([(3, 0, 2)])).wait()
            assert compact.tolist() == VALUES[9:12] + VALUES[0:3] + VALUES[6:9]
            assert type(compact.carrier) is carrier.primary_class
            assert len(carrier.primary_tiles) <= carrier.primary_capacity

    def test_a_gradient_reaches_the_selected_tiles_alone(self) -> None:
        """Oracle: the seed at the tiles selected, zero elsewhere."""
        carrier = self.backed()
        full = carrier.full_tensor()
        compact = carrier.project(full, TileSelection([(1, 3)])).wait()
        seed = compact.carrier.new_like([float(k) for k in range(6)], dtype=Float32)
        compact.backward(Tensor(seed, 0, compact.layout))
        gradient = full.grad
        assert gradient is not None and type(gradient.carrier) is TiledEvictable
        read = [gradient.carrier.get_value(slot) for slot in range(SLOTS)]
        assert read == [0.0] * 3 + [0.0, 1.0, 2.0] + [0.0] * 3 + [3.0, 4.0, 5.0]

    def test_every_provider_fault_leaves_the_tiles_as_they_were(self) -> None:
        """The n-th failing provider call of a promotion, an eviction and a projection, for every n."""
        carrier = self.backed()
        some = TileSet([(0,), (2,)])

        def attempt() -> None:
            carrier.promote(some)

        def as_before() -> None:
            assert self.states(carrier) == [SECONDARY] * 4 and self.values(carrier) == VALUES

        assert sweep(attempt, as_before) >= 1
        carrier.set_value(0, 9.0)
        held = [9.0, *VALUES[1:]]

        def unchanged() -> None:
            assert self.values(carrier) == held
            assert carrier.tile_state((0,)) == DIRTY and carrier.version == 1

        assert sweep(lambda: carrier.evict(TileSet([(0,)])), unchanged) >= 1
        selection = TileSelection([(0, 1)])

        def still() -> None:
            assert self.values(carrier) == held and carrier.version == 1

        sweep(lambda: carrier.project(carrier.full_tensor(), selection).wait(), still)
        assert carrier.project(carrier.full_tensor(), selection).wait().tolist() == held[:6]

    def test_a_pending_promotion_refuses_what_overlaps(self) -> None:
        """While a copy is held open, the same tile is neither evicted nor released; afterwards it is."""
        carrier = self.backed()
        some = TileSet([(0,)])
        with gated() as gate:
            handle = carrier.promote_async(some)
            if gate.reached.wait(5):
                assert not handle.done
                for use in (lambda: carrier.evict_async(some), carrier.release):
                    with pytest.raises(RuntimeError, match="wait"):
                        use()
            gate.open()
            handle.wait()
        carrier.evict(some)
        assert self.states(carrier) == [SECONDARY] * 4

    def test_tiers_belong_to_the_carrier_until_it_is_released(self) -> None:
        """A tier is written and released through its owner only; a refused construction claims nothing."""
        primary, secondary = self.make_primary(0, Float32), self.make_secondary(SLOTS, Float32)
        with pytest.raises(ValueError):
            TiledEvictable(primary, secondary, (5,), TILE)
        assert not primary.is_owned() and not secondary.is_owned()
        carrier = TiledEvictable(primary, secondary, GRID, TILE)
        for use in (lambda: secondary.set_value(0, 1.0), secondary.release, primary.release):
            with pytest.raises(RuntimeError):
                use()
        carrier.release()
        carrier.release()
        assert secondary.is_released()
        with pytest.raises(RuntimeError, match="released"):
            carrier.get_value(0)

    def test_an_interrupt_leaves_the_tiles_usable(self) -> None:
        """Ctrl-C within a provider call of a promotion: the values stay, and a retry works."""
        carrier = self.backed()
        with fail_at(1, error=KeyboardInterrupt):
            try:
                carrier.promote(TileSet([(1,)]))
            except KeyboardInterrupt:
                assert self.values(carrier) == VALUES
        carrier.promote(TileSet([(1,)]))
        assert carrier.tile_state((1,)) == BOTH and self.values(carrier) == VALUES
