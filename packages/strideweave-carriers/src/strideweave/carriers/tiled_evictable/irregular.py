"""Operands that broadcast inside a mode whose tiles are no boxes of leaves, read by index instead of by range.

A tile covers a run of a mode's coordinates. The places of the result that such a run meets are no range where another
operand is larger at a leaf in the middle of it, but they are sums: one summand per coordinate of the operand, one per
coordinate that only the result has. Elements are computed one by one, so that no order changes a bit of them, and a
gradient sums what a coordinate meets in the order of the result.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import TYPE_CHECKING

from tilefoundry.ir.layout import IntTuple, flatten

from ...tensor import Tensor
from .access import Box, by_mode, one_tile
from .carrier import TiledEvictable
from .packing import packing
from .refined import extents_of
from .tensors import flat_values
from .tile_reader import read_tiles, row

if TYPE_CHECKING:
    import torch

Places = list["torch.Tensor"]
"""For each mode of the result the coordinates meant, in host memory."""


class Spread:
    """How coordinates of an operand and of a result with ``extents`` meet, mode by mode."""

    def __init__(self, operand: Tensor, extents: IntTuple) -> None:
        self._modes = [
            list(zip(flatten(mine), flatten(theirs), strict=True))
            for mine, theirs in zip(extents_of(operand.shape.extents), extents_of(extents), strict=True)
        ]

    def met_by(self, box: Box) -> list[torch.Tensor]:
        """Per mode the places met: ``[coordinates of the operand in the box, those that only the result has]``."""
        import torch

        found = []
        for leaves, taken in zip(self._modes, box, strict=True):
            left = torch.arange(taken.start, taken.stop)
            ours, alone, step = torch.zeros_like(left), torch.zeros(1, dtype=torch.int64), 1
            for mine, whole in leaves:
                ours = ours + (left % mine) * step
                left = left // mine
                if mine != whole:
                    alone = (torch.arange(whole)[:, None] * step + alone[None, :]).reshape(-1)
                step *= whole
            found.append(ours[:, None] + alone[None, :])
        return found

    def behind(self, places: Places) -> Places:
        """The operand's coordinates that broadcast to places of the result."""
        found = []
        for leaves, at in zip(self._modes, places, strict=True):
            left, mine_at, step = at, at * 0, 1
            for mine, whole in leaves:
                if mine == whole:
                    mine_at = mine_at + (left % whole) * step
                left = left // whole
                step *= mine
            found.append(mine_at)
        return found


class Picks:
    """The values of one operand at places of a result with ``extents``."""

    def __init__(self, operand: Tensor, extents: IntTuple) -> None:
        self.spread = Spread(operand, extents)
        carrier = operand.carrier
        self._tiled = carrier if isinstance(carrier, TiledEvictable) else None
        if self._tiled is None:
            self._view = by_mode(operand, operand.layout, extents)
        else:
            geometry = self._tiled.geometry
            inside = self._tiled._footprint(operand.layout, operand.offset, "operand")
            self._form = packing(inside, geometry, (1,) * geometry.rank, "canonical")

    def at(self, places: Places) -> torch.Tensor:
        """The values, one dimension per mode, last mode first."""
        if self._tiled is None:
            whole = [p if n > 1 else p * 0 for p, n in zip(places, self._view.shape[::-1], strict=True)]
            return self._view[crossed(whole, self._view.device)]
        return self._from_tiles(self.spread.behind(places))

    def _from_tiles(self, at: Places) -> torch.Tensor:
        carrier = self._tiled
        assert carrier is not None
        core, tile = carrier._core, carrier.tile_shape
        out = flat_values(core.primary.prototype).new_empty([len(a) for a in at[::-1]])
        counts = [(a // t).unique().tolist() for a, t in zip(at, tile, strict=True)]
        for coordinate in product(*counts):
            code = core.geometry.code(coordinate)
            mine = [((a // t) == c).nonzero().view(-1) for a, t, c in zip(at, tile, coordinate, strict=True)]
            slot = read_tiles(core, (code,))[code]
            if slot is None:
                out[crossed(mine, out.device)] = 0
                continue
            values = one_tile(row(core, slot), self._form, tile)
            inside = [a[m] - c * t for a, m, t, c in zip(at, mine, tile, coordinate, strict=True)]
            out[crossed(mine, out.device)] = values[crossed(inside, out.device)]
            core.mover.finish()
        return out


def crossed(places: Places, device: torch.device) -> tuple[torch.Tensor, ...]:
    """An index of a tensor with one dimension per mode, last first: every combination of the places."""
    rank = len(places)
    return tuple(
        p.to(device).view([-1 if d == k else 1 for d in range(rank)]) for k, p in enumerate(places[::-1])
    )


def tile_places(operand: Tensor, extents: IntTuple) -> Iterator[Places]:
    """For each tile of a tiled operand, the places of the result that it meets, in parts; together all places, once."""
    carrier = operand.carrier
    assert isinstance(carrier, TiledEvictable)
    spread, geometry = Spread(operand, extents), carrier.geometry
    for code in range(geometry.tile_count):
        coordinate = geometry.coordinate(code)
        box = tuple(range(c * t, (c + 1) * t) for c, t in zip(coordinate, geometry.tile_shape, strict=True))
        for part in in_parts(spread.met_by(box), carrier._core.slots_at_once()):
            yield [met.reshape(-1) for met in part]


def in_parts(met: Sequence[torch.Tensor], most: int) -> Iterator[Places]:
    """``Spread.met_by``'s places, cut along what only the result has until a part has no more than ``most``."""
    left, cuts = prod(m.numel() for m in met), []
    for places in met:
        left //= places.shape[1]
        width = min(max(1, most // left), places.shape[1])
        cuts.append(places.split(width, dim=1))
        left *= width
    for part in product(*cuts[::-1]):
        yield list(part[::-1])


def put(out: torch.Tensor, places: Places, values: torch.Tensor) -> None:
    """Write values at places of a flat dense result, viewed with one dimension per mode, last first."""
    out[crossed(places, out.device)] = values


def summed(values: torch.Tensor, met: Sequence[torch.Tensor], kind: torch.dtype) -> torch.Tensor:
    """Values at ``Spread.met_by``'s places, flattened by mode, summed over what only the result has."""
    shape = [n for m in met[::-1] for n in m.shape]
    alone = [d for d in range(1, len(shape), 2) if shape[d] > 1]
    values = values.reshape(shape)
    values = values.sum(alone, keepdim=True, dtype=kind) if alone else values
    return values.reshape([m.shape[0] for m in met[::-1]])


def first_tiled(operands: Sequence[object]) -> Tensor:
    """The first operand that is tiled."""
    return next(o for o in operands if isinstance(o, Tensor) and isinstance(o.carrier, TiledEvictable))
