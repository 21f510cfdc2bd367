"""C++ text of TIR statements."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tilefoundry.codegen.cpu.emit.lane_sums import LANES, lane_sum
from tilefoundry.codegen.cpu.emit.scalars import dim_text, dtype_name, expr_text, literal, view_text
from tilefoundry.codegen.cpu.emit.tile_calls import tile_call
from tilefoundry.codegen.identifiers import mangle
from tilefoundry.codegen.launch_paths import RANGE
from tilefoundry.codegen.writer import Writer
from tilefoundry.ir.core.expr import Expr, Var
from tilefoundry.ir.core.kinds import ReduceKind
from tilefoundry.ir.tir import (
    Abort,
    Accumulate,
    Accumulator,
    Allocate,
    BufferView,
    Comment,
    ComputedOperand,
    Contraction,
    Evaluate,
    For,
    Guard,
    If,
    Launch,
    Let,
    Parallel,
    Return,
    Store,
    TirStmt,
    While,
    compute_dtype,
    walk_tir,
)
from tilefoundry.ir.types import DType, TensorType

__all__ = ["StatementEmitter", "quoted", "write_range"]


def quoted(text: str) -> str:
    """A C++ string literal."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


@dataclass(slots=True)
class StatementEmitter:
    """Writes statements to ``out``.

    Attributes:
        out: where to.
        names: names of the program -> identifiers.
        vector: inside a loop that vectorises, whose accumulators it joins itself.
    """

    out: Writer
    names: Mapping[str, str]
    vector: bool = False

    def stmts(self, stmts: tuple[TirStmt, ...]) -> None:
        """All of ``stmts`` in order."""
        for stmt in stmts:
            _EMITTERS[type(stmt)](self, stmt)

    def expr(self, expr: Expr) -> str:
        """An expression's text."""
        return expr_text(expr, self.names)

    def name(self, var: Var) -> str:
        """A variable's identifier."""
        return self.names.get(var.name) or mangle(var.name)

    def _comment(self, stmt: Comment) -> None:
        self.out.comment(stmt.text)

    def _let(self, stmt: Let) -> None:
        self.out.line(
            f"const {_scalar_type(stmt.target)} {self.name(stmt.target)} = {self.expr(stmt.value)};"
        )

    def _accumulator(self, stmt: Accumulator) -> None:
        kind = _dtype(stmt.target)
        start = literal(_identity(stmt.kind, kind), kind)
        self.out.line(f"{dtype_name(kind)} {self.name(stmt.target)} = {start};")

    def _accumulate(self, stmt: Accumulate) -> None:
        target, value = self.name(stmt.target), self.expr(stmt.value)
        if stmt.kind in (ReduceKind.SUM, ReduceKind.MEAN):
            self.out.line(f"{target} += {value};")
            return
        if stmt.kind is ReduceKind.ABSMAX:
            value = f"ops::abs_op{{}}({value})"
        sign = "<" if stmt.kind is ReduceKind.MIN else ">"
        fresh = f"{target}_next_"
        if not self.vector:
            kind, op = dtype_name(_dtype(stmt.target)), f"ops::{stmt.kind.value}_op"
            self.out.line(f"{target} = {op}::join<{kind}>({target}, {value});")
            return
        if _dtype(stmt.target).is_float:
            value, target = f"{_key_function(stmt)}({value})", f"{target}_key_"
            self.out.line(f"const auto {fresh} = {value};")
        else:
            self.out.line(f"const {_scalar_type(stmt.target)} {fresh} = {value};")
        self.out.line(f"{target} = {fresh} {sign} {target} ? {fresh} : {target};")

    def _store(self, stmt: Store) -> None:
        element = f"{self.name(stmt.buffer)}[{dim_text(stmt.index, self.names)}]"
        dtype = _dtype(stmt.buffer)
        value = self.expr(stmt.value)
        same = isinstance(stmt.value.type, TensorType) and stmt.value.type.dtype is dtype
        self.out.line(
            f"{element} = {value};" if same else f"{element} = convert<{dtype_name(dtype)}>({value});"
        )

    def _allocate(self, stmt: Allocate) -> None:
        kind, name = dtype_name(_dtype(stmt.buffer)), self.name(stmt.buffer)
        if isinstance(stmt.size, int) and stmt.size <= 8192:
            self.out.line(f"alignas(64) {kind} {name}[{max(stmt.size, 1)}];")
        else:
            self.out.line(f"const Scratch<{kind}> {name}_memory_({dim_text(stmt.size, self.names)});")
            self.out.line(f"{kind}* const {name} = {name}_memory_;")

    def _for(self, stmt: For) -> None:
        total = lane_sum(stmt)
        if total is not None:
            self._lane_sum(stmt, total)
            return
        index = self.name(stmt.index)
        joins = list(_joins(stmt)) if stmt.kind == "vector" else []
        extremes = [
            j for j in joins if j.kind not in (ReduceKind.SUM, ReduceKind.MEAN) and _dtype(j.target).is_float
        ]
        for join in extremes:
            target = self.name(join.target)
            self.out.line(f"auto {target}_key_ = {_key_function(join)}({target});")
        if stmt.kind == "vector":
            self.out.directive(f"#pragma omp simd{self._reductions(joins, extremes)}")
        step = f"{index} += {dim_text(stmt.step, self.names)}" if stmt.step != 1 else f"++{index}"
        start, stop = dim_text(stmt.start, self.names), dim_text(stmt.stop, self.names)
        outside, self.vector = self.vector, self.vector or stmt.kind == "vector"
        with self.out.block(f"for (index_t {index} = {start}; {index} < {stop}; {step}) {{"):
            self.stmts(stmt.body)
        self.vector = outside
        for join in extremes:
            target = self.name(join.target)
            self.out.line(f"{target} = from_{_key_function(join)}({target}_key_);")

    def _lane_sum(self, loop: For, total: Accumulate) -> None:
        start, stop = dim_text(loop.start, self.names), dim_text(loop.stop, self.names)
        call = f"sum_in_lanes<{LANES}, {dtype_name(_dtype(total.target))}>({start}, {stop}, "
        head = f"{self.name(total.target)} += {call}[&](index_t {self.name(loop.index)}) TILEFOUNDRY_CHUNK {{"
        with self.out.block(head, "});"):
            self.stmts(loop.body[:-1])
            self.out.line(f"return {self.expr(total.value)};")

    def _reductions(self, joins: list[Accumulate], extremes: list[Accumulate]) -> str:
        groups: dict[str, list[str]] = {}
        for join in joins:
            operator = {"sum": "+", "mean": "+", "min": "min"}.get(join.kind.value, "max")
            suffix = "_key_" if join in extremes else ""
            groups.setdefault(operator, []).append(self.name(join.target) + suffix)
        return "".join(f" reduction({operator} : {', '.join(names)})" for operator, names in groups.items())

    def _parallel(self, stmt: Parallel) -> None:
        extent, cost = dim_text(stmt.extent, self.names), dim_text(stmt.cost, self.names)
        begin, end = self.name(stmt.begin), self.name(stmt.end)
        params = f"(index_t {begin}, index_t {end}) TILEFOUNDRY_CHUNK"
        head = f"parallel_for({extent}, {cost}, [{self._captures(stmt)}]{params} {{"
        with self.out.block(head, "});"):
            self.stmts(stmt.body)

    def _captures(self, stmt: TirStmt) -> str:
        """By value, so that loops keep what they read in registers; fault records by reference."""
        faults = dict.fromkeys(self.name(fault) for fault in _faults(stmt))
        return ", ".join(["=", *(f"&{fault}" for fault in faults)])

    def _guard(self, stmt: Guard) -> None:
        fault = self.name(stmt.fault)
        self.out.line(f"IndexFault {fault};")
        self.stmts(stmt.body)
        self.out.line(f"{fault}.check({quoted(stmt.op)}, {dim_text(stmt.extent, self.names)});")

    def _while(self, stmt: While) -> None:
        with self.out.block(f"while ({self.expr(stmt.condition)}) {{"):
            self.stmts(stmt.body)

    def _if(self, stmt: If) -> None:
        with self.out.block(f"if ({self.expr(stmt.condition)}) {{"):
            self.stmts(stmt.then)
        if stmt.orelse:
            with self.out.block("else {"):
                self.stmts(stmt.orelse)

    def _evaluate(self, stmt: Evaluate) -> None:
        call = tile_call(stmt, self.names)
        if call is None:
            args = [self.expr(arg) for arg in stmt.args] + [attr_text(value) for _, value in stmt.attrs]
            call = f"ops::{stmt.op}({', '.join(args)})"
        self.out.line(f"{call};")

    def _contraction(self, stmt: Contraction) -> None:
        whole = "true" if stmt.whole_rows else "false"
        kind = dtype_name(_dtype(stmt.accumulator))
        self._operand("lhs_", stmt.lhs)
        self._operand("rhs_", stmt.rhs)
        shape = ", ".join(dim_text(dim, self.names) for dim in stmt.shape)
        computed = any(isinstance(one, ComputedOperand) for one in (stmt.lhs, stmt.rhs))
        if stmt.destination is not None:
            self.out.line(f"const auto dst_ = {view_text(stmt.destination, self.names)};")
        elif computed:
            self.out.line(
                f"const auto dst_ = make_view<{len(stmt.shape)}>(static_cast<{kind}*>(nullptr), {{{shape}}});"
            )
        if computed:
            depth = dim_text(stmt.lhs.type.shape[-1], self.names)  # type: ignore[union-attr]  # a tensor
            call = f"ops::contract_computed<{whole}>(lhs_, rhs_, {depth}, dst_, "
        elif stmt.destination is not None:
            call = f"ops::contract<{whole}>(lhs_, rhs_, dst_, "
        else:
            call = f"ops::contract_in_scratch<{whole}, {kind}>(lhs_, rhs_, {{{shape}}}, "
        if not stmt.body:
            self.out.line(f"{call}ops::no_epilogue{{}});")
            return
        block = (stmt.batch, stmt.row_begin, stmt.row_end, stmt.column_begin, stmt.column_end)
        params = ", ".join(f"index_t {self.name(var)}" for var in (stmt.pitch, *block))
        head = f"{call}[{self._captures(stmt)}]({kind}* {self.name(stmt.accumulator)}, {params}) {{"
        with self.out.block(head, "});"):
            self.stmts(stmt.body)

    def _operand(self, name: str, operand: BufferView | ComputedOperand) -> None:
        """The operand under ``name``: a view, or what computes a rectangle of it."""
        if isinstance(operand, BufferView):
            self.out.line(f"const auto {name} = {view_text(operand, self.names)};")
            return
        kind = dtype_name(_dtype(operand.target))
        flags = ", ".join("true" if flag else "false" for flag in (operand.shared, operand.along_rows))
        params = ", ".join(f"index_t {self.name(var)}" for var in operand.bounds)
        head = f"const auto {name} = ops::computed<{kind}, {flags}>([=]({kind}* {self.name(operand.target)}, {params}) "
        with self.out.block(f"{head}TILEFOUNDRY_CHUNK {{", f"}}, {operand.cost});"):
            self.stmts(operand.body)

    def _launch(self, stmt: Launch) -> None:
        call = f"{kernel_name(stmt.callee)}({', '.join(self.expr(arg) for arg in stmt.args)});"
        shown = dict(stmt.attributes).get(RANGE)
        if shown is None:
            self.out.line(call)
            return
        with self.out.block("{"):
            write_range(self.out, shown)
            self.out.line(call)

    def _abort(self, stmt: Abort) -> None:
        message = quoted(stmt.message)
        self.out.line(f"if ({self.expr(stmt.condition)}) host::fail({quoted(stmt.kind)}, {message});")

    def _return(self, stmt: Return) -> None:
        self.out.line("return;")


