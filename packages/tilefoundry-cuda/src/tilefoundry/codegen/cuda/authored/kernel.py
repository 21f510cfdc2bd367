"""A hand-placed function as a kernel: its scopes are phases, its values lie where the author put them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tilefoundry.codegen.cpu.schedule.kernel import KernelSpec
from tilefoundry.codegen.cpu.schedule.scope import buffer_var
from tilefoundry.codegen.cuda.authored.joins import lower_reduce
from tilefoundry.codegen.cuda.authored.loops import lower_loop
from tilefoundry.codegen.cuda.authored.maps import apply_map, is_map
from tilefoundry.codegen.cuda.authored.memory import BARRIER_TYPE, Hazards
from tilefoundry.codegen.cuda.authored.moves import lower_local, lower_reshard, store_global
from tilefoundry.codegen.cuda.authored.operands import materialised, operand_part, result_groups
from tilefoundry.codegen.cuda.authored.products import lower_matmul
from tilefoundry.codegen.cuda.authored.refusal import NotFollowed
from tilefoundry.codegen.cuda.authored.results import changed_values, homes_of, placed_windows, use_counts
from tilefoundry.codegen.cuda.authored.scope import Scope, resolved_mesh
from tilefoundry.codegen.cuda.authored.shared import MOST_DECLARED, placed_in_launch
from tilefoundry.codegen.cuda.authored.space import Held
from tilefoundry.codegen.cuda.authored.windows import VIEWS, lower_insert, lower_view
from tilefoundry.codegen.cuda.authored.writer import KernelWriter, Lazy, storage_of
from tilefoundry.codegen.cuda.open_scopes import open_scope
from tilefoundry.codegen.cuda.tiles import BARRIER, TileText
from tilefoundry.ir.core.expr import Bind, Call, For, MeshScope, Stmt, Var
from tilefoundry.ir.hir.function import Function
from tilefoundry.ir.passes import Names
from tilefoundry.ir.tir import Comment, PrimFunction, TirStmt
from tilefoundry.ir.tir import MeshScope as TirScope
from tilefoundry.ir.types import Dim, DimVar, DType, TensorType, scalar
from tilefoundry.ir.types.shard import PERSISTENT, Instances, Mesh, ShardLayout, Topology

__all__ = ["is_placed", "schedule_placed"]

_CREATED = frozenset(["zeros", "full_like", "arange", "workspace", "index_select"])
_RULES: dict[str, Callable[[KernelWriter, Bind, Call], None]] = {
    "reshard": lower_reshard,
    "local": lower_local,
    "reduce": lower_reduce,
    "matmul": lower_matmul,
    "insert_slice": lower_insert,
    **dict.fromkeys(VIEWS, lower_view),
}


def is_placed(function: Function) -> bool:
    """Whether the function says which instance holds what: it has scopes, and not only one that leaves it open."""
    scoped = any(isinstance(stmt, MeshScope) for stmt in function.stmts())
    return scoped and open_scope(function) is None


def schedule_placed(spec: KernelSpec) -> PrimFunction:
    """The kernel of a hand-placed function.

    Parameters are buffers, inputs before outputs, workspaces among the latter, then extents by value.

    Raises:
        NotFollowed: something in it has no lowering; nothing is placed anew.
    """
    function = spec.function
    assert function.body is not None
    dims = spec.dims()
    buffers = _buffers(spec)
    names = Names([*dims, *(b.name for b in buffers), *_own_names(function), BARRIER, PERSISTENT.name])
    out: list[TirStmt] = []
    lowering = _Lowering(function, names, out)
    lowering.run(spec)
    extents = (Var(scalar(DType.i64), name, is_const=True) for name in dims)
    workspaces = tuple(lowering.to.workspaces)
    barrier = (Var(BARRIER_TYPE, BARRIER),) if lowering.to.hazards.meets_grid else ()
    body = placed_in_launch(out) if lowering.to.shared_bytes > MOST_DECLARED else tuple(out)
    return PrimFunction(function.name, (*buffers, *workspaces, *barrier, *extents), body, 0)


def _buffers(spec: KernelSpec) -> tuple[Var, ...]:
    found: dict[str, Var] = {}
    for view in (*spec.inputs, *spec.outputs):
        found.setdefault(view.buffer, buffer_var(view))
    return tuple(found.values())


def _own_names(function: Function) -> Iterator[str]:
    """Names that the kernel's loops take over from the program."""
    for stmt in function.stmts():
        if isinstance(stmt, For):
            yield stmt.index.name
            if stmt.window is not None:
                yield stmt.window.name


