"""How a schedule spreads a kernel's values over the instances of a mesh, as layouts.

Asked twice: when the layouts of a kernel are chosen, and when a program that has layouts is lowered. Equal answers mean
that the schedule does what the program says.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilefoundry.codegen.cpu.nest import AxisMap
from tilefoundry.codegen.cpu.schedule import KernelSpec
from tilefoundry.codegen.cpu.schedule.plan import Plan
from tilefoundry.codegen.cpu.schedule.rows import leading_access
from tilefoundry.codegen.cuda.authored import NotFollowed
from tilefoundry.codegen.cuda.schedule import row_shape, rows_of
from tilefoundry.codegen.cuda.schedule.instances import Placement
from tilefoundry.codegen.cuda.schedule.row_shapes import RowShape
from tilefoundry.ir.core.expr import MeshScope, Var
from tilefoundry.ir.types import Dim
from tilefoundry.ir.types.dim import product
from tilefoundry.ir.types.shard import Broadcast, Layout, Mesh, ShardAttr, ShardLayout, Split, Topology

__all__ = ["Spread", "chosen_spread", "spread_over"]


@dataclass(frozen=True, slots=True)
class Spread:
    """The layouts of a kernel's operands.

    Attributes:
        mesh: the instances that hold them.
        levels: their number, level by level.
        inputs: per parameter the layout in which it comes to registers; None where instances read what they need of it.
        results: per result the layout from which it is stored.
    """

    mesh: Mesh
    levels: tuple[Topology, ...]
    inputs: tuple[ShardLayout | None, ...]
    results: tuple[ShardLayout, ...]


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
    """Rows that packs make up without remainder.

    Attributes:
        outer: extents of the axes that number the rows; blocks are dealt out along them.
        tiles: pieces that a row is cut into, one of a block.
        rows: rows of a block, along the last outer axis.
        pieces, lanes, width: a row, or a tile of it: each of ``lanes`` threads has ``pieces`` packs of ``width``.
        inputs: per parameter whether it has an element at every place.
        results: per result likewise; otherwise it has one per row.
    """

    outer: tuple[Dim, ...]
    tiles: Dim
    rows: int
    pieces: int
    lanes: int
    width: int
    inputs: tuple[bool, ...]
    results: tuple[bool, ...]

    @staticmethod
    def of(spec: KernelSpec, plan: Plan, shape: RowShape) -> _Rows | None:
        """The rows of a nest; None where they, or the tiles of one, leave a remainder or do not stay in registers."""
        places = _Places.of(plan, shape)
        geometry = shape.geometry
        if places is None or geometry.elements is None or geometry.staged:
            return None
        if shape.extent % geometry.tile != 0 or (shape.joined and shape.extent != geometry.tile):
            return None
        tiles = 1 if shape.joined else shape.tiles
        outer = _dealt(places.outer, geometry.rows)
        if outer is None or (geometry.rows > 1 and tiles != 1):
            return None
        results = [places.kind(plan.maps[name]) for name in plan.outputs]
        if None in results:
            return None
        inputs = (places.is_read_whole(plan, param.name) for param in spec.function.params)
        pieces = geometry.elements // geometry.width
        return _Rows(
            outer, tiles, geometry.rows, pieces, geometry.threads, geometry.width, tuple(inputs), tuple(results)  # type: ignore[arg-type]  # none is None
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
        blocks = mesh.shape[: -2 if self.rows > 1 else -1]
        levels = (Topology("cta", product(blocks)), Topology("thread", self.rows * self.lanes))
        inputs = tuple(self._layout(mesh, True) if whole else None for whole in self.inputs)
        return Spread(mesh, levels, inputs, tuple(self._layout(mesh, whole) for whole in self.results))

    def _layout(self, mesh: Mesh, whole: bool) -> ShardLayout:
        """Of a value with an element at every place, or else one per row.

        Canonical axes are those of the mesh in their order, with the pieces of a thread before the threads.
        """
        last = mesh.rank - 1
        split = [axis for axis in range(last if not whole else mesh.rank) if mesh.shape[axis] != 1]
        if not whole and self.tiles != 1:
            split.remove(last - 1)
        shape: list[Dim] = []
        attrs: list[ShardAttr] = [Broadcast()] * mesh.rank
        for axis in split:
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


@dataclass(frozen=True, slots=True)
class _Places:
    """The axes of a nest in the order of its values' own axes.

    Attributes:
        axes: those of several places.
        count: how many of them number rows.
        outer: the extents of these.
    """

    axes: tuple[int, ...]
    count: int
    outer: tuple[Dim, ...]

    @staticmethod
    def of(plan: Plan, shape: RowShape) -> _Places | None:
        """None where memory is walked in another order, or where a row is more than one loop."""
        extents, lead = plan.nest.extents, leading_access(plan)
        axes = tuple(axis for axis, extent in enumerate(extents) if extent != 1)
        reduced = plan.memory_order(tuple(plan.nest.reduced), lead)
        if (*plan.memory_order(plan.nest.kept, lead), *reduced) != axes or len(shape.inner) != 1:
            return None
        count, along = len(axes), 1
        while along != shape.extent and count:
            count -= 1
            along = product((along, extents[axes[count]]))
        if along != shape.extent or any(extents[axis] == 0 for axis in axes):
            return None
        return _Places(axes, count, tuple(extents[axis] for axis in axes[:count]))

    def kind(self, map_: AxisMap) -> bool | None:
        """True for a value with an element at every place, False for one per row, None for any other."""
        live = tuple(axis for axis in map_ if axis in self.axes)
        return True if live == self.axes else False if live == self.axes[: self.count] else None

    def is_read_whole(self, plan: Plan, param: str) -> bool:
        """Whether the parameter has an element at every place, and is read nowhere else."""
        reads = [
            plan.read_map(name, position)
            for name in plan.binds
            for position, arg in enumerate(plan.call(name).args)
            if isinstance(arg, Var) and arg.name == param
        ]
        return bool(reads) and all(self.kind(map_) is True for map_ in reads)
