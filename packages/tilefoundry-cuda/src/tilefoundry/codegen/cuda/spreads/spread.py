"""How a schedule spreads a kernel's values over the instances of a mesh, as layouts.

Asked twice: when the layouts of a kernel are chosen, and when a program that has layouts is lowered. Equal answers mean
that the schedule does what the program says.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tilefoundry.codegen.cpu.nest import AxisMap
from tilefoundry.codegen.cpu.schedule import KernelSpec
from tilefoundry.codegen.cpu.schedule.plan import Plan
from tilefoundry.codegen.cuda.authored import NotFollowed
from tilefoundry.codegen.cuda.schedule import row_shape, rows_of
from tilefoundry.codegen.cuda.schedule.instances import Placement
from tilefoundry.codegen.cuda.schedule.row_shapes import RowShape
from tilefoundry.codegen.cuda.spreads.places import Places
from tilefoundry.ir.core.expr import MeshScope
from tilefoundry.ir.types import Dim, ceildiv
from tilefoundry.ir.types.dim import product
from tilefoundry.ir.types.shard import Broadcast, Layout, Mesh, ShardAttr, ShardLayout, Split, Topology

__all__ = ["Spread", "chosen_spread", "spread_over"]


@dataclass(frozen=True, slots=True)
class Window:
    """An axis in tiles.

    Attributes:
        axis: of the nest; extent: of the axis; step: of a tile.
        over: place of the mesh's axis that is handed tiles in turn; None where there is one tile.
    """

    axis: int
    extent: Dim
    step: int
    over: int | None


@dataclass(frozen=True, slots=True)
class Spread:
    """The layouts of a kernel's operands.

    Attributes:
        mesh: the instances that hold them.
        levels: their number, level by level.
        inputs: per parameter the layout in which it comes to registers; None where instances read what they need of it.
        results: per result the layout from which it is stored; of a tile where there are windows.
        windows: axes that are gone through in tiles, which an edge may cut, outermost first.
        maps: per parameter and then per result the axes of the nest that its own are, where there are windows.
        flat: operands are seen as one axis.
    """

    mesh: Mesh
    levels: tuple[Topology, ...]
    inputs: tuple[ShardLayout | None, ...]
    results: tuple[ShardLayout, ...]
    windows: tuple[Window, ...] = ()
    maps: tuple[AxisMap, ...] = ()
    flat: bool = False


def chosen_spread(spec: KernelSpec) -> Spread | None:
    """The spread that suits a flat kernel best; None where layouts cannot say it."""
    plan = rows_of(spec)
    rows = None if plan is None else _Rows.of(spec, plan, row_shape(plan))
    return None if rows is None else rows.over(rows.mesh)


def spread_over(spec: KernelSpec, scope: MeshScope, levels: tuple[Topology, ...]) -> Spread | None:
    """What the schedule of a flat kernel does on the mesh of ``scope``; None where layouts cannot say it, or where the
    schedule does not take the mesh."""
    plan = rows_of(spec)
    if plan is None:
        return None
    try:
        shape = row_shape(plan).over(Placement.of(spec.function.name, scope, levels))
    except NotFollowed:
        return None  # such a mesh is followed layout by layout
    rows = _Rows.of(spec, plan, shape)
    return None if rows is None or rows.mesh.shape != scope.mesh.shape else rows.over(scope.mesh)


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows in packs.

    Attributes:
        outer: extents of the axes that number the rows, blocks of rows along the last; blocks are dealt out along them.
        tiles: pieces that a row is cut into, one of a block.
        rows: rows of a block, along the last outer axis.
        pieces, lanes, width: a row, or a tile of it: each of ``lanes`` threads has ``pieces`` packs of ``width``.
        inputs: per parameter whether it has an element at every place.
        results: per result likewise; otherwise it has one per row.
        cut_rows, cut_tiles: the axis of which blocks take what leaves a remainder, and its extent.
        maps: as in ``Spread``.
    """

    outer: tuple[Dim, ...]
    tiles: Dim
    rows: int
    pieces: int
    lanes: int
    width: int
    inputs: tuple[bool, ...]
    results: tuple[bool, ...]
    cut_rows: tuple[int, Dim] | None = None
    cut_tiles: tuple[int, Dim] | None = None
    maps: tuple[AxisMap, ...] = ()
    flat: bool = False

    @staticmethod
    def of(spec: KernelSpec, plan: Plan, shape: RowShape) -> _Rows | None:
        """The rows of a nest; None where they do not stay in registers, or leave a remainder that no tiles can say."""
        places = Places.of(plan, shape)
        geometry = shape.geometry
        if places is None or geometry.elements is None or geometry.staged:
            return None
        tiles = 1 if shape.joined else shape.tiles
        outer, cut_rows = _dealt(places.outer, geometry.rows), None
        if outer is None and len(places.outer) == 1:
            outer, cut_rows = (ceildiv(places.outer[0], geometry.rows),), (places.axes[0], places.outer[0])
        if outer is None or (geometry.rows > 1 and tiles != 1):
            return None
        even = shape.extent % geometry.tile == 0 and (not shape.joined or shape.extent == geometry.tile)
        cut_tiles = None if even else (places.axes[-1], shape.extent)
        results = [places.kind(plan.maps[name]) for name in plan.outputs]
        if None in results:
            return None
        inputs = tuple(places.is_read_whole(plan, param.name) for param in spec.function.params)
        maps: tuple[AxisMap, ...] | None = ()
        flat = cut_tiles is not None and places.count != len(places.axes) - 1
        if cut_rows or cut_tiles:
            maps = places.window_maps(plan, spec.function.params)
            one_shape = len({view.shape for view in (*spec.inputs, *spec.outputs)}) == 1
            if (
                maps is None
                or not any(inputs)
                or (flat and not (all(inputs) and one_shape and not places.count))
            ):
                return None
        pieces = geometry.elements // geometry.width
        return _Rows(
            outer, tiles, geometry.rows, pieces, geometry.threads, geometry.width, inputs, tuple(results),  # type: ignore[arg-type]  # none is None
            cut_rows, cut_tiles, maps, flat,
        )  # fmt: skip

    @property
    def mesh(self) -> Mesh:
        """An axis of blocks per outer axis and for the tiles, then a block's rows and the threads of a row."""
        blocks = [n for n in (*self.outer, self.tiles) if n != 1] or [1]
        names = ["block"] if len(blocks) == 1 else [f"block{i}" for i in range(len(blocks))]
        if self.tiles != 1 and len(blocks) > 1:
            names = [*(["block"] if len(blocks) == 2 else names[:-1]), "tile"]
        rows = [("row", self.rows)] if self.rows > 1 else []
        axes = [*zip(names, blocks, strict=True), *rows, ("lane", self.lanes)]
        return Mesh(("cta", "thread"), Layout(tuple(n for _, n in axes)), tuple(name for name, _ in axes))

    def over(self, mesh: Mesh) -> Spread:
        """The layouts over a mesh of this form."""
        blocks = mesh.shape[: self._threads(mesh)]
        levels = (Topology("cta", product(blocks)), Topology("thread", self.rows * self.lanes))
        inputs = tuple(self._layout(mesh, True) if whole else None for whole in self.inputs)
        results = tuple(self._layout(mesh, whole) for whole in self.results)
        return Spread(mesh, levels, inputs, results, tuple(self._windows(mesh)), self.maps, self.flat)

    def _threads(self, mesh: Mesh) -> int:
        """Place of the first axis of threads."""
        return mesh.rank - (2 if self.rows > 1 else 1)

    def _windows(self, mesh: Mesh) -> Iterator[Window]:
        if self.cut_rows is not None:
            axis, extent = self.cut_rows
            yield Window(axis, extent, self.rows, 0)
        if self.cut_tiles is not None:
            axis, extent = self.cut_tiles
            over = None if self.tiles == 1 else self._threads(mesh) - 1
            yield Window(axis, extent, self.pieces * self.lanes * self.width, over)

    def _layout(self, mesh: Mesh, whole: bool) -> ShardLayout:
        """Of a value with an element at every place, or else one per row.

        Canonical axes are those of the mesh in their order, with the pieces of a thread before the threads.
        """
        last, threads = mesh.rank - 1, self._threads(mesh)
        split = [axis for axis in range(last if not whole else mesh.rank) if mesh.shape[axis] != 1]
        dealt = {0} if self.cut_rows else set()
        if self.tiles != 1 and (not whole or self.cut_tiles):
            dealt.add(threads - 1)
        shape: list[Dim] = []
        attrs: list[ShardAttr] = [Broadcast()] * mesh.rank
        for axis in (axis for axis in split if axis not in dealt):
            if axis == last and self.pieces > 1:
                shape.append(self.pieces)
            attrs[axis] = Split(len(shape))
            shape.append(mesh.shape[axis])
        if whole:
            shape += [self.pieces] if last not in split and self.pieces > 1 else []
            shape += [self.width] if self.width > 1 else []
        return ShardLayout(Layout(tuple(shape) or (1,)), tuple(attrs), mesh)


def _dealt(outer: tuple[Dim, ...], rows: int) -> tuple[Dim, ...] | None:
    """Extents of the outer axes in blocks of ``rows`` along the last, or along all as one; None with a remainder."""
    if rows == 1:
        return outer
    for axes in (outer, (product(outer),)):
        if axes and axes[-1] % rows == 0:
            return (*axes[:-1], axes[-1] // rows)
    return None
