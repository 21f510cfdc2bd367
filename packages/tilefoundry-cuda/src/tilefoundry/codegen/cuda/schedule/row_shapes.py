"""How the rows of a nest lie over a mesh: which loops are shared by threads, and how many elements each takes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tilefoundry.codegen.cpu.schedule.plan import Access, Loop, Plan
from tilefoundry.codegen.cpu.schedule.rows import leading_access
from tilefoundry.codegen.cuda.schedule.geometry import (
    Geometry,
    pack_width,
    reduced_geometry,
    streaming_geometry,
    waits_in_shared,
)
from tilefoundry.codegen.cuda.schedule.instances import Instances, Placement
from tilefoundry.codegen.cuda.schedule.staging import kept_bytes
from tilefoundry.ir.types import Dim, ceildiv
from tilefoundry.ir.types.dim import product

__all__ = ["RowShape", "packed_views", "row_shape"]

_MOST_ELEMENTS = 64
"""Elements of one thread that stay in its registers between passes."""

_MOST_PACKS = 8
_WARP = 32


@dataclass(frozen=True, slots=True)
class RowShape:
    """The rows of a nest.

    Attributes:
        outer: loops over rows; inner: loops along a row, packs lie along the last.
        joined: the row's elements meet; otherwise each is on its own and a row may be cut into tiles.
        geometry: how a block takes rows.
        waits: bytes per element of what several passes read and may wait in shared memory.
    """

    outer: tuple[Loop, ...]
    inner: tuple[Loop, ...]
    joined: bool
    geometry: Geometry
    waits: int = 0

    @property
    def extent(self) -> Dim:
        """Elements of the loop along which packs lie."""
        return self.inner[-1].extent

    @property
    def tiles(self) -> Dim:
        """Pieces that a row is cut into."""
        tile = self.geometry.tile
        if self.joined or (isinstance(self.extent, int) and self.extent <= tile):
            return 1
        return ceildiv(self.extent, tile)

    @property
    def items(self) -> Dim:
        """Rows, or tiles of rows: what a block takes ``geometry.rows`` of."""
        return product((*(loop.extent for loop in self.outer), self.tiles))

    @property
    def instances(self) -> Instances:
        """The instances that this takes."""
        threads = (self.geometry.rows, self.geometry.threads)
        return Instances(ceildiv(self.items, self.geometry.rows), threads, ("block", "row", "lane"))

    def over(self, placement: Placement) -> RowShape:
        """The same rows over the instances of ``placement``.

        Raises:
            NotFollowed: they do not fit; the message says which would.
        """
        rows, lanes = placement.rows_and_lanes(self.instances)
        if self.joined and lanes % _WARP and lanes not in (1, 2, 4, 8, 16):
            placement.refuse("threads that join a row are whole warps or a power of two", self.instances)
        shapes = list(self._shapes(rows, lanes))
        found = next((shape for shape in shapes if shape.instances.blocks == placement.blocks), None)
        if found is None:
            counts = " or ".join(dict.fromkeys(str(shape.instances.blocks) for shape in shapes))
            placement.refuse(f"blocks of {rows} x {lanes} threads are {counts}", self.instances)
        return found

    def _shapes(self, rows: int, lanes: int) -> Iterator[RowShape]:
        """What blocks of this form may do, the best first."""
        chosen = self.geometry
        if (rows, lanes) == (chosen.rows, chosen.threads):
            yield self
        step = chosen.width
        if self.joined:
            held = -(-self.extent // (lanes * step)) * step if isinstance(self.extent, int) else None
            staged = chosen.staged and rows == 1 and waits_in_shared(lanes * (held or 0), self.waits)
            kept = chosen.elements is not None and held is not None and (staged or held <= _MOST_ELEMENTS)
            yield self._with(rows, lanes, held if kept else None, staged)
            return
        for packs in range(1, _MOST_PACKS + 1):
            yield self._with(rows, lanes, packs * step)

    def _with(self, rows: int, lanes: int, elements: int | None, staged: bool = False) -> RowShape:
        return replace(self, geometry=Geometry(lanes, rows, self.geometry.width, elements, staged))


def row_shape(plan: Plan) -> RowShape:
    """The rows of a nest with the geometry that suits them best."""
    lead = leading_access(plan)
    kept = plan.loops(plan.memory_order(plan.nest.kept, lead))
    if not plan.nest.reduced:
        outer, last = kept[:-1], kept[-1] if kept else Loop(-1, 1)
        rows = product(loop.extent for loop in outer)
        geometry = streaming_geometry(last.extent, rows, _width(plan, last))
        return RowShape(outer, (last,), False, geometry)
    inner = plan.loops(plan.memory_order(tuple(plan.nest.reduced), lead))
    inner = inner or (Loop(min(plan.nest.reduced), 1),)
    rows = product(loop.extent for loop in kept)
    joins = max((plan.phase(name) for name in plan.binds if plan.is_reduction(name)), default=1)
    width, waits = _width(plan, inner[-1]), kept_bytes(plan, inner)
    geometry = reduced_geometry(inner[-1].extent, rows, width, waits, joins)
    return RowShape(kept, inner, True, geometry, waits)


def packed_views(plan: Plan, axis: int) -> list[Access]:
    """Accesses that are contiguous along ``axis``."""
    return [access for access in plan.accesses() if access.stride(axis) == 1]


def _width(plan: Plan, loop: Loop) -> int:
    return pack_width([a.view.dtype.itemsize for a in packed_views(plan, loop.axis)], loop.extent)
