"""The whole source of a CPU library."""

from __future__ import annotations

from tilefoundry.codegen.cpu.emit.entry import EntryEmitter
from tilefoundry.codegen.cpu.emit.scalars import dtype_name
from tilefoundry.codegen.cpu.emit.statements import StatementEmitter, kernel_name
from tilefoundry.codegen.cpu.inplace import INPLACE
from tilefoundry.codegen.identifiers import mangle
from tilefoundry.codegen.launch_paths import RANGE
from tilefoundry.codegen.writer import Writer
from tilefoundry.ir.core.expr import Var
from tilefoundry.ir.core.module import Module
from tilefoundry.ir.passes import PARAM_PATHS
from tilefoundry.ir.tir import (
    TILE_OPS,
    BufferView,
    Contraction,
    Evaluate,
    PrimFunction,
    Store,
    TirStmt,
    walk_tir,
)
from tilefoundry.ir.types import DType, TensorType

__all__ = ["emit_kernel", "emit_module"]


def emit_module(module: Module) -> str:
    """C++17 of a lowered module: kernels, then the entry. It includes the runtime's umbrella header alone."""
    entry = module.entry_function()
    assert isinstance(entry, PrimFunction)
    out = Writer()
    out.comment(f"{module.name}.{entry.name}, compiled by TileFoundry for the CPU.")
    out.line("#include <tilefoundry/runtime.h>")
    out.line()
    out.line("namespace tilefoundry {")
    out.line("namespace {")
    out.line("namespace kernels {")
    for function in module.functions:
        if function is not entry:
            assert isinstance(function, PrimFunction)
            out.line()
            emit_kernel(function, out)
    out.line()
    out.line("}  // namespace kernels")
    out.line()
    inplace = module.metadata.get(INPLACE, ())
    shown = module.metadata.get(RANGE)
    EntryEmitter(out, entry, module.metadata[PARAM_PATHS], inplace=inplace, range=shown).write()
    return out.text()


def emit_kernel(function: PrimFunction, out: Writer) -> None:
    """One kernel as a function."""
    written = written_buffers(function.body)
    params = ", ".join(_param(param, param.name in written) for param in function.params)
    name = kernel_name(function.name).removeprefix("kernels::")
    with out.block(f"void {name}({params}) {{"):
        StatementEmitter(out, {}).stmts(function.body)


def written_buffers(body: tuple[TirStmt, ...]) -> set[str]:
    """Names of the buffers that the statements store to."""
    written: set[str] = set()
    for stmt in walk_tir(body):
        if isinstance(stmt, Store):
            written.add(stmt.buffer.name)
        elif isinstance(stmt, Contraction) and stmt.destination is not None:
            written.add(stmt.destination.buffer.name)
        elif isinstance(stmt, Evaluate):
            writes = TILE_OPS[stmt.op].writes
            views = [arg for arg in stmt.args if isinstance(arg, BufferView)]
            written.update(view.buffer.name for view in views[len(views) - writes :])
    return written


def _param(param: Var, written: bool) -> str:
    assert isinstance(param.type, TensorType)
    if param.type.dtype is DType.i64 and _is_extent(param):
        return f"const index_t {mangle(param.name)}"
    kind = dtype_name(param.type.dtype)
    return f"{'' if written else 'const '}{kind}* const {mangle(param.name)}"


def _is_extent(param: Var) -> bool:
    return bool(param.is_const)
