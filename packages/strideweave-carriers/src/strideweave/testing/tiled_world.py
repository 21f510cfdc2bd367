"""A tiled carrier beside its model, the random choices that actions make, and what the model says they must give."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy

from ..carriers.base import Carrier
from ..carriers.cpu import CPU
from ..carriers.file_backed import FileBacked
from ..carriers.generic import Generic
from ..carriers.tiled_evictable import ResidencyPlan, TiledEvictable, TileSelection, TileSet
from ..constructors import from_numpy, tensor
from ..layout import Layout
from ..tensor import Tensor
from .tiled_model import Chooser, Code, Model, ModelTile

TIERS: tuple[tuple[Callable[[], Carrier], Callable[[], Carrier]], ...] = (
    (CPU, CPU),
    (CPU, FileBacked),
    (CPU, CPU),
    (Generic, Generic),
    (Generic, CPU),
)
"""Classes of primary and secondary, in turn by seed."""


class World:
    """A carrier and its model. ``seed`` decides everything."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        rng = self.rng
        grid, tile = (
            (rng.choice([1, 2, 3]), rng.choice([1, 2, 3])),
            (rng.choice([1, 2, 3]), rng.choice([1, 2])),
        )
        count = grid[0] * grid[1]
        self.policy = Chooser()
        # Requests that nobody advises on may take shorter ways.
        self.advised = rng.random() < 0.5
        where = rng.choice(["primary", "secondary", "none"])
        capacity = count if where == "primary" else rng.randint(1, count)
        size = count * tile[0] * tile[1]
        self.values = numpy.random.default_rng(seed)
        data = self.fresh((size,))
        tiers: dict[str, Carrier] = {}
        for tier, kind in zip(("primary", "secondary"), TIERS[seed % len(TIERS)], strict=True):
            held = tiers[tier] = kind()
            if tier == where:
                held.grow(size)
                held.store_bytes(0, memoryview(data.tobytes()))
        self.carrier = TiledEvictable(
            tiers["primary"], tiers["secondary"], grid, tile,
            residency_policy=self.policy if self.advised else None, primary_capacity=capacity,
        )  # fmt: skip
        slots = tile[0] * tile[1]
        self.model = Model(grid, tile, capacity, {
            c: ModelTile(
                None if where == "none" else data[c * slots : (c + 1) * slots].copy(),
                where == "primary", where == "secondary", where == "primary",
            )
            for c in range(count)
        })  # fmt: skip
        self.model.recent = list(range(count)) if where == "primary" else []
        self.layout = self._layout(tile)
        self.tensor = self.carrier.full_tensor(self.layout)

    def _layout(self, tile: tuple[int, int]) -> Layout:
        """The canonical Layout, or the one whose tiles lie the other way round."""
        return self.carrier.canonical_layout() if self.rng.random() < 0.5 else self.carrier.row_major_layout()

    # --- helpers -----------------------------------------------------------------------------------------

    def fresh(self, shape: tuple[int, ...]) -> numpy.ndarray:
        """Random values, small whole numbers so that sums are exact."""
        return self.values.integers(-8, 9, shape).astype(numpy.float32)

    def given(self, array: numpy.ndarray) -> Tensor:
        """``array`` as an ordinary tensor, in its canonical Layout, of the class that requests take."""
        if self.carrier.primary_class is CPU:
            return from_numpy(numpy.asfortranarray(array))
        return tensor(
            array.flatten("F").tolist(), shape=array.shape, carrier=self.carrier._core.primary.prototype
        )

    def selection(self) -> TileSelection:
        """A random selection."""
        return TileSelection([self.rng.sample(range(n), self.rng.randint(1, n)) for n in self.model.grid])

    def tile_set(self) -> TileSet:
        """A random set of tiles."""
        grid = self.model.grid
        every = [(i, j) for i in range(grid[0]) for j in range(grid[1])]
        return TileSet(self.rng.sample(every, self.rng.randint(0, len(every))))

    def codes(self, tiles: TileSelection | TileSet) -> list[Code]:
        """The tiles' numbers, in the order of a selection."""
        return [c[0] + self.model.grid[0] * c[1] for c in tiles.coordinates]

    def tile_array(self, code: Code) -> numpy.ndarray:
        """The model's tile with its axes in order."""
        value = self.model.tiles[code].value
        assert value is not None
        return self._as_array(value)

    def _as_array(self, flat: numpy.ndarray) -> numpy.ndarray:
        rows, columns = self.model.tile
        inner = self._inner()
        out = numpy.empty((rows, columns), numpy.float32)
        for i in range(rows):
            for j in range(columns):
                out[i, j] = flat[i * inner[0] + j * inner[1]]
        return out

    def _as_flat(self, array: numpy.ndarray) -> numpy.ndarray:
        rows, columns = self.model.tile
        inner = self._inner()
        out = numpy.empty(rows * columns, numpy.float32)
        for i in range(rows):
            for j in range(columns):
                out[i * inner[0] + j * inner[1]] = array[i, j]
        return out

    def _inner(self) -> tuple[int, int]:
        rows, columns = self.model.tile
        return (1, rows) if self.layout == self.carrier.canonical_layout() else (columns, 1)

    def assembled(self, selection: TileSelection) -> numpy.ndarray:
        """What projecting ``selection`` must give."""
        rows, columns = self.model.tile
        counts = selection.compact_grid_shape
        out = numpy.empty((counts[0] * rows, counts[1] * columns), numpy.float32)
        for a, i in enumerate(selection.per_axis[0]):
            for b, j in enumerate(selection.per_axis[1]):
                piece = self.tile_array(i + self.model.grid[0] * j)
                out[a * rows : (a + 1) * rows, b * columns : (b + 1) * columns] = piece
        return out

    def pieces(self, selection: TileSelection, compact: numpy.ndarray) -> dict[Code, numpy.ndarray]:
        """``compact`` cut into the selection's tiles, flat as they lie."""
        rows, columns = self.model.tile
        return {
            i + self.model.grid[0] * j: self._as_flat(
                compact[a * rows : (a + 1) * rows, b * columns : (b + 1) * columns]
            )
            for a, i in enumerate(selection.per_axis[0])
            for b, j in enumerate(selection.per_axis[1])
        }

    def readable(self, codes: list[Code]) -> bool:
        """Whether every tile has a value."""
        return all(self.model.tiles[c].value is not None for c in codes)

    def plan(self, required: list[Code]) -> ResidencyPlan | None:
        """A random plan that fits the capacity, or none."""
        if not self.advised or self.rng.random() < 0.6:
            self.policy.next = None
            return None
        valid = [c for c, t in self.model.tiles.items() if t.value is not None]
        self.rng.shuffle(valid)
        promote = valid[: self.rng.randint(0, min(len(valid), self.model.capacity))]
        room = self.model.capacity - len(promote)
        rest = [c for c in self.model.tiles if c not in promote]
        self.rng.shuffle(rest)
        retain, evict = rest[: self.rng.randint(0, room)], rest[room : room + self.rng.randint(0, 3)]
        grid = self.model.grid[0]
        sets = [TileSet((c % grid, c // grid) for c in part) for part in (promote, retain, evict)]
        self.policy.next = ResidencyPlan(*sets)
        return self.policy.next

    def request(self, codes: list[Code], plan: ResidencyPlan | None, cache: bool = True) -> bool:
        """What a data request on ``codes`` under ``plan`` does; False where it must be refused."""
        if plan is None:
            return self.model.make_resident(codes, set(), set(codes), cache=cache)
        promote = sorted(self.codes(plan.promote))
        retained = {c for c in self.codes(plan.retain) if self.model.tiles[c].primary}
        extra = [c for c in promote if c not in codes]
        return self.model.make_resident(
            [*codes, *extra],
            set(promote),
            {*codes, *promote, *retained},
            retained,
            cache,
            self.codes(plan.evict),
        )

    def afterwards(self, plan: ResidencyPlan | None) -> None:
        """The policy's evictions."""
        self.carrier.wait_idle()
        for code in self.codes(plan.evict) if plan is not None else ():
            self.model.leave(code)

    def refused(self, action, *kinds: type[BaseException]) -> None:
        """``action`` raises one of ``kinds``."""
        try:
            action()
        except kinds:
            return
        raise AssertionError(f"expected {' or '.join(k.__name__ for k in kinds)}")