class _Lowering:
    """Walks the statements of one function."""

    def __init__(self, function: Function, names: Names, out: list[TirStmt]) -> None:
        self.function = function
        self.levels: tuple[Topology, ...] = function.topologies or ()
        meshes = [
            resolved_mesh(f"{function.name}.{s.name}", s.mesh, self.levels)
            for s in function.stmts()
            if isinstance(s, MeshScope)
        ]
        threads, blocks = _most(meshes, "thread"), _most(meshes, "cta")
        if not isinstance(threads, int):
            raise NotFollowed(f"{function.name}: a block has {threads} threads; their number must be static")
        hazards = Hazards(lambda stmt: self.to.out.append(stmt), threads, blocks)
        self.to = KernelWriter(function.name, names, hazards, out=out)

    def run(self, spec: KernelSpec) -> None:
        """Lower everything into the writer."""
        body, to = self.function.body, self.to
        assert body is not None
        for param, view in zip(self.function.params, spec.inputs, strict=True):
            to.values[param.name] = Held.viewed(view)
        to.uses = use_counts(body)
        homes = {}
        for result, view in zip(body.results, spec.outputs, strict=True):
            assert isinstance(result, Var)
            homes[result.name] = view
            to.owned.add(view.buffer)
        to.homes, to.filled = homes_of(body, homes, to.uses)
        to.windows = placed_windows(body, to.uses)
        to.changed = changed_values(body)
        self._begin()
        self._stmts(body.stmts)
        for result, view in zip(body.results, spec.outputs, strict=True):
            assert isinstance(result, Var)
            self._finish(result, view)

    def _begin(self) -> None:
        to = self.to
        to.lane, to.block = (DimVar(to.names.fresh(n), 0, 2**31) for n in ("lane", "block"))
        for var, level in ((to.lane, "thread"), (to.block, "cta")):
            to.out.append(
                TileText(
                    f"[[maybe_unused]] const index_t {{{var.name}}} = program_id<TopologyScope::{level}>();"
                )
            )
        if any(PERSISTENT in _dims(s.mesh) for s in self.function.stmts() if isinstance(s, MeshScope)) or any(
            level.extent == PERSISTENT for level in self.levels
        ):
            to.out.append(
                TileText(f"const index_t {{{PERSISTENT.name}}} = program_dim<TopologyScope::cta>();")
            )

    def _finish(self, result: Var, view) -> None:
        value = self.to.values[result.name]
        if not isinstance(value, Held) or value.space != "gmem":
            where = "has no place" if isinstance(value, Lazy) else f"lies in {value.space}"
            raise NotFollowed(
                f"{self.function.name}.{result.name} leaves its scope, but {where}; "
                'end with tf.reshard(x, shape, "gmem")'
            )
        if value.buffer.name != view.buffer:
            raise NotFollowed(
                f"{self.function.name}.{result.name} is returned, but is another value's memory; "
                "reshard it to gmem by itself"
            )

    def _stmts(self, stmts: tuple[Stmt, ...]) -> None:
        for stmt in stmts:
            if isinstance(stmt, MeshScope):
                self._scope(stmt)
            elif isinstance(stmt, For):
                lower_loop(self.to, stmt, self._stmts)
            else:
                self._bind(stmt)

    def _scope(self, stmt: MeshScope) -> None:
        mesh = resolved_mesh(f"{self.function.name}.{stmt.name}", stmt.mesh, self.levels)
        scope = Scope.of(stmt.name, mesh, self.to.names)
        with self.to.nested() as inner:
            inner.append(scope.statement())
            self.to.scopes.append(scope)
            self._stmts(stmt.stmts)
            self.to.scopes.pop()
        self.to.out.append(TirScope(stmt.name, mesh, tuple(inner)))

    def _bind(self, bind: Bind) -> None:
        call = bind.value
        assert isinstance(call, Call), "calls were inlined"
        rule = _RULES.get(call.op.name)
        if rule is not None:
            self.to.out.append(Comment(f"{bind.target.name} = tf.{call.op.name}: {bind.target.type}"))
            rule(self.to, bind, call)
        elif is_map(call) and self._is_placed(bind):
            self._map(bind, call)
        elif is_map(call) or call.op.name in _CREATED:
            self._create(bind)
        elif call.op.name == "prefetch":
            self.to.values[bind.target.name] = self.to.values[call.args[0].name]  # type: ignore[union-attr]  # a value
        else:
            raise NotFollowed(
                f"{self.function.name}: {bind.target.name} = tf.{call.op.name}(...) has no lowering in a hand-placed "
                "scope; call it outside of the scope, or write it with elementwise ops, reductions and products"
            )

    def _is_placed(self, bind: Bind) -> bool:
        """Whether the type says who holds the value."""
        type_ = bind.target.type
        assert isinstance(type_, TensorType)
        return isinstance(type_.layout, (ShardLayout, Instances)) or storage_of(type_) in ("rmem", "smem")

    def _create(self, bind: Bind) -> None:
        """A value that is computed where it is read, unless its type places it."""
        lazy = Lazy(bind)
        self.to.values[bind.target.name] = lazy
        if self._is_placed(bind) and storage_of(bind.target.type) != "gmem":  # type: ignore[arg-type]  # a tensor
            type_ = bind.target.type
            assert isinstance(type_, TensorType)
            space, layout, scope = self.to.space_of(type_, bind.target.name)
            self.to.values[bind.target.name] = materialised(
                self.to, lazy, bind.target.name, type_.shape, space, layout, scope, None
            )

    def _map(self, bind: Bind, call: Call) -> None:
        to, name, type_ = self.to, bind.target.name, bind.target.type
        assert isinstance(type_, TensorType)
        self.to.out.append(Comment(f"{name} = tf.{call.op.name}: {type_}"))
        space, layout, scope = to.space_of(type_, name)
        groups = (
            tuple((k,) for k in range(len(type_.shape)))
            if layout is None
            else _groups_or_none(type_.shape, space, name)
        )
        operands = [operand_part(to, a, space, type_.shape, groups, (layout, scope), name) for a in call.args]
        where = storage_of(type_)
        held = to.shared(name, type_) if where == "smem" else to.registers(name, type_)
        if where == "smem":
            to.hazards.before_write(held, name)
        apply_map(to, call, operands, to.own_part(held, space), name)
        if where == "gmem":
            home = to.homes.get(name)
            target = Held.viewed(home) if home is not None else to.workspace(name, type_.dtype, type_.shape)
            store_global(to, held, target, name)
            held = target
        to.values[name] = held


def _groups_or_none(shape, space, name):
    """Axis groups; where the factors cross axes, the whole value as one group, for operands of the same form."""
    try:
        return result_groups(shape, space, name)
    except NotFollowed:
        return ()


def _dims(mesh: Mesh) -> tuple[Dim, ...]:
    return mesh.layout.shape


def _most(meshes: list[Mesh], level: str) -> Dim:
    """The largest number of instances of a level over all meshes."""
    best: Dim = 1
    for mesh in meshes:
        if level in mesh.level_names:
            declared = mesh.topologies[mesh.level_names.index(level)]
            assert isinstance(declared, Topology)
            if not isinstance(declared.extent, int):
                return declared.extent
            best = max(best, declared.extent) if isinstance(best, int) else best
    return best
