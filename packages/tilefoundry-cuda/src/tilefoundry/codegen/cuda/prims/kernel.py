"""A statement-level function as a kernel.

Every thread runs the statements. Elements of shared or global memory are stored by one thread where no
``T.parallel`` hands out the work; tile ops on distributed buffers are done by their owners, those on plain ones are
shared out over all threads of all blocks. Waiting is the author's: ``T.sync`` and ``T.cp_async_wait``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from tilefoundry.codegen.cpu.views import View, contiguous_strides
from tilefoundry.codegen.cuda.authored.memory import BARRIER_TYPE, Hazards
from tilefoundry.codegen.cuda.authored.refusal import NotFollowed
from tilefoundry.codegen.cuda.authored.scope import Scope, resolved_mesh
from tilefoundry.codegen.cuda.authored.shared import MOST_DECLARED, placed_in_launch
from tilefoundry.codegen.cuda.authored.space import Held, Space
from tilefoundry.codegen.cuda.authored.writer import KernelWriter, storage_of
from tilefoundry.codegen.cuda.prims.attention import is_attention, lower_attention
from tilefoundry.codegen.cuda.prims.contraction import is_product, lower_product
from tilefoundry.codegen.cuda.prims.tile_ops import TILE_RULES
from tilefoundry.codegen.cuda.statements import RegisterArray
from tilefoundry.codegen.cuda.tiles import BARRIER, TileLoop, TileOnly, TileSync, TileText
from tilefoundry.ir.core.expr import Expr, Var
from tilefoundry.ir.passes import Names
from tilefoundry.ir.tir import (
    Abort,
    Accumulate,
    Accumulator,
    Allocate,
    Barrier,
    BarrierKind,
    Comment,
    Evaluate,
    For,
    If,
    IndexValue,
    Let,
    MeshScope,
    Parallel,
    PrimFunction,
    Return,
    Store,
    TileAttention,
    TileContraction,
    TirStmt,
    While,
    barriers,
    walk_tir,
)
from tilefoundry.ir.types import Dim, DimVar, DType, StorageKind, TensorType, scalar, type_dim_vars
from tilefoundry.ir.types.dim import product
from tilefoundry.ir.types.shard import Layout, Mesh, ShardLayout, Topology, engine_strides

__all__ = ["lower_kernel"]

_KINDS = {
    BarrierKind.GRID: "grid",
    BarrierKind.BLOCK: "cta",
    BarrierKind.WARP: "warp",
    BarrierKind.LANES: "lanes",
    BarrierKind.NAMED: "named",
}


def lower_kernel(
    function: PrimFunction,
    levels: tuple[Topology, ...],
    block: Dim | None = None,
) -> PrimFunction:
    """The kernel; extents follow its buffers as parameters by value.

    Args:
        levels: in force.
        block: threads that the launch names, where it names any.

    Raises:
        NotFollowed: threads that nobody states, or a statement without a form on a GPU.
    """
    if is_product(function):
        return lower_product(function)
    if is_attention(function):
        return lower_attention(function)
    meshes = [
        resolved_mesh(f"{function.name}.{s.name}", s.mesh, levels)
        for s in walk_tir(function.body)
        if isinstance(s, MeshScope)
    ]
    threads = _threads(function, meshes, levels, block)
    blocks = _extent(meshes, levels, "cta")
    out: list[TirStmt] = []
    lowering = _Lowering(function, levels, threads, blocks, out)
    lowering.begin()
    lowering.stmts(function.body)
    mesh = Mesh((Topology("cta", blocks), Topology("thread", threads)), Layout((blocks, threads)), ("b", "t"))
    extents = dict.fromkeys(var for p in function.params for var in type_dim_vars(p.type))
    params = [
        *(Var(TensorType((), p.type.dtype), p.name) for p in function.params),  # type: ignore[attr-defined]  # tensors
        *([Var(BARRIER_TYPE, BARRIER)] if lowering.to.hazards.meets_grid else []),
        *(Var(scalar(DType.i64), var.name, is_const=True) for var in extents),
    ]
    body = placed_in_launch(out) if lowering.to.shared_bytes > MOST_DECLARED else tuple(out)
    return PrimFunction(function.name, tuple(params), (MeshScope("launch", mesh, body),), 0)


def _threads(
    function: PrimFunction, meshes: list[Mesh], levels: tuple[Topology, ...], block: Dim | None
) -> int:
    found = _extent(meshes, levels, "thread", 0)
    stated = found or block or 1
    if block is not None and found and block != found:
        raise NotFollowed(
            f"{function.name}: launched with blocks of {block} threads, its meshes have {found}"
        )
    if not isinstance(stated, int):
        raise NotFollowed(f"{function.name}: a block has {stated} threads; their number must be static")
    return stated


def _extent(meshes: list[Mesh], levels: tuple[Topology, ...], level: str, least: int = 1) -> Dim:
    best: Dim = least
    extents = [t.extent for m in meshes for t in m.topologies if isinstance(t, Topology) and t.name == level]
    extents += [t.extent for t in levels if t.name == level]
    for extent in extents:
        if not isinstance(extent, int):
            return extent
        best = max(best, extent) if isinstance(best, int) else best
    return best


@dataclass(slots=True)
class _Frame:
    """Where statements stand: ``alone`` in one thread's own work."""

    alone: bool = False


