"""A tiled carrier against a plain dict of tiles: random actions, everything visible compared after each.

The model knows values, validity, dirtiness, residency (with the order in which tiles are replaced), version and what
storage exists. Actions run one at a time, so the model can say exactly what must hold. Run it long with

    python -m strideweave.testing.tiled_machine --steps 200000 --seed 1
"""

from __future__ import annotations

import argparse
import random

import numpy

from ..autograd.mode import no_grad
from ..carriers.cpu import CPU
from ..carriers.tiled_evictable import ResidencyPlan, TiledEvictable, TileSelection, TileSet
from ..carriers.tiled_evictable.packing import ORDERS
from ..constructors import from_numpy
from ..layout import Layout
from ..operations.elementwise import add, mul
from ..operations.reduce import reduce_sum
from ..operations.unary import relu
from ..tensor import Tensor
from .faults import Fault, fail_at, gated
from .tiled_model import Chooser, Code, Model, ModelTile


class Machine:
    """A carrier and its model, and the random actions on both. ``seed`` decides everything."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        rng = self.rng
        grid, tile = (
            (rng.choice([1, 2, 3]), rng.choice([1, 2, 3])),
            (rng.choice([1, 2, 3]), rng.choice([1, 2])),
        )
        count = grid[0] * grid[1]
        self.policy = Chooser()
        where = rng.choice(["primary", "secondary", "none"])
        capacity = count if where == "primary" else rng.randint(1, count)
        size = count * tile[0] * tile[1]
        self.values = numpy.random.default_rng(seed)
        data = self.fresh((size,))
        tiers = {w: CPU(size if w == where else 0) for w in ("primary", "secondary")}
        if where != "none":
            tiers[where].store_bytes(0, memoryview(data.tobytes()))
        self.carrier = TiledEvictable(
            tiers["primary"], tiers["secondary"], grid, tile,
            residency_policy=self.policy, primary_capacity=capacity,
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
        if self.rng.random() < 0.6:
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

    def request(self, codes: list[Code], plan: ResidencyPlan | None) -> bool:
        """What a data request on ``codes`` under ``plan`` does; False where it must be refused."""
        if plan is None:
            return self.model.make_resident(codes, set(), set(codes))
        promote = sorted(self.codes(plan.promote))
        retained = {c for c in self.codes(plan.retain) if self.model.tiles[c].primary}
        extra = [c for c in promote if c not in codes]
        return self.model.make_resident(
            [*codes, *extra], set(promote), {*codes, *promote, *retained}, retained
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

    # --- actions -----------------------------------------------------------------------------------------

    def project(self) -> None:
        """Project, in either order."""
        selection = self.selection()
        codes = self.codes(selection)
        order = self.rng.choice(ORDERS)
        plan = self.plan(codes) if self.readable(codes) else None
        if not self.readable(codes):
            self.refused(lambda: self.carrier.project(self.tensor, selection, order=order), RuntimeError)
            return
        if not self.request(codes, plan):
            self.refused(
                lambda: self.carrier.project(self.tensor, selection, order=order).wait(), RuntimeError
            )
            return
        compact = self.carrier.project(self.tensor, selection, order=order).wait()
        assert numpy.array_equal(self.modes(compact), self.assembled(selection))
        self.afterwards(plan)

    def modes(self, tensor: Tensor) -> numpy.ndarray:
        """A matrix with one axis per mode."""
        sizes = [m.size() for m in tensor.layout.modes()]
        flat = numpy.array(tensor.tolist(), numpy.float32)
        return flat.reshape(sizes[::-1]).T

    def promote(self) -> None:
        """Promote a set."""
        tiles = self.tile_set()
        codes = self.codes(tiles)
        if len(codes) > self.model.capacity:
            self.refused(lambda: self.carrier.promote(tiles), ValueError)
        elif not self.readable(codes):
            self.refused(lambda: self.carrier.promote(tiles), RuntimeError)
        else:
            assert self.model.make_resident(codes, set(codes), set(codes))
            assert self.carrier.promote(tiles) is None

    def evict(self) -> None:
        """Evict a set."""
        tiles = self.tile_set()
        assert self.carrier.evict(tiles) is None
        for code in self.codes(tiles):
            self.model.leave(code)

    def update(self) -> None:
        """Write tiles in place."""
        selection = self.selection()
        codes = self.codes(selection)
        adds = self.rng.random() < 0.4
        rows, columns = self.model.tile
        counts = selection.compact_grid_shape
        compact = self.fresh((counts[0] * rows, counts[1] * columns))
        given = from_numpy(numpy.asfortranarray(compact))

        def act() -> object:
            return self.carrier.update(selection, given, "add" if adds else "replace").wait()

        # update lays compact out by the canonical Layout, so the model is compared in that one.
        before, self.layout = self.layout, self.carrier.canonical_layout()
        if len(codes) > self.model.capacity:
            self.refused(act, ValueError)
        elif adds and not self.readable(codes):
            self.refused(act, RuntimeError)
        else:
            assert self.model.make_resident(codes, set(codes), set(codes))
            act()
            pieces = self.pieces(selection, compact)
            for code in codes:
                piece, old = pieces[code], self.model.tiles[code].value
                self.model.write(code, piece + old if adds and old is not None else piece)
            self.model.version += 1
        self.layout = before

    def set_value(self) -> None:
        """Write one slot."""
        slots = self.model.tile[0] * self.model.tile[1]
        code, within = self.rng.choice(list(self.model.tiles)), self.rng.randrange(slots)
        value = float(self.rng.randint(-8, 8))
        if not self.readable([code]):
            self.refused(lambda: self.carrier.set_value(code * slots + within, value), RuntimeError)
            return
        assert self.model.make_resident([code], {code}, {code})
        self.carrier.set_value(code * slots + within, value)
        new = self.tile_value(code).copy()
        new[within] = value
        self.model.write(code, new)
        self.model.version += 1

    def tile_value(self, code: Code) -> numpy.ndarray:
        """The model's value of a tile that has one."""
        value = self.model.tiles[code].value
        assert value is not None
        return value

    def scatter(self) -> None:
        """Scatter into a fresh carrier, read it back, add onto it where there is something to add to."""
        selection = self.selection()
        codes = self.codes(selection)
        adds = self.rng.random() < 0.4
        rows, columns = self.model.tile
        counts = selection.compact_grid_shape
        compact = self.fresh((counts[0] * rows, counts[1] * columns))
        given = from_numpy(numpy.asfortranarray(compact))
        kind = "add" if adds else "replace"
        if adds and not self.readable(codes):
            self.refused(lambda: self.carrier.scatter(given, self.tensor, selection, kind), RuntimeError)
            return
        wanted = compact + self.assembled(selection) if adds else compact
        result = self.carrier.scatter(given, self.tensor, selection, kind).wait()
        for code in codes if adds else ():
            if self.model.tiles[code].primary:
                self.model.touch(code)
        made = result.carrier
        assert isinstance(made, TiledEvictable)
        assert made.valid_tiles == selection.tile_set and result.version == 1 and made.is_mutable()
        assert len(made.primary_tiles) == min(len(codes), self.model.capacity)
        assert made.dirty_tiles == made.primary_tiles
        assert numpy.array_equal(self.modes(made.project(result, selection).wait()), wanted)
        made.release()

    def operate(self) -> None:
        """A direct operation against numpy."""
        codes = list(self.model.tiles)
        if not self.readable(codes):
            self.refused(lambda: relu(self.tensor), RuntimeError)
            return
        plan = self.plan(codes)
        if not self.request(codes, plan):
            self.refused(lambda: relu(self.tensor), RuntimeError)
            return
        full = self.assembled(TileSelection([range(n) for n in self.model.grid]))
        which = self.rng.randrange(4)
        if which == 0:
            assert numpy.array_equal(self.modes(relu(self.tensor)), numpy.maximum(full, 0))
        elif which == 1:
            assert numpy.array_equal(self.modes(mul(self.tensor, 2)), full * 2)
        elif which == 2:
            assert numpy.array_equal(self.modes(add(self.tensor, self.tensor)), full + full)
        else:
            total = reduce_sum(self.tensor, "a b -> a")
            assert numpy.array_equal(numpy.array(total.tolist(), numpy.float32), full.sum(1))
        self.afterwards(plan)

    def backward(self) -> None:
        """Two overlapping projections, weighted and summed into the tiled gradient."""
        first, second = self.selection(), self.selection()
        if not self.readable(self.codes(first)) or not self.readable(self.codes(second)):
            return
        self.tensor.grad = None
        expected: dict[Code, numpy.ndarray] = {}
        for selection in (first, second):
            codes = self.codes(selection)
            self.request(codes, None)
            compact = self.carrier.project(self.tensor, selection).wait()
            weight = self.fresh(tuple(m.size() for m in compact.layout.modes()))
            for code, piece in self.pieces(selection, weight).items():
                expected[code] = expected.get(code, 0) + piece
            # Backward touches no tile of the primal.
            mul(compact, from_numpy(numpy.asfortranarray(weight))).backward(
                from_numpy(numpy.asfortranarray(numpy.ones_like(weight)))
            )
        gradient = self.tensor.grad
        assert gradient is not None and isinstance(gradient.carrier, TiledEvictable)
        slots = self.model.tile[0] * self.model.tile[1]
        for code in self.model.tiles:
            grid = self.model.grid[0]
            state = gradient.carrier.tile_state((code % grid, code // grid))
            found = numpy.array(
                [gradient.carrier.get_value(code * slots + i) for i in range(slots)], numpy.float32
            )
            if code in expected:
                assert numpy.array_equal(found, expected[code])
            else:
                assert state.location == "none" and state.valid and not found.any()
        self.tensor.grad = None

    def fault(self) -> None:
        """A transition whose n-th provider call fails changes nothing, and works when tried again."""
        tiles = self.tile_set()
        codes = self.codes(tiles)
        nth = self.rng.randint(1, 4)
        evicts = self.rng.random() < 0.5
        if not evicts and (len(codes) > self.model.capacity or not self.readable(codes)):
            return
        try:
            with fail_at(nth):
                (self.carrier.evict if evicts else self.carrier.promote)(tiles)
        except Fault:
            self.recency(codes, evicts)
            return
        if evicts:
            for code in codes:
                self.model.leave(code)
        else:
            assert self.model.make_resident(codes, set(codes), set(codes))

    def recency(self, codes: list[Code], evicts: bool) -> None:
        """A refused promotion has still used the tiles that were on primary."""
        if not evicts:
            for code in codes:
                if self.model.tiles[code].primary:
                    self.model.touch(code)

    def overlap(self) -> None:
        """While a projection's copies are held at a gate, an eviction of its tiles waits and a release is refused."""
        selection = self.selection()
        codes = self.codes(selection)
        if not self.readable(codes) or not any(
            self.model.tiles[c].secondary and not self.model.tiles[c].primary for c in codes
        ):
            return
        wanted = self.assembled(selection)
        self.request(codes, None)
        with gated("copy") as gate:
            handle = self.carrier.project(self.tensor, selection)
            assert not handle.done
            eviction = self.carrier.evict_async(selection)
            # Tiles that are only read past primary have nothing to evict.
            waits = any(self.model.tiles[c].primary for c in codes)
            assert eviction.done is not waits
            self.refused(self.carrier.release, RuntimeError)
            if waits:
                self.refused(lambda: self.carrier.project(self.tensor, selection), RuntimeError)
            gate.open()
            assert numpy.array_equal(self.modes(handle.wait()), wanted)
            eviction.wait()
        for code in codes:
            self.model.leave(code)

    # --- comparison --------------------------------------------------------------------------------------

    def step(self) -> str:
        """One random action, then the comparison; the action's name."""
        name = self.rng.choice(ACTIONS)
        if name in ("project", "scatter", "operate") and self.rng.random() < 0.3:
            with no_grad():
                getattr(self, name)()
        else:
            getattr(self, name)()
        self.carrier.wait_idle()
        self.compare()
        return name

    def compare(self) -> None:
        """Everything visible equals the model."""
        grid, model = self.model.grid[0], self.model
        slots = model.tile[0] * model.tile[1]
        for code, tile in model.tiles.items():
            state = self.carrier.tile_state((code % grid, code // grid))
            location = {(1, 1): "both", (1, 0): "primary", (0, 1): "secondary", (0, 0): "none"}[
                tile.primary, tile.secondary
            ]
            expected = (location, tile.value is not None, tile.dirty)
            assert (state.location, state.valid, state.dirty) == expected, (code, state, expected)
        assert self.carrier.version == model.version
        assert len(self.carrier.primary_tiles) <= model.capacity
        core = self.carrier._core
        assert core.primary.used == len(model.recent) == len(self.carrier.primary_tiles)
        assert not any(r.users or r.transit or r.claim for r in core.table.touched())
        stored = sum(t.secondary for t in model.tiles.values())
        assert core.home_writable or core.secondary.used == stored
        code = self.rng.choice(list(model.tiles))
        value = model.tiles[code].value
        if value is None:
            self.refused(lambda: self.carrier.get_value(code * slots), RuntimeError)
        else:
            found = [self.carrier.get_value(code * slots + i) for i in range(slots)]
            assert numpy.array_equal(numpy.array(found, numpy.float32), value)


ACTIONS = (
    *("project", "project", "promote", "evict", "update", "set_value"),
    *("scatter", "operate", "backward", "fault", "overlap"),
)


def soak(steps: int, seed: int, per_machine: int = 100) -> int:
    """Run ``steps`` steps over machines of ``per_machine`` steps each; the number of machines.

    Raises:
        AssertionError: a divergence; the note says which seed and step.
    """
    done = machines = 0
    while done < steps:
        machine = Machine(seed + machines)
        for k in range(min(per_machine, steps - done)):
            try:
                machine.step()
            except BaseException as error:
                error.add_note(f"machine seed {seed + machines}, step {k}, {done} steps before")
                raise
            done += 1
        machine.carrier.release()
        machines += 1
    return machines


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**31))
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    machines = soak(options.steps, options.seed)
    print(f"{options.steps} steps on {machines} carriers, no divergence")


if __name__ == "__main__":
    main()
