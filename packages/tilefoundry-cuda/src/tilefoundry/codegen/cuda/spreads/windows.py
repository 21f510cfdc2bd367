"""A kernel in tiles that an edge may cut: ``for i in tile(extent, step, over=m.block)`` around its ops."""

from __future__ import annotations

from dataclasses import dataclass

from tilefoundry.codegen.cpu.nest import AxisMap
from tilefoundry.codegen.cuda.spreads.spread import Spread, Window
from tilefoundry.codegen.cuda.spreads.writer import Writer
from tilefoundry.ir.core.expr import Atom, Bind, Block, Carry, For, MeshScope, Stmt, Var
from tilefoundry.ir.errors import TypeRuleError
from tilefoundry.ir.hir import HIR_OPS
from tilefoundry.ir.hir.function import Function
from tilefoundry.ir.passes import Names
from tilefoundry.ir.types import Dim, DimVar, DType, TensorType, bounds, scalar
from tilefoundry.ir.types.shard import Layout, ShardLayout

__all__ = ["WindowWriter", "tile_dims"]

_INDICES = "ij"


def tile_dims(loop: For) -> tuple[DimVar, DimVar | None]:
    """A tile loop's first element, and the extent of its tiles, as dims."""
    return DimVar(loop.index.name, 0, max(bounds(loop.stop)[1], 1)), loop.window


@dataclass(frozen=True, slots=True)
class _Tile:
    """A window, and the names of the loop over it."""

    window: Window
    index: DimVar
    extent: DimVar

    @staticmethod
    def of(window: Window, wish: str, names: Names) -> _Tile:
        index = DimVar(names.fresh(wish), 0, max(bounds(window.extent)[1], 1))
        return _Tile(window, index, DimVar(names.fresh(f"{index.name}_extent"), 1, window.step + 1, True))


class WindowWriter:
    """Writes one kernel. Results are memory that tiles replace windows of."""

    def __init__(self, function: Function, spread: Spread, names: Names) -> None:
        self.function, self.spread = function, spread
        self.writer = Writer(names)
        self.scope = names.fresh("m")
        self.tiles = [_Tile.of(w, _INDICES[k], names) for k, w in enumerate(spread.windows)]

    def block(self, bound: list[Bind], results: list[Var]) -> Block:
        """The whole body."""
        before, writer = [], self.writer
        for param in self.function.params if self.spread.flat else ():
            before.append(self._flattened(param))
        memory = [self._memory(var) for var in results]
        before += [Bind(var, HIR_OPS["zeros"].call((), {"type": var.type})) for var in memory]
        chains = [self._chain(var) for var in memory]
        writer.stmts.clear()
        self._inner(bound, results, [chain[-1] for chain in chains])
        stmts: tuple[Stmt, ...] = tuple(writer.stmts)
        ends: list[Atom] = [writer.values[var.name] for var in results]
        for k, tile in reversed(list(enumerate(self.tiles))):
            carries = tuple(Carry(chain[k], chain[k + 1], self._result(chain[k])) for chain in chains)
            stmts = (self._loop(tile, carries, Block(stmts, tuple(ends))),)
            ends = [carry.result for carry in carries]
        scope = MeshScope(self.scope, self.spread.mesh, stmts)
        after, found = self._restored(results, ends)
        return Block((*before, scope, *after), tuple(found))

    def _flattened(self, param: Var) -> Bind:
        call = HIR_OPS["reshape"].call((param,), {"new_shape": (self.spread.windows[0].extent,)})
        self.writer.bind(param, self.writer.names.fresh(f"{param.name}_flat"), call)
        bind = self.writer.stmts[-1]
        assert isinstance(bind, Bind)
        return bind

    def _memory(self, result: Var) -> Var:
        """What a result's tiles are put into; it has the result's name."""
        assert isinstance(result.type, TensorType)
        shape = (self.spread.windows[0].extent,) if self.spread.flat else result.type.shape
        return Var(TensorType(shape, result.type.dtype), result.name)

    def _chain(self, memory: Var) -> list[Var]:
        """The memory, and what each loop calls it inside."""
        return [memory, *(Var(memory.type, self.writer.names.fresh(f"{memory.name}_1")) for _ in self.tiles)]

    def _result(self, memory: Var) -> Var:
        return Var(memory.type, self.writer.names.fresh(f"{memory.name}_done"))

    def _loop(self, tile: _Tile, carries: tuple[Carry, ...], body: Block) -> For:
        window = tile.window
        over = None if window.over is None else f"{self.scope}.{self.spread.mesh.names[window.over]}"
        index = Var(scalar(DType.i64), tile.index.name)
        return For("tile", index, 0, window.extent, window.step, carries, body, over, tile.extent)

    def _inner(self, bound: list[Bind], results: list[Var], memory: list[Var]) -> None:
        """The statements of one tile."""
        writer, count = self.writer, len(self.function.params)
        for param, map_, layout in zip(
            self.function.params, self.spread.maps[:count], self.spread.inputs, strict=True
        ):
            starts, sizes = self._window(self._shape(param), map_)
            if any(start != 0 for start in starts):
                attrs = {"starts": starts, "sizes": sizes, "strides": (1,) * len(sizes)}
                call = HIR_OPS["slice"].call((writer.atom(param),), attrs)
                writer.bind(param, writer.names.fresh(f"{param.name}_tile"), call)
            if layout is not None:
                writer.move(param, writer.own(param), layout, "rmem")
        writer.compute(bound, results)
        for var, into, map_ in zip(results, memory, self.spread.maps[count:], strict=True):
            held = writer.atom(var).type
            assert isinstance(held, TensorType) and isinstance(into.type, TensorType)
            if not isinstance(held.layout, ShardLayout):
                raise TypeRuleError(f"{var.name} is computed from values that every thread reads whole")
            starts, sizes = self._window(into.type.shape, map_)
            writer.move(var, writer.names.fresh(f"{var.name}_tile"), Layout(sizes), "gmem")
            call = HIR_OPS["insert_slice"].call((into, writer.atom(var)), {"offsets": starts})
            writer.bind(var, writer.names.fresh(f"{var.name}_next"), call)

    def _shape(self, param: Var) -> tuple[Dim, ...]:
        type_ = self.writer.atom(param).type
        assert isinstance(type_, TensorType)
        return type_.shape

    def _window(self, shape: tuple[Dim, ...], map_: AxisMap) -> tuple[tuple[Dim, ...], tuple[Dim, ...]]:
        """Where a tile of a value begins, and its extents."""
        tiles = {tile.window.axis: tile for tile in self.tiles}
        if self.spread.flat:
            return (self.tiles[0].index,), (self.tiles[0].extent,)
        starts = tuple(tiles[axis].index if axis in tiles else 0 for axis in map_)
        sizes = tuple(
            tiles[axis].extent if axis in tiles else extent for axis, extent in zip(map_, shape, strict=True)
        )
        return starts, sizes

    def _restored(self, results: list[Var], ends: list[Atom]) -> tuple[list[Stmt], list[Atom]]:
        """Results in their own shapes again."""
        if not self.spread.flat:
            return [], ends
        binds: list[Bind] = []
        for result, end in zip(results, ends, strict=True):
            assert isinstance(result.type, TensorType)
            call = HIR_OPS["reshape"].call((end,), {"new_shape": result.type.shape})
            binds.append(Bind(Var(call.type, self.writer.names.fresh(f"{result.name}_whole")), call))
        return [*binds], [bind.target for bind in binds]
