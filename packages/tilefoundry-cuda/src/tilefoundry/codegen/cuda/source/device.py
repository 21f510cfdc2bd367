"""The device text of a library: one image per number of threads in a block."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard

from tilefoundry.codegen.cpu.emit.scalars import dtype_name
from tilefoundry.codegen.cpu.emit.source import written_buffers
from tilefoundry.codegen.cuda.joined import ClusterMeeting, JoinedWork, parts_of
from tilefoundry.codegen.cuda.source.launch_order import overlaps
from tilefoundry.codegen.cuda.source.matmul import FETCHING, shared_symbol
from tilefoundry.codegen.cuda.source.statements import DeviceEmitter
from tilefoundry.codegen.cuda.source.tile_attention import attends_in_turns, shared_size_text
from tilefoundry.codegen.cuda.statements import (
    Combine,
    Packs,
    TileAttend,
    TileMatmul,
    TileProducts,
    inner_statements,
)
from tilefoundry.codegen.cuda.tiles import TileAsync, TileMma, TileReduce, TileShared, TileSync, dtype_of
from tilefoundry.codegen.identifiers import mangle
from tilefoundry.codegen.writer import Writer
from tilefoundry.ir.core.expr import Var
from tilefoundry.ir.tir import Accumulator, Comment, Evaluate, MeshScope, PrimFunction
from tilefoundry.ir.types import DType, TensorType

__all__ = [
    "device_source",
    "emit_kernel",
    "meets_in_turns",
    "symbol_of",
    "takes_dynamic_shared",
    "takes_turns",
    "used_features",
]


_FEATURES = {"grouped_matmul": "GROUPED", "attention": "ATTENTION"}
"""Part of the runtime that holds a whole-tensor op, where it is not the one of strided views."""

_SEVERAL_COLUMNS = 8192
"""From so many columns on a warp of a product of one row takes several."""


def symbol_of(name: str) -> str:
    """The symbol of a kernel."""
    return mangle(f"kernel_{name}")


def used_features(kernels: Sequence[PrimFunction]) -> tuple[str, ...]:
    """Parts of the runtime that the kernels call."""
    found = {"ELEMENTWISE"}
    for kernel in kernels:
        for stmt in inner_statements(kernel.body):
            if isinstance(stmt, Packs) and stmt.staged:
                found.add("ASYNC")
            elif isinstance(stmt, (Accumulator, Combine, TileReduce)):
                found.add("REDUCE")
            elif isinstance(stmt, (TileSync, ClusterMeeting)):
                found.add("SYNC")
            elif isinstance(stmt, TileAsync):
                found.add("ASYNC")
            elif isinstance(stmt, TileMma):
                found.add("MMA")
            elif isinstance(stmt, TileAttend):
                found.add("ATTENTION_TILES")
            elif isinstance(stmt, (TileMatmul, TileProducts)):
                found.add("MATMUL")
            elif isinstance(stmt, Evaluate):
                found.add(_FEATURES.get(stmt.op, "VIEWS"))
    return tuple(sorted(found))


def device_source(kernels: Sequence[PrimFunction], threads: int) -> str:
    """CUDA C++ of the kernels whose blocks have ``threads`` threads. It includes the umbrella header alone."""
    out = Writer()
    for feature in used_features(kernels):
        out.directive(f"#define TILEFOUNDRY_USE_{feature}")
    out.line("#include <tilefoundry/runtime.h>")
    out.line()
    out.line("namespace tilefoundry {")
    out.line("template <>")
    out.line("CUTE_HOST_DEVICE constexpr auto program_shape<TopologyScope::thread>() noexcept {")
    out.line(f"  return cute::Shape<cute::Int<{threads}>>{{}};")
    out.line("}")
    out.line(f"[[maybe_unused]] constexpr int program_threads = {threads};")
    for kernel in kernels:
        out.line()
        _shared_size(kernel, out)
        emit_kernel(kernel, out, threads)
    out.line()
    out.line("}  // namespace tilefoundry")
    return out.text()


def emit_kernel(function: PrimFunction, out: Writer, threads: int = 0) -> None:
    """One kernel; where it overlaps others its work is a function of its own, behind the wait for them.

    The pointers of that function alias nothing, so that its accesses may be reordered among themselves. The kernel's
    own pointers say no such thing: otherwise the compiler were free to read before the wait, or through a cache that
    does not see what an earlier launch wrote. A product that fetches waits by itself, after it has got ready.
    """
    if any(parts_of(function)):
        _emit_joined(function, out, threads)
        return
    written = written_buffers(tuple(inner_statements(function.body)))
    meets = any(isinstance(stmt, TileSync) for stmt in inner_statements(function.body))
    waits = _waits_itself(function)
    alone = [
        _param(p, p.name in written, not waits and not (meets and p.name in written)) for p in function.params
    ]
    bounds = f"__launch_bounds__({threads}{_resident(function)}) " if threads else ""
    symbol = symbol_of(function.name)
    head = f'extern "C" __global__ void {_clusters(function)}{bounds}{symbol}'
    apart = overlaps(function) and not waits
    with out.block(f"{f'static CUTE_DEVICE void {symbol}_work' if apart else head}({', '.join(alone)}) {{"):
        narrow = _stores_narrow(function, written)
        DeviceEmitter(out, narrow=narrow, written=written).stmts(function.body)
    if apart:
        params = ", ".join(_param(p, p.name in written, False) for p in function.params)
        with out.block(f"{head}({params}) {{"):
            out.line("await_earlier_launches();")
            out.line(f"{symbol}_work({', '.join(mangle(p.name) for p in function.params)});")


def _emit_joined(function: PrimFunction, out: Writer, threads: int) -> None:
    """A kernel of several parts: each a function of its own, whose pointers alias nothing, called one after another."""
    symbol = symbol_of(function.name)
    numbers = {id(part): f"{symbol}_part{i}_work" for i, part in enumerate(parts_of(function))}
    for part in parts_of(function):
        kernel = part.kernel
        own = written_buffers(tuple(inner_statements(kernel.body)))
        params = ", ".join(_param(p, p.name in own, True) for p in kernel.params)
        with out.block(f"static CUTE_DEVICE void {numbers[id(part)]}({params}) {{"):
            DeviceEmitter(out, narrow=_stores_narrow(kernel, own), written=own).stmts(kernel.body)
    written = written_buffers(tuple(inner_statements(function.body)))
    params = ", ".join(_param(p, p.name in written, False) for p in function.params)
    bounds = f"__launch_bounds__({threads}) " if threads else ""
    with out.block(f'extern "C" __global__ void {_clusters(function)}{bounds}{symbol}({params}) {{'):
        if overlaps(function):
            out.line("await_earlier_launches();")
        for stmt in function.body:
            if isinstance(stmt, ClusterMeeting):
                out.line("ops::meet_in_cluster();")
            elif isinstance(stmt, JoinedWork):
                inside = (
                    "" if stmt.blocks is None else f"if (program_id<TopologyScope::cta>() < {stmt.blocks}) "
                )
                args = ", ".join(mangle(arg.name) for arg in stmt.args)
                out.line(f"{inside}{numbers[id(stmt)]}({args});")


def _clusters(function: PrimFunction) -> str:
    """The runtime's mark of a kernel whose blocks work together in clusters, where it is one."""
    if takes_turns(function):
        return "TILEFOUNDRY_PAIRED_BLOCKS "
    if any(isinstance(stmt, ClusterMeeting) for stmt in function.body):
        return "TILEFOUNDRY_MEETING_BLOCKS "
    stmts = inner_statements(function.body)
    attends = any(isinstance(stmt, Evaluate) and stmt.op == "attention" for stmt in stmts)
    return "TILEFOUNDRY_ATTENTION_BLOCKS " if attends else ""


