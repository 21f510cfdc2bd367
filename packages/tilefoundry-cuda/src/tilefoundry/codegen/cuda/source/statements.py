"""CUDA text of TIR statements and of those that only CUDA kernels have."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from tilefoundry.codegen.cpu.emit.scalars import dim_text, dtype_name, expr_text
from tilefoundry.codegen.cpu.emit.statements import StatementEmitter, attr_text, quoted
from tilefoundry.codegen.cuda.source.combine import REDUCE_OPS, write_combine
from tilefoundry.codegen.cuda.source.matmul import PRODUCT_WRITERS
from tilefoundry.codegen.cuda.source.products import register_name, write_products
from tilefoundry.codegen.cuda.source.tile_attention import write_attention
from tilefoundry.codegen.cuda.source.tile_joins import JOIN_WRITERS
from tilefoundry.codegen.cuda.source.tiles import TILE_WRITERS
from tilefoundry.codegen.cuda.statements import (
    Combine,
    EarlyStart,
    Pack,
    PackByte,
    Packs,
    RegisterArray,
    TileAttend,
    TileProducts,
    WidePath,
)
from tilefoundry.codegen.writer import Writer
from tilefoundry.ir.core.expr import Expr, Var
from tilefoundry.ir.core.kinds import ReduceKind
from tilefoundry.ir.tir import (
    Abort,
    Accumulate,
    Accumulator,
    Comment,
    Evaluate,
    For,
    Guard,
    If,
    Let,
    MeshScope,
    Return,
    Store,
    TirStmt,
    While,
)
from tilefoundry.ir.types import DType, TensorType

__all__ = ["DeviceEmitter"]

_FIXED = {"pack_width_": "V_", "pack_piece_": "piece_"}
_ACCESS_BYTES = 16
_FAST = re.compile(r"ops::((?:exp|sigmoid|silu|gelu_tanh)_op)\{\}")


class DeviceEmitter(StatementEmitter):
    """Writes a kernel's statements. Not thread-safe; one per kernel.

    ``narrow`` says that every float that the kernel stores has at most 16 bits: then transcendental functions
    take the chip's short forms, whose error is far below the last place of what is stored. ``written`` names the
    buffers that the kernel stores to: they are never read past the caches that see its writes.
    """

    __slots__ = ("_registers", "_rereads", "_staged", "narrow", "written")

    def __init__(self, out: Writer, *, narrow: bool = False, written: Collection[str] = ()) -> None:
        super().__init__(out, dict(_FIXED))
        self.written = written
        self._registers: set[str] = set()
        self._staged, self._rereads = 0, False
        self.narrow = narrow

    def stmts(self, stmts: tuple[TirStmt, ...]) -> None:
        """All of ``stmts`` in order."""
        for stmt in stmts:
            _EMITTERS[type(stmt)](self, stmt)

    def expr(self, expr: Expr) -> str:
        """An expression's text; the standard library of device code is reached through ``stdx``."""
        if isinstance(expr, PackByte):
            return f"detail::byte_as_float({register_name(expr.pack)}, {self.dim(expr.slot)})"
        text = expr_text(expr, self.names).replace("std::numeric_limits", "stdx::numeric_limits")
        return _FAST.sub(r"ops::approximate<ops::\1>{}", text) if self.narrow else text

    def dim(self, dim: Any) -> str:
        """A dim's text."""
        return dim_text(dim, self.names)

    def _accumulator(self, stmt: Accumulator) -> None:
        kind = dtype_name(_dtype(stmt.target))
        start = f"{REDUCE_OPS[stmt.kind]}::identity<{kind}>()"
        self.out.line(f"{kind} {self.name(stmt.target)} = {start};")

    def _accumulate(self, stmt: Accumulate) -> None:
        target, value = self.name(stmt.target), self.expr(stmt.value)
        if stmt.kind is ReduceKind.ABSMAX:
            value = f"ops::abs_op{{}}({value})"
        self.out.line(f"{target} = {REDUCE_OPS[stmt.kind]}::join({target}, {value});")

    def _for(self, stmt: For) -> None:
        index = self.name(stmt.index)
        if isinstance(stmt.start, int) and isinstance(stmt.stop, int) and stmt.kind == "vector":
            self.out.line("CUTE_UNROLL")
        step = f"{index} += {self.dim(stmt.step)}" if stmt.step != 1 else f"++{index}"
        start, stop = self.dim(stmt.start), self.dim(stmt.stop)
        with self.out.block(f"for (index_t {index} = {start}; {index} < {stop}; {step}) {{"):
            self.stmts(stmt.body)

    def _guard(self, stmt: Guard) -> None:
        self.out.line(f"const IndexFault {self.name(stmt.fault)}{{{quoted(stmt.op)}}};")
        self.stmts(stmt.body)

    def _abort(self, stmt: Abort) -> None:
        self.out.line(f"if ({self.expr(stmt.condition)}) device_fail({quoted(stmt.message)});")

    def _mesh(self, stmt: MeshScope) -> None:
        self.out.comment(f"with {stmt.mesh} as {stmt.name}:")
        self.stmts(stmt.body)

    def _evaluate(self, stmt: Evaluate) -> None:
        args = [self.expr(arg) for arg in stmt.args] + [attr_text(value) for _, value in stmt.attrs]
        if stmt.op == "grouped_matmul":
            left, right = (dtype_name(_dtype(arg.buffer)) for arg in stmt.args[:2])  # type: ignore[attr-defined]  # views
            self.out.line(
                f"using Tier_ = decltype(ops::matmul_impl::select_tier<{left}, {right}, program_threads>());"
            )
            self.out.line("alignas(1024) __shared__ unsigned char workspace_[Tier_::bytes];")
            args.append("workspace_")
        self.out.line(f"ops::{stmt.op}({', '.join(args)});")

    def _early(self, stmt: EarlyStart) -> None:
        self.out.comment("placed beside the last blocks of the launch before")

    def _wide(self, stmt: WidePath) -> None:
        if stmt.width == 1:
            self.out.line("constexpr int V_ = 1;")
            self.stmts(stmt.narrow or stmt.body)
            return
        with self.out.block("auto const body_ = [&](auto width_) {", "};"):
            self.out.line("constexpr int V_ = decltype(width_)::value;")
            self.stmts(stmt.body)
        checks = [self.aligned(buffer, offset, stmt.width) for buffer, offset in stmt.packs]
        checks += [f"({self.dim(dim)}) % {stmt.width} == 0" for dim in stmt.multiples]
        with self.out.block(f"if ({' && '.join(checks)}) {{"):
            self.out.line(f"body_(cute::Int<{stmt.width}>{{}});")
        with self.out.block("else {"):
            if stmt.narrow:
                self.out.line("constexpr int V_ = 1;")
                self.stmts(stmt.narrow)
            else:
                self.out.line("body_(cute::Int<1>{});")

    def aligned(self, buffer: Var, offset: Any, width: int) -> str:
        """Whether packs of ``width`` elements may start at an offset of a buffer."""
        size = min(_dtype(buffer).itemsize * width, _ACCESS_BYTES)
        place = self.name(buffer) + (f" + {self.dim(offset)}" if offset != 0 else "")
        return f"detail::is_aligned<{size}>({place})"

    def _array(self, stmt: RegisterArray) -> None:
        kind, name = dtype_name(_dtype(stmt.buffer)), self.name(stmt.buffer)
        count = self.dim(stmt.elements)
        self._registers.add(stmt.buffer.name)
        self.out.line(f"{kind} {name}[{count}];")
        if stmt.value is not None:
            self.out.line("CUTE_UNROLL")
            self.out.line(f"for (int i_ = 0; i_ < {count}; ++i_) {name}[i_] = {self.expr(stmt.value)};")

    def _packs(self, stmt: Packs) -> None:
        self._rereads = stmt.rereads
        if stmt.elements is None:
            self._turns(stmt)
        else:
            self._pieces(stmt, stmt.elements)

    def _pieces(self, stmt: Packs, elements: int) -> None:
        """All loads from memory first, so that they are under way together; then the body pack by pack. What other
        threads read too comes out of a cache and would only hold registers; so would packs of one element."""
        if stmt.staged:
            self._pieces_staged(stmt, elements)
            return
        if stmt.again:
            self._pieces_together(stmt, elements)
            return
        with self.out.block("if constexpr (V_ > 1) {"):
            self._pieces_together(stmt, elements)
        with self.out.block("else {"):
            self.out.line("CUTE_NO_UNROLL")
            self._pieces_one_by_one(stmt, elements, stmt.loads)

    def _pieces_together(self, stmt: Packs, elements: int) -> None:
        for var in stmt.held:
            self.out.line("CUTE_UNROLL")
            self.out.line(f"for (auto& held_ : {register_name(var)}) detail::stay_packed(held_);")
        first = [pack for pack in stmt.loads if pack.once]
        early = (*first, *stmt.ahead)
        for pack in early:
            self._register(pack, "[piece_].value")
            self.out.line(f"{self._pack_type(pack)} {_pack_name(pack)}[{elements} / V_];")
        if first:
            self.out.line("CUTE_UNROLL")
            with self.out.block(f"for (int piece_ = 0; piece_ < {elements} / V_; ++piece_) {{"):
                self._first(stmt)
                with _Guarded(self, stmt):
                    for pack in first:
                        self._load(pack, "[piece_]")
                    for pack in stmt.ahead:
                        self.out.line(
                            f"{_pack_name(pack)}[piece_] = detail::load_early({self._source(pack)});"
                        )
        self.out.line("CUTE_UNROLL")
        self._pieces_one_by_one(stmt, elements, [pack for pack in stmt.loads if pack not in first])

    def _pieces_staged(self, stmt: Packs, elements: int) -> None:
        """The row goes to shared memory as a whole, asynchronously; every pass takes its packs from there."""
        fetched = [pack for pack in stmt.loads if pack.once]
        for pack in fetched:
            self._stage(pack, stmt, elements)
        if fetched:
            self.out.line("CUTE_UNROLL")
            with self.out.block(f"for (int piece_ = 0; piece_ < {elements} / V_; ++piece_) {{"):
                self._first(stmt)
                with _Guarded(self, stmt):
                    for pack in fetched:
                        self.out.line(f"{_stage_name(pack.name)}.fetch(piece_, {self._source(pack)});")
            self.out.line("ops::cp_async_commit();")
            self.out.line("ops::cp_async_wait();")
        self.out.line("CUTE_UNROLL")
        with self.out.block(f"for (int piece_ = 0; piece_ < {elements} / V_; ++piece_) {{"):
            self._first(stmt)
            with _Guarded(self, stmt):
                for var in (*stmt.held, *(pack.name for pack in fetched)):
                    self.out.line(f"auto const {register_name(var)} = {_stage_name(var)}[piece_];")
                    self.names[var.name] = f"{register_name(var)}.value"  # type: ignore[index]  # a dict
                self.declare_packs([pack for pack in stmt.loads if pack not in fetched], load=True)
                self._elements(stmt)

    def _stage(self, pack: Pack, stmt: Packs, elements: int) -> None:
        """Where the packs of a row wait, behind those before them."""
        if self._staged == 0:
            self.out.line("TILEFOUNDRY_DYNAMIC_SHARED(stage_);")
        kind = f"ops::StagedPacks<{self._pack_type(pack)}, {stmt.threads}>"
        place = f"stage_ + {self._staged}" if self._staged else "stage_"
        self.out.line(f"const {kind} {_stage_name(pack.name)}({place}, {self.name(stmt.lane)});")
        self._staged += _dtype(pack.name).itemsize * stmt.threads * elements

    def _pieces_one_by_one(self, stmt: Packs, elements: int, loads: Sequence[Pack]) -> None:
        with self.out.block(f"for (int piece_ = 0; piece_ < {elements} / V_; ++piece_) {{"):
            self._first(stmt)
            with _Guarded(self, stmt):
                self.declare_packs(loads, load=True)
                self._elements(stmt)

    def _turns(self, stmt: Packs) -> None:
        first, lane = self.name(stmt.first), self.name(stmt.lane)
        start = "" if stmt.start == 0 else f"{self.dim(stmt.start)} + "
        bound = f"{first} < {self.dim(stmt.stop)}"
        head = f"for (index_t {first} = {start}{lane} * V_; {bound}; {first} += {stmt.threads} * V_) {{"
        with self.out.block(head):
            self.declare_packs(stmt.loads, load=True)
            self._elements(stmt)

    def _first(self, stmt: Packs) -> None:
        start = "" if stmt.start == 0 else f"{self.dim(stmt.start)} + "
        lane = self.name(stmt.lane)
        self.out.line(
            f"const index_t {self.name(stmt.first)} = {start}(piece_ * {stmt.threads} + {lane}) * V_;"
        )

    def _elements(self, stmt: Packs) -> None:
        self.declare_packs(stmt.stores, load=False)
        self.out.line("CUTE_UNROLL")
        slot = self.name(stmt.slot)
        with self.out.block(f"for (int {slot} = 0; {slot} < V_; ++{slot}) {{"):
            self.out.line(f"const index_t {self.name(stmt.element)} = {self.name(stmt.first)} + {slot};")
            self._body(stmt)
        if stmt.stores and stmt.mask is not None:
            with self.out.block(f"if ({self.name(stmt.mask)}) {{"):
                self.write_packs(stmt.stores)
        else:
            self.write_packs(stmt.stores)

    def _body(self, stmt: Packs) -> None:
        """Statements for one element; a store past the packs is masked like theirs."""
        registers = {pack.name.name for pack in stmt.stores}
        for inner in stmt.body:
            masked = isinstance(inner, Store) and inner.buffer.name not in registers and stmt.mask is not None
            if masked and inner.buffer.name not in self._registers:  # type: ignore[union-attr]  # a Store
                with self.out.block(f"if ({self.expr(stmt.mask)}) {{"):  # type: ignore[arg-type]  # not None
                    self.stmts((inner,))
            else:
                self.stmts((inner,))

    def declare_packs(self, packs: Iterable[Pack], *, load: bool) -> None:
        """Registers of packs, filled from memory where ``load`` says so."""
        for pack in packs:
            self._register(pack, ".value")
            self.out.line(f"{self._pack_type(pack)} {_pack_name(pack)};")
            if load:
                self._load(pack, "")

    def write_packs(self, packs: Iterable[Pack]) -> None:
        """Packs to memory."""
        for pack in packs:
            kind = self._pack_type(pack)
            place = f"reinterpret_cast<{kind}*>({self.name(pack.buffer)} + {self.dim(pack.index)})"
            own = _pack_name(pack)
            self.out.line(
                f"detail::store_streaming({place}, {own});"
                if pack.once and self._rereads
                else f"*{place} = {own};"
            )

    def _register(self, pack: Pack, suffix: str) -> None:
        assert isinstance(self.names, dict)
        self.names[pack.name.name] = _pack_name(pack) + suffix

    def _pack_type(self, pack: Pack) -> str:
        return f"detail::Pack<{dtype_name(_dtype(pack.name))}, V_>"

    def _load(self, pack: Pack, place: str) -> None:
        source = self._source(pack)
        last = pack.once and self._rereads and pack.buffer.name not in self.written
        value = f"detail::load_streaming({source})" if last else f"*{source}"
        self.out.line(f"{_pack_name(pack)}{place} = {value};")

    def _source(self, pack: Pack) -> str:
        return f"reinterpret_cast<{self._pack_type(pack)} const*>({self.name(pack.buffer)} + {self.dim(pack.index)})"

    def _combine(self, stmt: Combine) -> None:
        write_combine(self, stmt)

    def _attention(self, stmt: TileAttend) -> None:
        write_attention(self, stmt)

    def _products(self, stmt: TileProducts) -> None:
        write_products(self, stmt)


