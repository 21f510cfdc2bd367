"""The host text of a library: embedded images, the checked entry, launches. It names no CUDA or CuTe type."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilefoundry.codegen.cpu.emit.entry import EntryEmitter
from tilefoundry.codegen.cpu.emit.scalars import dim_text
from tilefoundry.codegen.cpu.emit.statements import StatementEmitter, quoted, write_range
from tilefoundry.codegen.cpu.inplace import INPLACE
from tilefoundry.codegen.cuda.source.device import symbol_of
from tilefoundry.codegen.cuda.source.matmul import shared_symbol
from tilefoundry.codegen.launch_paths import RANGE
from tilefoundry.codegen.writer import Writer
from tilefoundry.ir.core.expr import Expr, Var
from tilefoundry.ir.core.module import Module
from tilefoundry.ir.passes import PARAM_PATHS
from tilefoundry.ir.tir import IndexValue, Launch, PrimFunction, TirStmt
from tilefoundry.ir.types import Dim, dim_vars
from tilefoundry.ir.types.shard import PERSISTENT

__all__ = ["KernelEntry", "host_source"]


@dataclass(frozen=True, slots=True)
class KernelEntry:
    """A kernel as the host sees it: its name, the image that holds it, its block, and how it is launched.

    ``shares`` says that a launch gives it shared memory, as much as the image says; ``in_turns`` that it gives no more
    blocks than are resident, which take its tiles in turns; ``overlaps`` that it waits on the device for the launches
    before it.
    """

    name: str
    image: int
    threads: int
    cooperative: bool = False
    shares: bool = False
    in_turns: bool = False
    overlaps: bool = False


def host_source(module: Module, kernels: Sequence[KernelEntry], images: int) -> str:
    """C++17 of the entry."""
    entry = module.entry_function()
    assert isinstance(entry, PrimFunction)
    out = Writer()
    out.comment(f"{module.name}.{entry.name}, compiled by TileFoundry for NVIDIA GPUs: the host's part.")
    out.line("#include <tilefoundry/runtime.h>")
    out.line()
    for i in range(images):
        out.line(f'extern "C" __attribute__((visibility("hidden"))) const char tilefoundry_image_{i}[];')
    out.line()
    out.line("namespace tilefoundry {")
    out.line("namespace {")
    out.line("using index_t = std::int64_t;")
    if kernels:
        _program(out, kernels, images)
    out.line()
    emitter = _CudaEntry(
        out, entry, module.metadata[PARAM_PATHS], "kDLCUDA", module.metadata.get(INPLACE, ())
    )
    emitter.range = module.metadata.get(RANGE)
    emitter.kernels = {kernel.name: i for i, kernel in enumerate(kernels)}
    emitter.in_turns = frozenset(i for i, kernel in enumerate(kernels) if kernel.in_turns)
    emitter.write()
    return out.text()


def _program(out: Writer, kernels: Sequence[KernelEntry], images: int) -> None:
    listed = ", ".join(f"tilefoundry_image_{i}" for i in range(images))
    out.line(f"const void* const images_[] = {{{listed}}};")
    with out.block("constexpr host::Kernel kernels_[] = {", "};"):
        for kernel in kernels:
            flags = ", ".join("true" if flag else "false" for flag in (kernel.cooperative, kernel.overlaps))
            symbol, label = quoted(symbol_of(kernel.name)), quoted(kernel.name)
            shared = quoted(shared_symbol(symbol_of(kernel.name))) if kernel.shares else "nullptr"
            out.line(f"{{{symbol}, {label}, {kernel.image}, {kernel.threads}, {shared}, {flags}}},")
    out.line("host::Program program_(images_, kernels_);")


class _CudaEntry(EntryEmitter):
    """The entry with a device guard before its body and launches in it."""

    __slots__ = ("_calls", "in_turns", "kernels")

    kernels: dict[str, int]
    in_turns: frozenset[int]

    def _body(self, stmts: tuple[TirStmt, ...]) -> None:
        if self.kernels and not getattr(self, "_calls", 0):
            self.out.line("const host::Call call_(program_, host::device_of(declaration_, bound_));")
        self._calls = getattr(self, "_calls", 0) + 1
        EntryEmitter._body(self, stmts)

    def _device(self) -> str:
        return "call_.device()"

    def _statements(self) -> StatementEmitter:
        return _HostStatements(self.out, {}, self.kernels, self.in_turns)


class _HostStatements(StatementEmitter):
    """Host statements; a launch hands its arguments over by address."""

    __slots__ = ("_in_turns", "_kernels", "_launches")

    def __init__(
        self, out: Writer, names: dict[str, str], kernels: dict[str, int], in_turns: frozenset[int]
    ) -> None:
        super().__init__(out, names)
        self._kernels, self._in_turns = kernels, in_turns

    def stmts(self, stmts: tuple[TirStmt, ...]) -> None:
        """All of ``stmts`` in order."""
        for stmt in stmts:
            if isinstance(stmt, Launch):
                self._launch_kernel(stmt)
            else:
                StatementEmitter.stmts(self, (stmt,))

    def _launch_kernel(self, stmt: Launch) -> None:
        number = self._kernels[stmt.callee]
        with self.out.block("{"):
            self.out.comment(stmt.callee)
            shown = dict(stmt.attributes).get(RANGE)
            if shown is not None:
                write_range(self.out, shown)
            places: list[str] = []
            for i, arg in enumerate(stmt.args):
                places.append(self._place(arg, i))
            barrier = dict(stmt.attributes).get("barrier")
            if barrier is not None:
                self.out.line("void* const barrier_ = call_.barrier();")
                places.insert(barrier, "const_cast<void*>(static_cast<const void*>(&barrier_))")
            self.out.line(f"void* args_[] = {{{', '.join(places) or 'nullptr'}}};")
            grid, form = self._grid(stmt.grid[0], number), _form(stmt)
            self.out.line(f"call_.launch({number}, {grid}, args_{form});")

    def _place(self, arg: Expr, i: int) -> str:
        text = self.expr(arg)
        if isinstance(arg, Var):
            return f"const_cast<void*>(static_cast<const void*>(&{text}))"
        kind = "index_t" if isinstance(arg, IndexValue) else "auto"
        self.out.line(f"const {kind} argument{i}_ = {text};")
        return f"const_cast<void*>(static_cast<const void*>(&argument{i}_))"

    def _grid(self, grid: Dim, number: int) -> str:
        if any(var.name == PERSISTENT.name for var in dim_vars(grid)):
            return f"call_.resident({number})"
        text = dim_text(grid, self.names)
        return f"call_.persistent({number}, {text})" if number in self._in_turns else text


def _form(stmt: Launch) -> str:
    """What the launch asks for beside its geometry, as a last argument; empty where that is nothing."""
    given = dict(stmt.attributes)
    (cluster,) = given.get("cluster", (1,))
    cooperative, apart = given.get("cooperative", False), not given.get("programmatic", True)
    if (cluster, cooperative, apart) == (1, False, False):
        return ""
    flags = ", ".join("true" if flag else "false" for flag in (cooperative, apart))
    return f", host::LaunchForm{{{cluster}, {flags}}}"