def _waits_itself(function: PrimFunction) -> bool:
    """Whether the kernel is one product that fetches: it touches no other global memory before it waits."""
    work = [stmt for stmt in function.body if not isinstance(stmt, Comment)]
    if len(work) != 1 or not isinstance(work[0], MeshScope):
        return False
    inner = [stmt for stmt in work[0].body if not isinstance(stmt, Comment)]
    return len(inner) == 1 and _fetches(inner[0])


def takes_dynamic_shared(function: PrimFunction) -> bool:
    """Whether a launch gives the kernel shared memory, as much as its image says."""
    return any(
        _fetches(stmt) or attends_in_turns(stmt) or _lies_in_launch(stmt) or _is_staged(stmt)
        for stmt in inner_statements(function.body)
    )


def takes_turns(function: PrimFunction) -> bool:
    """Whether the blocks of a launch take the kernel's tiles in turns, so that more than are resident are no use."""
    return any(_fetches(stmt) for stmt in inner_statements(function.body))


def meets_in_turns(function: PrimFunction) -> bool:
    """Whether blocks take an attention's tiles in turns, so that more than are resident are no use, or cannot run
    because all meet at a barrier."""
    stmts = inner_statements(function.body)
    return any(attends_in_turns(stmt) or (isinstance(stmt, TileAttend) and stmt.barrier) for stmt in stmts)


