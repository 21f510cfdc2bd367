"""Refinement: operands whose nested modes broadcast leaf by leaf, seen with one mode per leaf.

A tiled operand's leaves are split where its tiles cut them, so that in the finer form each mode lies within a tile or
counts tiles, and boxes of whole tiles are boxes again. The slots that a coordinate reaches stay the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilefoundry.ir.layout import IntTuple, flatten, product

from ...layout import Layout
from ...operations.operation import Operand, Result
from ...tensor import Tensor
from .carrier import TiledEvictable
from .geometry import TileGeometry


@dataclass(frozen=True, slots=True)
class Refined:
    """``tensor`` with another ``layout`` of as many coordinates; ``geometry`` says how its tiles look in it."""

    tensor: Tensor
    layout: Layout
    geometry: TileGeometry | None


def extents_of(mode: IntTuple) -> tuple[IntTuple, ...]:
    """The top-level modes of a shape."""
    return mode if isinstance(mode, tuple) else (mode,)


def tile_cuts(tensor: Tensor) -> list[int] | None:
    """For each leaf of a tiled tensor how much of it lies inside a tile; None where a tile is no box of leaves."""
    carrier = tensor.carrier
    assert isinstance(carrier, TiledEvictable)
    cuts: list[int] = []
    for mode, tile in zip(extents_of(tensor.shape.extents), carrier.tile_shape, strict=True):
        left = tile
        for extent in flatten(mode):
            if left % extent == 0:
                cuts.append(extent)
                left //= extent
            elif extent % left == 0:
                cuts.append(left)
                left = 1
            else:
                return None
    return cuts


def refine(tensors: Sequence[Tensor], extents: IntTuple) -> tuple[list[Refined], tuple[int, ...]] | None:
    """The operands of a pointwise operation with result ``extents`` in one finer form, and that form's extents.

    None where the tiles of an operand are no boxes of leaves.
    """
    whole = flatten(extents)
    borders: list[set[int]] = [set() for _ in whole]
    inside: dict[int, list[int]] = {}
    for k, tensor in enumerate(tensors):
        if isinstance(tensor.carrier, TiledEvictable):
            cuts = tile_cuts(tensor)
            if cuts is None:
                return None
            inside[k] = cuts
            for border, cut in zip(borders, cuts, strict=True):
                border.add(cut)
    steps = [_steps(border, extent) for border, extent in zip(borders, whole, strict=True)]
    if any(step is None for step in steps):
        return None
    found = [_refined(tensor, steps, whole, inside.get(k)) for k, tensor in enumerate(tensors)]  # type: ignore[arg-type] # None was looked for
    return found, tuple(step for leaf in steps for step in leaf or ())


def _steps(borders: set[int], extent: int) -> list[int] | None:
    """A leaf of ``extent`` split at every border; None where one does not divide the next."""
    steps, before = [], 1
    for border in sorted({b for b in borders if 1 < b < extent} | {extent}):
        if border % before:
            return None
        steps.append(border // before)
        before = border
    return steps


def _refined(tensor: Tensor, steps: list[list[int]], whole: Sequence[int], cuts: list[int] | None) -> Refined:
    shape, stride, tile, grid = [], [], [], []
    for k, (extent, step) in enumerate(tensor.layout.concrete.flat_modes()):
        covered = 1
        for piece in steps[k]:
            mine = piece if extent == whole[k] else 1
            shape.append(mine)
            stride.append(step * covered if mine > 1 else 0)
            covered *= mine
            if cuts is not None:
                within = covered <= cuts[k]
                tile.append(mine if within else 1)
                grid.append(1 if within else mine)
    geometry = TileGeometry(tuple(grid), tuple(tile)) if cuts is not None else None
    return Refined(tensor, Layout(tuple(shape), tuple(stride)), geometry)


def is_regular(operands: Sequence[Operand], result: Result) -> bool:
    """Whether every mode of every tiled operand is whole or of size 1 in the result, as boxes of modes need."""
    sizes = [product(mode) for mode in extents_of(result.extents)]
    for operand in operands:
        if isinstance(operand, Tensor) and isinstance(operand.carrier, TiledEvictable):
            mine = [product(mode) for mode in extents_of(operand.shape.extents)]
            if len(mine) == len(sizes) and any(m not in (1, n) for m, n in zip(mine, sizes, strict=True)):
                return False
    return True


def refined_operands(
    operands: Sequence[Operand], result: Result
) -> tuple[list[Operand | Refined], Result] | None:
    """Operands and result of a pointwise operation in a finer form that is regular; None where there is none."""
    found = refine([o for o in operands if isinstance(o, Tensor)], result.extents)
    if found is None:
        return None
    finer = iter(found[0])
    mixed = [next(finer) if isinstance(o, Tensor) else o for o in operands]
    return mixed, Result(found[1], result.dtype)