def write_range(out: Writer, name: str) -> None:
    """Show the rest of the block under ``name`` in profilers."""
    out.line(f"const host::Range range_({quoted(name)});")


def kernel_name(name: str) -> str:
    """The C++ name of a kernel; kernels live in a namespace of their own, so only the characters matter."""
    return "kernels::" + mangle(f"kernel_{name}")


def attr_text(value: Any) -> str:
    """A compile-time argument of a whole-tensor op."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value)


def _dtype(var: Var) -> DType:
    assert isinstance(var.type, TensorType)
    return var.type.dtype


def _scalar_type(var: Var) -> str:
    kind = compute_dtype(_dtype(var))
    return "index_t" if kind is DType.i64 else dtype_name(kind)


def _identity(kind: ReduceKind, dtype: DType) -> float | int:
    if kind in (ReduceKind.SUM, ReduceKind.MEAN):
        return 0
    top: float | int = float("inf") if dtype.is_float else 2**63 - 1
    if kind is ReduceKind.MIN:
        return top
    return -top if dtype.is_float else -(2**63)


def _key_function(stmt: Accumulate) -> str:
    """Floats are compared by keys: see runtime/cpu/order.h."""
    return "key_for_min" if stmt.kind is ReduceKind.MIN else "key_for_max"


def _joins(loop: For) -> Iterator[Accumulate]:
    for stmt in walk_tir(loop.body):
        if isinstance(stmt, Accumulate):
            yield stmt


def _faults(stmt: TirStmt) -> Iterator[Var]:
    for inner in walk_tir((stmt,)):
        if isinstance(inner, Let) and getattr(inner.value, "op", None) == "bounded":
            yield dict(inner.value.attrs)["fault"]  # type: ignore[attr-defined]  # an Apply


_EMITTERS: dict[type, Callable[[StatementEmitter, Any], None]] = {
    Comment: StatementEmitter._comment,
    Let: StatementEmitter._let,
    Accumulator: StatementEmitter._accumulator,
    Accumulate: StatementEmitter._accumulate,
    Store: StatementEmitter._store,
    Allocate: StatementEmitter._allocate,
    For: StatementEmitter._for,
    Parallel: StatementEmitter._parallel,
    Guard: StatementEmitter._guard,
    While: StatementEmitter._while,
    If: StatementEmitter._if,
    Evaluate: StatementEmitter._evaluate,
    Contraction: StatementEmitter._contraction,
    Launch: StatementEmitter._launch,
    Abort: StatementEmitter._abort,
    Return: StatementEmitter._return,
}