def _resident(function: PrimFunction) -> str:
    """How many blocks a multiprocessor shall hold where that must be said: a product of one row by a column a warp runs
    in one wave of six, for which the compiler else takes a few registers too many."""
    return ", 6" if any(map(_takes_a_column_a_warp, inner_statements(function.body))) else ""


def _takes_a_column_a_warp(stmt: object) -> bool:
    if not isinstance(stmt, TileMatmul) or stmt.rows != 1 or stmt.rhs.strides[-2] != 1:
        return False
    narrow = all(dtype_of(view.buffer).itemsize <= 2 for view in (stmt.lhs, stmt.rhs))
    return narrow and isinstance(stmt.columns, int) and stmt.columns < _SEVERAL_COLUMNS


def _lies_in_launch(stmt: object) -> bool:
    return isinstance(stmt, TileShared) and stmt.offset is not None


def _is_staged(stmt: object) -> bool:
    return isinstance(stmt, Packs) and stmt.staged


def _fetches(stmt: object) -> TypeGuard[TileMatmul]:
    return isinstance(stmt, TileMatmul) and stmt.threads == FETCHING


def _shared_size(function: PrimFunction, out: Writer) -> None:
    """An array as long as the shared memory of a launch in KiB: the host reads its size from the image."""
    placed = [stmt for stmt in inner_statements(function.body) if isinstance(stmt, TileShared)]
    if any(_lies_in_launch(stmt) for stmt in placed):
        kib = (sum(stmt.bytes for stmt in placed) + 1023) // 1024
        name = shared_symbol(symbol_of(function.name))
        out.line(f'extern "C" __device__ unsigned char {name}[{kib}] = {{}};')
    staged = [stmt for stmt in inner_statements(function.body) if isinstance(stmt, Packs) and stmt.staged]
    if staged:
        kib = (sum(stmt.staged_bytes for stmt in staged) + 1023) // 1024
        name = shared_symbol(symbol_of(function.name))
        out.line(f'extern "C" __device__ unsigned char {name}[{kib}] = {{}};')
    for stmt in inner_statements(function.body):
        if attends_in_turns(stmt):
            name = shared_symbol(symbol_of(function.name))
            size = f"({shared_size_text(stmt)} + 1023) / 1024"
            out.line(f'extern "C" __device__ unsigned char {name}[{size}] = {{}};')
            return
        if _fetches(stmt):
            assert isinstance(stmt.lhs.type, TensorType) and isinstance(stmt.rhs.type, TensorType)
            kinds = f"{dtype_name(stmt.lhs.type.dtype)}, {dtype_name(stmt.rhs.type.dtype)}"
            size = f"(ops::matmul_bytes<{kinds}, {stmt.threads}>() + 1023) / 1024"
            name = shared_symbol(symbol_of(function.name))
            out.line(f'extern "C" __device__ unsigned char {name}[{size}] = {{}};')
            return


def _stores_narrow(function: PrimFunction, written: set[str]) -> bool:
    """Whether all floats that the kernel stores have at most 16 bits, and some are stored."""
    types = [p.type.dtype for p in function.params if isinstance(p.type, TensorType) and p.name in written]
    floats = [dtype for dtype in types if dtype.is_float]
    return bool(floats) and all(dtype.bits <= 16 for dtype in floats)


def _param(param: Var, written: bool, alone: bool) -> str:
    """A parameter; ``alone``: nothing but it reaches what it points at. What is written before a barrier and read after
    it by others must not be taken for that."""
    assert isinstance(param.type, TensorType)
    name = mangle(param.name)
    if param.type.dtype is DType.i64 and param.is_const:
        return f"const index_t {name}"
    kind = dtype_name(param.type.dtype)
    return f"{'' if written else 'const '}{kind}*{' __restrict__' if alone else ''} const {name}"