class _Guarded:
    """``if (first < stop) { ... }`` where a pack may lie outside."""

    def __init__(self, emitter: DeviceEmitter, stmt: Packs) -> None:
        self._block = None
        if not stmt.exact:
            head = f"if ({emitter.name(stmt.first)} < {emitter.dim(stmt.stop)}) {{"
            self._block = emitter.out.block(head)

    def __enter__(self) -> None:
        if self._block is not None:
            self._block.__enter__()

    def __exit__(self, *error: Any) -> None:
        if self._block is not None:
            self._block.__exit__(*error)


def _stage_name(var: Var) -> str:
    return f"{register_name(var)}stage_"


def _pack_name(pack: Pack) -> str:
    return register_name(pack.name)


def _dtype(var: Any) -> DType:
    assert isinstance(var.type, TensorType)
    return var.type.dtype


_EMITTERS: dict[type, Callable[[Any, Any], None]] = {
    Abort: DeviceEmitter._abort,
    Accumulate: DeviceEmitter._accumulate,
    Accumulator: DeviceEmitter._accumulator,
    Combine: DeviceEmitter._combine,
    Comment: StatementEmitter._comment,
    EarlyStart: DeviceEmitter._early,
    Evaluate: DeviceEmitter._evaluate,
    For: DeviceEmitter._for,
    Guard: DeviceEmitter._guard,
    If: StatementEmitter._if,
    Let: StatementEmitter._let,
    MeshScope: DeviceEmitter._mesh,
    Packs: DeviceEmitter._packs,
    RegisterArray: DeviceEmitter._array,
    Return: StatementEmitter._return,
    Store: StatementEmitter._store,
    TileAttend: DeviceEmitter._attention,
    TileProducts: DeviceEmitter._products,
    While: StatementEmitter._while,
    WidePath: DeviceEmitter._wide,
    **JOIN_WRITERS,
    **PRODUCT_WRITERS,
    **TILE_WRITERS,
}