class _Lowering:
    """Walks the statements of one function."""

    def __init__(
        self, function: PrimFunction, levels: tuple[Topology, ...], threads: int, blocks: Dim, out: list[Any]
    ) -> None:
        self.function, self.levels = function, levels
        taken = [p.name for p in function.params]
        taken += [v.name for p in function.params for v in type_dim_vars(p.type)]
        taken += list(_named(function.body))
        names = Names([*taken, BARRIER])
        hazards = Hazards(lambda stmt: self.to.out.append(stmt), threads, blocks)
        self.to = KernelWriter(function.name, names, hazards, out=out)
        self.frame = _Frame()
        self.sites: Iterator[Barrier] = iter(barriers(function, levels))
        self.private: set[str] = set()
        self.shared: set[str] = set()

    def begin(self) -> None:
        """Where the running thread is, and the parameters."""
        to = self.to
        to.lane, to.block = (DimVar(to.names.fresh(n), 0, 2**31) for n in ("lane", "block"))
        for var, level in ((to.lane, "thread"), (to.block, "cta")):
            to.out.append(
                TileText(
                    f"[[maybe_unused]] const index_t {{{var.name}}} = program_id<TopologyScope::{level}>();"
                )
            )
        for param in self.function.params:
            assert isinstance(param.type, TensorType)
            self._plain(param)

    def _plain(self, buffer: Var, space: str = "gmem") -> None:
        type_ = buffer.type
        assert isinstance(type_, TensorType)
        strides = contiguous_strides(type_.shape)
        held = Held.viewed(View(buffer.name, type_.dtype, type_.shape, strides))
        self.to.values[buffer.name] = replace(held, space=space)

    def stmts(self, stmts: tuple[TirStmt, ...]) -> None:
        """Lower statements in order."""
        for stmt in stmts:
            rule = _RULES.get(type(stmt))
            if rule is not None:
                rule(self, stmt)
            elif isinstance(stmt, _AS_THEY_ARE):
                self.to.out.append(stmt)
            else:
                raise NotFollowed(f"{self.function.name}: {_refusal(stmt)}")

    def _inner(self, stmts: tuple[TirStmt, ...]) -> tuple[TirStmt, ...]:
        with self.to.nested() as out:
            self.stmts(stmts)
        return tuple(out)

    def scope(self, stmt: MeshScope) -> None:
        """The scope's mesh and its statements."""
        mesh = resolved_mesh(f"{self.function.name}.{stmt.name}", stmt.mesh, self.levels)
        scope = Scope.of(stmt.name, mesh, self.to.names)
        self.to.out.append(scope.statement())
        self.to.scopes.append(scope)
        self.stmts(stmt.body)
        self.to.scopes.pop()

    def loop(self, stmt: For) -> None:
        """A loop that every thread runs."""
        self.to.out.append(replace(stmt, body=self._inner(stmt.body)))

    def branch(self, stmt: If) -> None:
        """A branch that every thread takes by its own condition."""
        self.to.out.append(If(stmt.condition, self._inner(stmt.then), self._inner(stmt.orelse)))

    def repeat(self, stmt: While) -> None:
        """A loop with a condition."""
        self.to.out.append(While(stmt.condition, self._inner(stmt.body)))

    def parallel(self, stmt: Parallel) -> None:
        """Pieces of one item for all threads of all blocks in turn."""
        before, self.frame = self.frame, _Frame(alone=True)
        end = Let(stmt.end, IndexValue.of(DimVar(stmt.begin.name, 0, 2**62) + 1))
        body = (end, *self._inner(stmt.body))
        self.frame = before
        first, step = self.turns()
        self.to.out.append(TileLoop(stmt.begin, first, stmt.extent, step, body))

    def turns(self) -> tuple[Dim, Dim]:
        """First item and step of a thread's own items."""
        if self.frame.alone:
            return 0, 1
        to = self.to
        blocks = DimVar(to.names.fresh("blocks"), 1, 2**31)
        to.out.append(TileText(f"const index_t {{{blocks.name}}} = program_dim<TopologyScope::cta>();"))
        return to.block * to.hazards.threads + to.lane, product((blocks, to.hazards.threads))

    def store(self, stmt: Store) -> None:
        """Private elements are stored by every thread, others by one."""
        if self.frame.alone or stmt.buffer.name in self.private:
            self.to.out.append(stmt)
            return
        zeros = (self.to.lane,) if stmt.buffer.name in self.shared else (self.to.lane, self.to.block)
        self.to.out.append(TileOnly(zeros, (stmt,)))

    def allocate(self, stmt: Allocate) -> None:
        """Registers of the thread, a distributed value's registers, or the block's shared memory."""
        type_, name = stmt.buffer.type, stmt.buffer.name
        assert isinstance(type_, TensorType)
        where = storage_of(type_)
        if where == "gmem":
            raise NotFollowed(
                f"{self.function.name}.{name}: a kernel allocates smem and rmem; allocate gmem in the host and pass it"
            )
        if isinstance(type_.layout, ShardLayout):
            self._distributed(stmt.buffer, type_, where)
        elif where == "smem":
            assert isinstance(stmt.size, int)
            held = self.to.shared(name, type_)
            self.to.out[-1] = replace(self.to.out[-1], target=Var(TensorType((), type_.dtype), name))
            self._plain(stmt.buffer, "smem")
            self.shared.add(name)
            assert held.space == "smem"
        else:
            if not isinstance(stmt.size, int):
                raise NotFollowed(
                    f"{self.function.name}.{name}: registers need a static number of elements, got {stmt.size}"
                )
            self.to.out.append(RegisterArray(Var(TensorType((), type_.dtype), name), max(stmt.size, 1)))
            self._plain(stmt.buffer, "own")
            self.private.add(name)

    def _distributed(self, buffer: Var, type_: TensorType, where: str) -> None:
        layout = type_.layout
        assert isinstance(layout, ShardLayout)
        if layout.strides is None:
            layout = layout.with_strides(engine_strides(layout))
        settled = TensorType(
            type_.shape, type_.dtype, layout, StorageKind.RMEM if where != "smem" else type_.storage
        )
        held = (
            self.to.shared(buffer.name, settled)
            if where == "smem"
            else self.to.registers(buffer.name, settled)
        )
        self.to.values[buffer.name] = held

    def evaluate(self, stmt: Evaluate) -> None:
        """A tile op."""
        if stmt.op == "sync":
            self._sync()
            return
        rule = TILE_RULES.get(stmt.op)
        if rule is None:
            raise NotFollowed(
                f"{self.function.name}: T.{stmt.op} has no form in a CUDA kernel; write it with T.copy, T.unary, "
                "T.binary, T.reduce and elements"
            )
        rule(self, stmt)

    def _sync(self) -> None:
        barrier = next(self.sites)
        kind = _KINDS[barrier.kind]
        if kind == "grid":
            self.to.hazards.meets_grid = True
            self.to.out.append(TileSync(kind, Var(BARRIER_TYPE, BARRIER)))
            return
        self.to.out.append(
            TileSync(kind, None, barrier.first, barrier.count, barrier.mask, barrier.number or 0)
        )

    def space_of(self, held: Held) -> Space:
        """What an instance runs over for a distributed value."""
        assert held.layout is not None and held.scope is not None
        return Space.of(held.layout, held.scope)


def _refusal(stmt: TirStmt) -> str:
    """Why a statement has no form, and what to write instead."""
    call = {TileContraction: "T.contract", TileAttention: "T.attention"}.get(type(stmt))
    if call is None:
        return f"{type(stmt).__name__} has no form in a hand-written CUDA kernel"
    return (
        f"{call} takes all blocks of a launch and shares its CUDA kernel with no other statement; give it a @prim_func "
        "of its own and launch that"
    )


def _named(stmts: tuple[TirStmt, ...]) -> Iterator[str]:
    """Names that statements bind."""
    for stmt in walk_tir(stmts):
        for attribute in ("target", "buffer", "index", "begin", "end"):
            found: Expr | None = getattr(stmt, attribute, None)
            if isinstance(found, Var):
                yield found.name


_AS_THEY_ARE = (Abort, Accumulate, Accumulator, Comment, Let, Return)
_RULES: dict[type, Callable[[_Lowering, Any], None]] = {
    Allocate: _Lowering.allocate,
    Evaluate: _Lowering.evaluate,
    For: _Lowering.loop,
    If: _Lowering.branch,
    MeshScope: _Lowering.scope,
    Parallel: _Lowering.parallel,
    Store: _Lowering.store,
    While: _Lowering.repeat,
}
