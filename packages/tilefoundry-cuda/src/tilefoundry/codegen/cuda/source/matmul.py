"""Text of one ``ops::matmul`` call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilefoundry.codegen.cpu.emit.scalars import dtype_name
from tilefoundry.codegen.cuda.statements import TileMatmul
from tilefoundry.ir.tir import BufferView
from tilefoundry.ir.types import Dim, TensorType
from tilefoundry.ir.types.dim import product

if TYPE_CHECKING:
    from tilefoundry.codegen.cuda.source.statements import DeviceEmitter

__all__ = ["write_matmul"]


def write_matmul(to: DeviceEmitter, stmt: TileMatmul) -> None:
    """Operands as gmem tensors, the place of each element as a tensor of addresses, the call with its epilogue.

    The result is never written through the runtime's own store: its view carries the batch number as its
    address, and the epilogue stores what the program asks for.
    """
    out = to.out
    out.line(f"auto const a_ = {_operand(to, stmt.lhs, stmt.batches)};")
    out.line(f"auto const b_ = {_operand(to, stmt.rhs, stmt.batches)};")
    rows, columns = to.dim(stmt.rows), to.dim(stmt.columns)
    if stmt.batches:
        shape = f"index_t({to.dim(product(stmt.batches))}), index_t({rows}), index_t({columns})"
        stride = "cute::_1{}, cute::_0{}, cute::_0{}"
    else:
        shape, stride = f"index_t({rows}), index_t({columns})", "cute::_0{}, cute::_0{}"
    layout = f"cute::make_layout(cute::make_shape({shape}), cute::make_stride({stride}))"
    out.line(f"auto place_ = as_gmem(static_cast<char*>(nullptr), {layout});")
    out.line(
        f"constexpr int bytes_ = ops::matmul_workspace_bytes<decltype(a_), decltype(b_), {stmt.threads}>();"
    )
    out.line("alignas(1024) __shared__ unsigned char workspace_[bytes_];")
    assert isinstance(stmt.total.type, TensorType)
    kind = dtype_name(stmt.total.type.dtype)
    head = "auto const store_ = [&](auto const& matrix_, int row_, int column_, auto sum_) {"
    with out.block(head, "};"):
        if stmt.batches:
            out.line(
                f"const index_t {to.name(stmt.batch)} = reinterpret_cast<index_t>(detail::raw(matrix_));"
            )
        out.line(f"const index_t {to.name(stmt.row)} = row_, {to.name(stmt.column)} = column_;")
        out.line(f"const {kind} {to.name(stmt.total)} = {kind}(sum_);")
        to.stmts(stmt.body)
    out.line("ops::matmul(a_, b_, place_, workspace_, store_);")


def _operand(to: DeviceEmitter, view: BufferView, batches: tuple[Dim, ...]) -> str:
    assert isinstance(view.type, TensorType)
    shape, strides = view.type.shape, view.strides
    modes = [_extent(to, dim) for dim in shape[-2:]]
    steps = [_stride(to, dim) for dim in strides[-2:]]
    # The last batch axis is the fastest; CuTe counts from the first mode.
    batch = list(zip(batches, strides[:-2], strict=True))[::-1]
    if len(batch) == 1:
        modes.insert(0, _extent(to, batch[0][0]))
        steps.insert(0, _stride(to, batch[0][1]))
    elif batch:
        modes.insert(0, f"cute::make_shape({', '.join(_extent(to, dim) for dim, _ in batch)})")
        steps.insert(0, f"cute::make_stride({', '.join(_stride(to, step) for _, step in batch)})")
    base = to.name(view.buffer)
    if view.offset != 0:
        base += f" + {to.dim(view.offset)}"
    layout = f"cute::make_layout(cute::make_shape({', '.join(modes)}), cute::make_stride({', '.join(steps)}))"
    return f"as_gmem({base}, {layout})"


def _extent(to: DeviceEmitter, dim: Dim) -> str:
    return f"index_t({to.dim(dim)})"


def _stride(to: DeviceEmitter, dim: Dim) -> str:
    return f"cute::Int<{dim}>{{}}" if dim in (0, 1) else f"index_t({to.dim(dim)})"
