"""The random actions on a tiled carrier: each does something to it and the same to the model, and compares results."""

from __future__ import annotations

import numpy

from ..carriers.tiled_evictable import TiledEvictable, TileSelection, TileSet
from ..carriers.tiled_evictable.packing import ORDERS
from ..operations.elementwise import add, mul
from ..operations.reduce import reduce_sum
from ..operations.unary import relu
from ..tensor import Tensor
from .faults import Fault, fail_at, gated
from .tiled_model import Code
from .tiled_world import World


class Actions(World):
    """One method per action; ``ACTIONS`` names them as often as they are to be drawn."""

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
        given = self.given(compact)

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
        given = self.given(compact)
        kind = "add" if adds else "replace"
        if adds and not self.readable(codes):
            self.refused(lambda: self.carrier.scatter(given, self.tensor, selection, kind), RuntimeError)
            return
        wanted = compact + self.assembled(selection) if adds else compact
        # One that adds looks at tiles again when those that its plan promotes arrive: nobody can say in which order.
        plan = None if adds else self.plan(codes)
        if adds:
            assert self.request(codes, None, cache=False)
        elif plan is not None and len(plan.promote) and not self.request(codes, plan, cache=False):
            self.refused(
                lambda: self.carrier.scatter(given, self.tensor, selection, kind).wait(), RuntimeError
            )
            return
        result = self.carrier.scatter(given, self.tensor, selection, kind).wait()
        self.afterwards(plan)
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
            mul(compact, self.given(weight)).backward(self.given(numpy.ones_like(weight)))
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

    def hold(self) -> None:
        """While tiles are held they are read in place; their eviction waits, and writing or releasing is refused."""
        selection = self.selection()
        codes = self.codes(selection)
        if len(codes) > self.model.capacity:
            self.refused(lambda: self.carrier.hold(selection).__enter__(), ValueError)
            return
        if not self.readable(codes):
            self.refused(lambda: self.carrier.hold(selection).__enter__(), RuntimeError)
            return
        assert self.model.make_resident(codes, set(codes), set(codes))
        with self.carrier.hold(selection):
            grid = self.model.grid[0]
            assert self.carrier.primary_tiles == TileSet((c % grid, c // grid) for c in self.model.recent)
            compact = self.carrier.project(self.tensor, selection).wait()
            assert numpy.array_equal(self.modes(compact), self.assembled(selection))
            leaves = self.rng.random() < 0.5
            eviction = self.carrier.evict_async(selection) if leaves else None
            self.refused(self.carrier.release, RuntimeError)
            self.refused(lambda: self.carrier.update(selection, compact), RuntimeError)
            assert eviction is None or not eviction.done
        for code in codes:
            self.model.touch(code)
        if eviction is not None:
            eviction.wait()
            for code in codes:
                self.model.leave(code)

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


ACTIONS = (
    *("project", "project", "promote", "evict", "update", "set_value"),
    *("scatter", "operate", "backward", "fault", "overlap", "hold"),
)
