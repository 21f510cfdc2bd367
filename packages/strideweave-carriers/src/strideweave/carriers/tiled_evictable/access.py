"""Access: boxes of an operand's values as torch tensors, whether the operand is tiled or ordinary.

A box is a range per mode. It comes back with one dimension per mode, the last mode first, in contiguous, aligned memory
where the operand is tiled, so that what is computed from it does not depend on where a tile happened to lie.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise, product
from typing import TYPE_CHECKING

from tilefoundry.ir.layout import IntTuple, flatten
from tilefoundry.ir.layout import product as size_of

from ...layout import Layout
from ...tensor import Tensor
from .carrier import TiledEvictable
from .compatibility import footprint
from .packing import Packing, packing
from .refined import Refined
from .tensors import flat_values
from .tile_reader import Found, row
from .tile_stream import TileStream

if TYPE_CHECKING:
    import torch

Box = tuple[range, ...]


def mode_sizes(extents: IntTuple) -> tuple[int, ...]:
    """The size of each top-level mode of a shape."""
    return tuple(map(size_of, extents)) if isinstance(extents, tuple) else (extents,)


class Access:
    """The values of one operand, given as it is or refined. ``swap`` exchanges the two modes of a matrix."""

    def __init__(
        self, operand: Tensor | Refined, *, swap: bool = False, like: IntTuple | None = None
    ) -> None:
        tensor = operand.tensor if isinstance(operand, Refined) else operand
        layout = operand.layout
        self.tensor, self._swap = tensor, swap
        self.sizes = mode_sizes(layout.shape.extents)
        carrier = tensor.carrier
        self._tiled = carrier if isinstance(carrier, TiledEvictable) else None
        if self._tiled is not None:
            refined = operand.geometry if isinstance(operand, Refined) else None
            self._geometry = self._tiled._core.geometry if refined is None else refined
            if refined is None:
                inside = self._tiled._footprint(layout, tensor.offset, "operand")
            else:
                inside = footprint(layout, tensor.offset, refined, "operand")
            self._form = packing(inside, self._geometry, (1,) * self._geometry.rank, "canonical")
        else:
            self._view = by_mode(tensor, layout, layout.shape.extents if like is None else like)

    @property
    def is_tiled(self) -> bool:
        """Whether the operand is tiled."""
        return self._tiled is not None

    def cuts(self, mode: int) -> int:
        """The extent at which tiles cut ``mode``; the whole mode for an ordinary operand."""
        mode = 1 - mode if self._swap else mode
        return self.sizes[mode] if self._tiled is None else self._geometry.tile_shape[mode]

    @contextmanager
    def read(self, boxes: Iterable[Box]) -> Iterator[Iterator[torch.Tensor]]:
        """The values in each of ``boxes``, in turn; a mode of size 1 keeps its one value whatever its range."""
        if self._swap:
            with self._read(box[::-1] for box in boxes) as views:
                yield (view.transpose(0, 1) for view in views)
        else:
            with self._read(boxes) as views:
                yield views

    @contextmanager
    def _read(self, boxes: Iterable[Box]) -> Iterator[Iterator[torch.Tensor]]:
        if self._tiled is None:
            yield map(self._cut, boxes)
            return
        with TileStream(self._tiled._core, map(self._step, boxes)) as steps:
            yield (self._joined(box, found) for box, found in steps)

    def _cut(self, box: Box) -> torch.Tensor:
        view = self._view
        for mode, taken in enumerate(box):
            dim = view.ndim - 1 - mode
            if view.shape[dim] > 1:
                view = view.narrow(dim, taken.start, len(taken))
        return view

    def _step(self, box: Box) -> tuple[Box, list[int]]:
        """The box within the operand, and the tiles that it meets, first axis fastest."""
        own = tuple(r if s > 1 else range(1) for r, s in zip(box, self.sizes, strict=True))
        tile = self._geometry.tile_shape
        spans = [range(r.start // t, (r.stop - 1) // t + 1) for r, t in zip(own, tile, strict=True)]
        return own, [self._geometry.code(c[::-1]) for c in product(*spans[::-1])]

    def _joined(self, box: Box, found: Found) -> torch.Tensor:
        carrier, tile = self._tiled, self._geometry.tile_shape
        assert carrier is not None
        core = carrier._core
        if len(found) == 1 and tuple(map(len, box)) == tile:
            (slot,) = found.values()
            if slot is not None:
                return one_tile(row(core, slot), self._form, tile)
        out = flat_values(core.primary.prototype).new_zeros([len(r) for r in box[::-1]])
        for code, slot in found.items():
            if slot is not None:
                coordinate = self._geometry.coordinate(code)
                _paste(out, one_tile(row(core, slot), self._form, tile), coordinate, tile, box)
        return out


def one_tile(values: torch.Tensor, form: Packing, tile: Sequence[int]) -> torch.Tensor:
    """A tile as it lies (flat) with one dimension per axis, last first, contiguous and aligned as fresh memory is."""
    if form.verbatim and values.data_ptr() % _alignment(values) == 0:
        return values.view(tuple(tile[::-1]))
    compact = values.new_empty(values.shape)
    form.by_tile(compact)[form.place(0)].copy_(values.view(form.tile_dims))
    return compact.view(tuple(tile[::-1]))


def _alignment(values: torch.Tensor) -> int:
    # What torch's allocators give; kernels choose their ways by less.
    return 512 if values.is_cuda else 64


def _paste(
    out: torch.Tensor, tile_values: torch.Tensor, coordinate: Sequence[int], tile: Sequence[int], ranges: Box
) -> None:
    target, source = out, tile_values
    for mode, (c, t, r) in enumerate(zip(coordinate, tile, ranges, strict=True)):
        dim = out.ndim - 1 - mode
        start, stop = max(c * t, r.start), min((c + 1) * t, r.stop)
        target = target.narrow(dim, start - r.start, stop - start)
        source = source.narrow(dim, start - c * t, stop - start)
    target.copy_(source)


def by_mode(tensor: Tensor, layout: Layout, like: IntTuple) -> torch.Tensor:
    """An ordinary tensor with one dimension per mode of ``like``, to whose leaves it is expanded, last mode first.

    Modes stay of size 1 where the whole mode is of size 1.
    """
    flat = flat_values(tensor.carrier)
    mine = layout.concrete.flat_modes()
    sizes, strides, shape = [], [], []
    position = 0
    for mode_mine, mode in zip(_modes(layout.shape.extents), _modes(like), strict=True):
        count = len(flatten(mode))
        keep = size_of(mode_mine) == 1
        for (extent, stride), wanted in zip(mine[position : position + count], flatten(mode), strict=True):
            sizes.append(extent if keep else wanted)
            strides.append(stride if extent > 1 else 0)
        shape.append(1 if keep else size_of(mode))
        position += count
    view = flat.as_strided(sizes[::-1], strides[::-1], flat.storage_offset() + tensor.offset)
    return view.reshape(shape[::-1])


def _modes(extents: IntTuple) -> tuple[IntTuple, ...]:
    return extents if isinstance(extents, tuple) else (extents,)


def cut(view: torch.Tensor, box: Sequence[range]) -> torch.Tensor:
    """The part of ``view``, which has one dimension per mode, last mode first, that lies in ``box``."""
    for mode, taken in enumerate(box):
        view = view.narrow(view.ndim - 1 - mode, taken.start, len(taken))
    return view


def blocks(taken: range, step: int) -> list[range]:
    """``taken`` cut at multiples of ``step``."""
    first = taken.start - taken.start % step
    return [
        range(max(start, taken.start), min(start + step, taken.stop))
        for start in range(first, taken.stop, step)
    ]


def spans(size: int, steps: Iterable[int]) -> list[range]:
    """``range(size)`` cut at multiples of every one of ``steps``."""
    edges = sorted({0, size}.union(*[range(0, size, step) for step in steps]))
    return [range(lo, hi) for lo, hi in pairwise(edges)]


def boxes(modes: Sequence[Sequence[range]]) -> Iterator[Box]:
    """Every box of ranges of each mode, first mode fastest."""
    return (box[::-1] for box in product(*modes[::-1]))


def cells(accesses: Sequence[Access | object], sizes: Sequence[int]) -> list[list[range]]:
    """The ranges of each mode whose boxes a pointwise operation covers step by step.

    A step meets one tile of each tiled operand, so that it takes no more memory than those, however they cut.
    """
    tiled = [a for a in accesses if isinstance(a, Access) and a.is_tiled]
    return [spans(n, [a.cuts(m) for a in tiled if a.sizes[m] == n]) for m, n in enumerate(sizes)]
