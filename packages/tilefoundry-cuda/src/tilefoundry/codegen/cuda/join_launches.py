"""Make one launch of several small ones in a row.

A launch costs more than what a kernel of a few blocks does, and in a row of such kernels every one waits for the one
before. Where blocks are so few that they are one cluster they can meet in the kernel instead; where kernels have
nothing to do with each other they need not even meet.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from tilefoundry.codegen.cpu.inplace import INPLACE
from tilefoundry.codegen.cuda.joined import ClusterMeeting, JoinedWork
from tilefoundry.codegen.cuda.launch_memory import Places, buffer_of, shared_places, touched, with_slots
from tilefoundry.codegen.cuda.statements import (
    Combine,
    Packs,
    RegisterArray,
    WidePath,
    inner_statements,
)
from tilefoundry.codegen.launch_paths import JOINED
from tilefoundry.ir.core.expr import Var
from tilefoundry.ir.core.module import Module
from tilefoundry.ir.passes import Names
from tilefoundry.ir.tir import (
    Abort,
    Accumulate,
    Accumulator,
    BufferView,
    Comment,
    DispatchCall,
    Evaluate,
    For,
    If,
    Launch,
    Let,
    MeshScope,
    PrimFunction,
    Store,
    TirStmt,
    walk_tir,
)
from tilefoundry.ir.types import TensorType
from tilefoundry.target import CudaTarget

__all__ = ["CLUSTER", "JoinLaunches", "is_plain"]

CLUSTER = 8
"""Blocks of a cluster on every chip that has clusters."""

_MOST_BLOCKS = 2 * 132
"""So many blocks find room beside whatever still runs, and one more part of their work costs them little."""

_MOST_PARTS = 8
_SHARED_OPS = frozenset({"rope", "insert_window", "copy"})
"""Whole-tensor ops whose elements all threads share, however many blocks there are."""

_PLAIN = (
    MeshScope, Comment, Let, If, For, Store, Abort, Accumulator, Accumulate, Packs, WidePath, Combine, RegisterArray,
)  # fmt: skip
"""What kernels of rows and of whole-tensor ops consist of."""


@dataclass(frozen=True, slots=True)
class JoinLaunches:
    """Before: complete launches, each kernel as its own. After: runs of small ones are one launch each, whose kernel
    has the others' work as its parts, in their order."""

    target: CudaTarget

    def run(self, module: Module) -> Module:
        """``module`` with fewer launches, on chips with clusters."""
        entry = module.entry_function()
        assert isinstance(entry, PrimFunction)
        if int("".join(filter(str.isdigit, self.target.arch))) < 90:
            return module
        kernels = {f.name: f for f in module.functions if isinstance(f, PrimFunction) and f is not entry}
        once = _launched_once(entry)
        names = Names(kernels)
        joiner = _Joiner({n: k for n, k in kernels.items() if n in once}, kernels, names)
        places = shared_places(entry, module.metadata.get(INPLACE, ()))
        host = replace(entry, body=joiner.joined(entry.body, places))
        used = {stmt.callee for stmt in walk_tir(host.body) if isinstance(stmt, Launch)}
        kept = tuple(kernel for name, kernel in kernels.items() if name in used)
        functions = (*kept, host)
        return Module(
            module.name, functions, host.name, (), module.target, module.topologies, module.metadata
        )


def _launched_once(entry: PrimFunction) -> set[str]:
    found = [stmt.callee for stmt in walk_tir(entry.body) if isinstance(stmt, Launch)]
    return {name for name in found if found.count(name) == 1}


@dataclass(slots=True)
class _Run:
    """Launches in a row that are becoming one, and the memory that each of their phases reads and writes."""

    launches: list[Launch]
    block: int
    grid: int
    meetings: set[int] = field(default_factory=set)
    read: set[object] = field(default_factory=set)
    written: set[object] = field(default_factory=set)


