"""Text of one ``ops::matmul`` call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilefoundry.codegen.cpu.emit.scalars import dtype_name
from tilefoundry.codegen.cuda.statements import TileMatmul, TilePair
from tilefoundry.ir.tir import BufferView
from tilefoundry.ir.types import Dim, TensorType
from tilefoundry.ir.types.dim import product

if TYPE_CHECKING:
    from tilefoundry.codegen.cuda.source.statements import DeviceEmitter

__all__ = ["FETCHING", "PRODUCT_WRITERS", "extent_text", "operand_text", "shared_symbol", "write_matmul"]


FETCHING = 288
"""Threads of a block whose tiles take more shared memory than a static array holds."""


def shared_symbol(kernel: str) -> str:
    """The symbol whose size tells the host how many KiB of shared memory a launch of ``kernel`` takes."""
    return f"{kernel}_shared_kib"


def write_matmul(to: DeviceEmitter, stmt: TileMatmul) -> None:
    """Operands as gmem tensors, the place of each element as a tensor of addresses, the call with its epilogue.

    The result is never written through the runtime's own store: its view carries the batch number as its
    address, and the epilogue stores what the program asks for.
    """
    out = to.out
    out.line(f"auto const a_ = {operand_text(to, stmt.lhs, stmt.batches)};")
    out.line(f"auto const b_ = {operand_text(to, stmt.rhs, stmt.batches)};")
    _write_place(to, stmt)
    if stmt.threads == FETCHING:
        out.line("TILEFOUNDRY_DYNAMIC_SHARED(workspace_);")
    else:
        sizes = f"decltype(a_), decltype(b_), {stmt.threads}"
        out.line(f"constexpr int bytes_ = ops::matmul_workspace_bytes<{sizes}>();")
        out.line("alignas(1024) __shared__ unsigned char workspace_[bytes_];")
    _write_store(to, stmt, "")
    wide = [to.aligned(buffer, offset, stmt.width) for buffer, offset in stmt.packs]
    wide += [f"({to.dim(dim)}) % {stmt.width} == 0" for dim in stmt.multiples]
    allowed = " && ".join(wide) if wide and stmt.width > 1 else "false"
    out.line(f"const bool wide_ = {allowed};")
    out.line(
        f"ops::matmul(a_, b_, place_, workspace_, ops::make_packed_epilogue<{stmt.width}>(store_, wide_));"
    )


def write_pair(to: DeviceEmitter, stmt: TilePair) -> None:
    """The operands, both epilogues, and the one call."""
    one, two = stmt.first, stmt.second
    out = to.out
    out.line(f"auto const a_ = {operand_text(to, one.lhs, one.batches)};")
    out.line(f"auto const b_ = {operand_text(to, one.rhs, one.batches)};")
    out.line(f"auto const c_ = {operand_text(to, two.rhs, two.batches)};")
    _write_place(to, one)
    _write_store(to, one, "first_")
    _write_store(to, two, "second_")
    done = (f"ops::make_packed_epilogue<1>({name}store_, false)" for name in ("first_", "second_"))
    out.line(f"ops::matmul_pair(a_, b_, c_, place_, {', '.join(done)});")


def _write_place(to: DeviceEmitter, stmt: TileMatmul) -> None:
    rows, columns = extent_text(to, stmt.rows), extent_text(to, stmt.columns)
    if stmt.batches:
        shape = f"index_t({to.dim(product(stmt.batches))}), {rows}, {columns}"
        stride = "cute::_1{}, cute::_0{}, cute::_0{}"
    else:
        shape, stride = f"{rows}, {columns}", "cute::_0{}, cute::_0{}"
    layout = f"cute::make_layout(cute::make_shape({shape}), cute::make_stride({stride}))"
    to.out.line(f"auto place_ = as_gmem(static_cast<char*>(nullptr), {layout});")


def _write_store(to: DeviceEmitter, stmt: TileMatmul, name: str) -> None:
    """The epilogue as a function."""
    head = f"auto const {name}store_ = [&](auto const& matrix_, int row_, int column_, auto const& sums_) {{"
    with to.out.block(head, "};"):
        _write_epilogue(to, stmt)


def _write_epilogue(to: DeviceEmitter, stmt: TileMatmul) -> None:
    line = to.out.line
    line("constexpr int V_ = sizeof(sums_.value) / sizeof(sums_.value[0]);")
    if stmt.batches:
        line(f"const index_t {to.name(stmt.batch)} = reinterpret_cast<index_t>(detail::raw(matrix_));")
    line(f"const index_t {to.name(stmt.row)} = row_, {to.name(stmt.first)} = column_;")
    to.stmts(stmt.head)
    to.declare_packs(stmt.loads, load=True)
    to.declare_packs(stmt.stores, load=False)
    assert isinstance(stmt.total.type, TensorType)
    kind = dtype_name(stmt.total.type.dtype)
    slot = to.name(stmt.slot)
    line("CUTE_UNROLL")
    with to.out.block(f"for (int {slot} = 0; {slot} < V_; ++{slot}) {{"):
        line(f"const index_t {to.name(stmt.element)} = {to.name(stmt.first)} + {slot};")
        line(f"const {kind} {to.name(stmt.total)} = {kind}(sums_.value[{slot}]);")
        to.stmts(stmt.body)
    to.write_packs(stmt.stores)


def operand_text(to: DeviceEmitter, view: BufferView, batches: tuple[Dim, ...]) -> str:
    """An operand in memory as a gmem tensor of two modes, or three with the batches first."""
    assert isinstance(view.type, TensorType)
    shape, strides = view.type.shape, view.strides
    modes = [extent_text(to, dim) for dim in shape[-2:]]
    steps = [_stride(to, dim) for dim in strides[-2:]]
    # The last batch axis is the fastest; CuTe counts from the first mode.
    batch = list(zip(batches, strides[:-2], strict=True))[::-1]
    if len(batch) == 1:
        modes.insert(0, extent_text(to, batch[0][0]))
        steps.insert(0, _stride(to, batch[0][1]))
    elif batch:
        modes.insert(0, f"cute::make_shape({', '.join(extent_text(to, dim) for dim, _ in batch)})")
        steps.insert(0, f"cute::make_stride({', '.join(_stride(to, step) for _, step in batch)})")
    base = to.name(view.buffer)
    if view.offset != 0:
        base += f" + {to.dim(view.offset)}"
    layout = f"cute::make_layout(cute::make_shape({', '.join(modes)}), cute::make_stride({', '.join(steps)}))"
    return f"as_gmem({base}, {layout})"


def extent_text(to: DeviceEmitter, dim: Dim) -> str:
    """A static extent is a type, from which the runtime chooses its tiles."""
    if isinstance(dim, int) and dim < 2**31:
        return f"cute::Int<{dim}>{{}}"
    return f"index_t({to.dim(dim)})"


def _stride(to: DeviceEmitter, dim: Dim) -> str:
    return f"cute::Int<{dim}>{{}}" if dim in (0, 1) else f"index_t({to.dim(dim)})"


PRODUCT_WRITERS = {TileMatmul: write_matmul, TilePair: write_pair}
