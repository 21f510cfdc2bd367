"""Check the invariants of a PrimFunction."""

from __future__ import annotations

from tilefoundry.ir.core.expr import Constant, Expr, Var
from tilefoundry.ir.errors import VerificationError
from tilefoundry.ir.tir.expr import Apply, BufferView, IndexValue, Load, PointerOf, Verbatim
from tilefoundry.ir.tir.function import PrimFunction
from tilefoundry.ir.tir.ops import SCALAR_OPS, TILE_OPS
from tilefoundry.ir.tir.stmt import (
    Abort,
    Accumulate,
    Accumulator,
    Allocate,
    ComputedOperand,
    Contraction,
    DispatchCall,
    Evaluate,
    For,
    Guard,
    If,
    Launch,
    Let,
    MeshScope,
    Parallel,
    Slab,
    Store,
    TirStmt,
    While,
    walk_tir,
)
from tilefoundry.ir.tir.tile_rules import check_body, check_tiles
from tilefoundry.ir.tir.tiles import Prologue, TileAttention, TileContraction
from tilefoundry.ir.types import Dim, DType, TensorType, dim_vars

__all__ = ["verify_prim_function"]


def verify_prim_function(function: PrimFunction) -> None:
    """Check that every name is in scope where it is used, and that loads, stores and joins agree in kind.

    Raises:
        VerificationError: naming the function and what is wrong.
    """
    names = {param.name for param in function.params}
    if len(names) != len(function.params):
        raise VerificationError(f"{function.name}: two parameters of one name")
    if not 0 <= function.output_count <= len(function.params):
        raise VerificationError(
            f"{function.name}: {function.output_count} outputs of {len(function.params)} params"
        )
    types = (p.type for p in function.params if isinstance(p.type, TensorType))
    dims = {var.name for t in types for d in t.shape for var in dim_vars(d)}
    _Scope(function.name, names | dims, set()).stmts(function.body)