@dataclass(slots=True)
class _Joiner:
    candidates: dict[str, PrimFunction]
    kernels: dict[str, PrimFunction]
    names: Names

    def joined(self, stmts: tuple[TirStmt, ...], places: Places) -> tuple[TirStmt, ...]:
        """A host's statements with small launches in a row as one."""
        places = with_slots(stmts, places)
        out: list[TirStmt] = []
        run: _Run | None = None
        for stmt in stmts:
            fits = isinstance(stmt, Launch) and self._is_small(stmt)
            if run is not None and not (fits and self._taken(run, stmt, places)):  # type: ignore[arg-type]  # a Launch
                out.append(self._launch(run))
                run = None
            if not fits:
                out.append(self._inside(stmt, places))
            elif run is None:
                assert isinstance(stmt, Launch)
                run = _Run([stmt], stmt.block[0], stmt.grid[0])  # type: ignore[arg-type]  # static
                run.read, run.written = touched(self.kernels[stmt.callee], stmt, places)
        return (*out, self._launch(run)) if run is not None else tuple(out)

    def _inside(self, stmt: TirStmt, places: Places) -> TirStmt:
        if isinstance(stmt, For):
            return replace(stmt, body=self.joined(stmt.body, places))
        if isinstance(stmt, If):
            return If(stmt.condition, self.joined(stmt.then, places), self.joined(stmt.orelse, places))
        if isinstance(stmt, DispatchCall):
            bodies = tuple((pattern, self.joined(body, places)) for pattern, body in stmt.alternatives)
            return replace(stmt, alternatives=bodies)
        return stmt

    def _is_small(self, launch: Launch) -> bool:
        kernel = self.candidates.get(launch.callee)
        if kernel is None or launch.attributes or not all(isinstance(dim, int) for dim in launch.grid):
            return False
        in_memory = all(isinstance(arg, (Var, BufferView)) for arg in launch.args)
        buffers = all(isinstance(p.type, TensorType) and not p.is_const for p in kernel.params)
        few = len(launch.grid) == 1 and launch.grid[0] <= _MOST_BLOCKS  # type: ignore[operator]  # static
        return few and in_memory and buffers and is_plain(kernel)

    def _taken(self, run: _Run, launch: Launch, places: Places) -> bool:
        """Whether ``run`` took the launch in."""
        grid = max(run.grid, launch.grid[0])  # type: ignore[type-var]  # static
        if launch.block != (run.block,) or len(run.launches) == _MOST_PARTS:
            return False
        read, written = touched(self.kernels[launch.callee], launch, places)
        depends = bool(run.written & (read | written) or run.read & written)
        if (depends or run.meetings) and grid > CLUSTER:
            return False
        if depends:
            run.meetings.add(len(run.launches))
            run.read, run.written = set(), set()
        run.launches.append(launch)
        run.grid = grid  # type: ignore[assignment]  # static
        run.read |= read
        run.written |= written
        return True

    def _launch(self, run: _Run) -> Launch:
        if len(run.launches) == 1:
            return run.launches[0]
        first, last = run.launches[0].callee, run.launches[-1].callee
        name = self.names.fresh(f"{first}_to_{last}")
        args, body = self._parts(run)
        params = tuple(param for param, _ in args.values())
        self.kernels[name] = PrimFunction(name, params, body, 0)
        grid = CLUSTER if run.meetings else run.grid
        parts = tuple(launch.callee for launch in run.launches)
        given = tuple(arg for _, arg in args.values())
        return Launch(name, given, (grid,), (run.block,), ((JOINED, parts),))

    def _parts(self, run: _Run) -> tuple[dict[object, tuple[Var, Any]], tuple[TirStmt, ...]]:
        """Parameters of the whole by what they are, with the arguments; the parts, and where they meet."""
        args: dict[object, tuple[Var, Any]] = {}
        names = Names([])
        body: list[Any] = []
        for i, launch in enumerate(run.launches):
            kernel = self.kernels[launch.callee]
            own = []
            for param, arg in zip(kernel.params, launch.args, strict=True):
                key = (buffer_of(arg).name, getattr(arg, "offset", 0))
                if key not in args:
                    args[key] = (Var(param.type, names.fresh(param.name)), arg)
                own.append(args[key][0])
            if i in run.meetings:
                body.append(ClusterMeeting())
            blocks = None if _is_shared(kernel) else launch.grid[0]
            body.append(JoinedWork(kernel, tuple(own), blocks))  # type: ignore[arg-type]  # static
        return args, tuple(body)


def is_plain(kernel: PrimFunction) -> bool:
    """Whether the kernel is one scope of rows that each block has its own of, or of one op that all blocks share."""
    stmts = list(inner_statements(kernel.body))
    scopes = [stmt for stmt in stmts if isinstance(stmt, MeshScope)]
    ops = [stmt.op for stmt in stmts if isinstance(stmt, Evaluate)]
    rows = any(isinstance(stmt, WidePath) for stmt in stmts)
    staged = any(isinstance(stmt, Packs) and stmt.staged for stmt in stmts)
    known = all(isinstance(stmt, (*_PLAIN, Evaluate)) for stmt in stmts)
    return len(scopes) == 1 and known and not staged and set(ops) <= _SHARED_OPS and rows != bool(ops)


def _is_shared(kernel: PrimFunction) -> bool:
    return any(isinstance(stmt, Evaluate) for stmt in inner_statements(kernel.body))