class _Scope:
    """Names visible at one point; accumulators apart, since only they may be joined into."""

    def __init__(self, owner: str, names: set[str], accumulators: set[str]) -> None:
        self._owner = owner
        self._names = names
        self._accumulators = accumulators

    def _inner(self, *names: Var) -> _Scope:
        return _Scope(self._owner, self._names | {n.name for n in names}, set(self._accumulators))

    def stmts(self, stmts: tuple[TirStmt, ...]) -> None:
        for stmt in stmts:
            self._stmt(stmt)

    def _stmt(self, stmt: TirStmt) -> None:
        check = _CHECKS.get(type(stmt))
        if check is not None:
            check(self, stmt)

    def let(self, stmt: Let) -> None:
        self.expr(stmt.value)
        self._define(stmt.target)

    def accumulator(self, stmt: Accumulator) -> None:
        self._define(stmt.target)
        self._accumulators.add(stmt.target.name)

    def accumulate(self, stmt: Accumulate) -> None:
        if stmt.target.name not in self._accumulators:
            self._fail(f"{stmt.target.name} is joined into but is no accumulator in scope")
        self.expr(stmt.value)

    def store(self, stmt: Store) -> None:
        self._buffer(stmt.buffer)
        self.dim(stmt.index)
        self.expr(stmt.value)

    def allocate(self, stmt: Allocate) -> None:
        self.dim(stmt.size)
        self._define(stmt.buffer)

    def loop(self, stmt: For) -> None:
        for dim in (stmt.start, stmt.stop, stmt.step):
            self.dim(dim)
        if stmt.kind != "serial":
            self._check_apart(stmt.body, f"the {stmt.kind} loop over {stmt.index.name}")
        self._inner(stmt.index).stmts(stmt.body)

    def parallel(self, stmt: Parallel) -> None:
        self.dim(stmt.extent)
        self.dim(stmt.cost)
        self._check_apart(stmt.body, "T.parallel")
        self._inner(stmt.begin, stmt.end).stmts(stmt.body)

    def repeat(self, stmt: While) -> None:
        self.expr(stmt.condition)
        self._inner().stmts(stmt.body)

    def branch(self, stmt: If) -> None:
        self.expr(stmt.condition)
        self._inner().stmts(stmt.then)
        self._inner().stmts(stmt.orelse)

    def mesh(self, stmt: MeshScope) -> None:
        self._inner().stmts(stmt.body)

    def evaluate(self, stmt: Evaluate | Launch) -> None:
        if isinstance(stmt, Evaluate) and stmt.op not in TILE_OPS:
            self._fail(f"there is no tile op {stmt.op!r}")
        for arg in stmt.args:
            self.expr(arg)

    def contraction(self, stmt: Contraction) -> None:
        for view in (stmt.lhs, stmt.rhs, stmt.destination):
            if isinstance(view, ComputedOperand):
                self._inner(view.target, *view.bounds).stmts(view.body)
            elif view is not None:
                self.expr(view)
        for dim in stmt.shape:
            self.dim(dim)
        block = (stmt.batch, stmt.row_begin, stmt.row_end, stmt.column_begin, stmt.column_end)
        self._inner(stmt.accumulator, stmt.pitch, *block).stmts(stmt.body)

    def tiles(self, stmt: TileContraction | TileAttention) -> None:
        try:
            check_tiles(stmt)
            check_body(stmt)
        except TypeError as error:
            self._fail(str(error))
        for operand in stmt.operands:
            self.expr(operand)
        for dim in stmt.shape:
            self.dim(dim)
        self._inner(*stmt.indices, *stmt.sums).stmts(stmt.body)

    def attention(self, stmt: TileAttention) -> None:
        if stmt.kv_len is not None:
            self.expr(stmt.kv_len)
        self.tiles(stmt)

    def _check_apart(self, body: tuple[TirStmt, ...], where: str) -> None:
        """Threads share a tile: none of them runs one on its own."""
        if any(isinstance(inner, (TileContraction, TileAttention)) for inner in walk_tir(body)):
            self._fail(
                f"T.contract and T.attention take all threads of a block, {where} gives each its own turns"
            )

    def dispatch(self, stmt: DispatchCall) -> None:
        self.expr(stmt.subject)
        for _, body in stmt.alternatives:
            self._inner().stmts(body)

    def slab(self, stmt: Slab) -> None:
        for sizes in stmt.slots:
            for size in sizes:
                self.dim(size)
        for buffer, slot in stmt.buffers:
            if not 0 <= slot < len(stmt.slots):
                self._fail(f"{buffer.name} lies in slot {slot} of {len(stmt.slots)}")
            self._define(buffer)

    def guard(self, stmt: Guard) -> None:
        self.dim(stmt.extent)
        self._inner(stmt.fault).stmts(stmt.body)

    def abort(self, stmt: Abort) -> None:
        self.expr(stmt.condition)

    def expr(self, expr: Expr) -> None:
        if isinstance(expr, Var):
            self._known(expr.name)
        elif isinstance(expr, IndexValue):
            self.dim(expr.value)
        elif isinstance(expr, Load):
            self._buffer(expr.buffer)
            self.dim(expr.index)
        elif isinstance(expr, BufferView):
            self._view(expr)
        elif isinstance(expr, Apply):
            self._apply(expr)
        elif isinstance(expr, Prologue):
            self._inner(*expr.indices).expr(expr.value)
        elif isinstance(expr, PointerOf):
            self._buffer(expr.buffer)
            self.dim(expr.offset)
        elif not isinstance(expr, (Constant, Verbatim)):
            self._fail(f"{type(expr).__name__} is no TIR expression")

    def _view(self, view: BufferView) -> None:
        self._buffer(view.buffer)
        assert isinstance(view.type, TensorType)
        for dim in (view.offset, *view.strides, *view.type.shape):
            self.dim(dim)
        if len(view.strides) != view.type.rank:
            self._fail(
                f"a view of {view.buffer.name} has {len(view.strides)} strides for rank {view.type.rank}"
            )

    def _apply(self, expr: Apply) -> None:
        known = SCALAR_OPS.get(expr.op)
        if known is None:
            self._fail(f"there is no scalar op {expr.op!r}")
        elif len(expr.args) != known.arity:
            self._fail(f"{expr.op} takes {known.arity} operands, got {len(expr.args)}")
        for arg in expr.args:
            self.expr(arg)

    def dim(self, dim: Dim) -> None:
        for var in dim_vars(dim):
            self._known(var.name)

    def _buffer(self, buffer: Var) -> None:
        self._known(buffer.name)
        if not isinstance(buffer.type, TensorType) or not isinstance(buffer.type.dtype, DType):
            self._fail(f"{buffer.name} is no buffer")

    def _define(self, var: Var) -> None:
        if var.name in self._names:
            self._fail(f"{var.name} is defined twice")
        self._names.add(var.name)

    def _known(self, name: str) -> None:
        if name not in self._names:
            self._fail(f"{name} is not in scope")

    def _fail(self, what: str) -> None:
        raise VerificationError(f"{self._owner}: {what}")


_CHECKS = {
    Let: _Scope.let,
    Accumulator: _Scope.accumulator,
    Accumulate: _Scope.accumulate,
    Store: _Scope.store,
    Allocate: _Scope.allocate,
    For: _Scope.loop,
    Parallel: _Scope.parallel,
    While: _Scope.repeat,
    If: _Scope.branch,
    MeshScope: _Scope.mesh,
    Evaluate: _Scope.evaluate,
    Launch: _Scope.evaluate,
    Contraction: _Scope.contraction,
    DispatchCall: _Scope.dispatch,
    Abort: _Scope.abort,
    Guard: _Scope.guard,
    Slab: _Scope.slab,
    TileContraction: _Scope.tiles,
    TileAttention: _Scope.attention,
}
