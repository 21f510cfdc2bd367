"""A module whose entry is a ``@prim_func``: a host that launches others, or one kernel that is launched alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tilefoundry.codegen.cuda.authored.refusal import NotFollowed
from tilefoundry.codegen.cuda.prims.kernel import lower_kernel
from tilefoundry.codegen.cuda.prims.launching import (
    checked_target,
    extents_of,
    host_launch,
    is_own_memory,
    started_early,
    with_own,
)
from tilefoundry.ir.core.expr import Var
from tilefoundry.ir.core.module import Module
from tilefoundry.ir.hir.function import Function
from tilefoundry.ir.passes import PARAM_PATHS, Pass
from tilefoundry.ir.tir import (
    Abort,
    Allocate,
    Comment,
    For,
    If,
    IndexValue,
    Launch,
    Let,
    PrimFunction,
    Return,
    Slab,
    TirStmt,
    walk_tir,
)
from tilefoundry.ir.types import Dim, TensorType, substitute, type_dim_vars
from tilefoundry.ir.types.dim import product
from tilefoundry.ir.types.shard import Topology
from tilefoundry.target import CudaTarget

__all__ = ["LowerPrims", "OnGraphs"]


@dataclass(frozen=True, slots=True)
class OnGraphs:
    """``inner`` for modules whose entry is an HIR function; others stay as they are."""

    inner: Pass

    def run(self, module: Module) -> Module:
        """``module`` after ``inner``, or as it is."""
        return self.inner.run(module) if isinstance(module.entry_function(), Function) else module


@dataclass(frozen=True, slots=True)
class LowerPrims:
    """Before: a module of statement-level functions as they were written. After: its kernels in the statements of
    CUDA kernels, and its host.

    An entry without launches is itself the kernel. Modules with an HIR entry go through ``inner``.

    Attributes:
        inner: for modules with an HIR entry.
        target: the chip that launches are for.
    """

    inner: Pass
    target: CudaTarget

    def run(self, module: Module) -> Module:
        """``module`` as kernels and host."""
        entry = module.entry_function()
        if not isinstance(entry, PrimFunction):
            return self.inner.run(module)
        levels = tuple(entry.topologies or module.effective_topologies() or ())
        launches = [stmt for stmt in walk_tir(entry.body) if isinstance(stmt, Launch)]
        checked_target(module.name, launches, self.target)
        if launches:
            kernels = _kernels(module, launches, levels)
            host = replace(entry, body=_host(entry, {kernel.name: kernel for kernel in kernels}))
        else:
            inner = replace(entry, name=f"k0_{entry.name}")
            kernels = [lower_kernel(inner, levels)]
            extents = tuple(IndexValue.of(var) for var in _extents(entry))
            launch = with_own(Launch(inner.name, (*entry.params, *extents)), kernels[0])
            host = replace(entry, body=(launch,))
        metadata = {**module.metadata, PARAM_PATHS: tuple(p.name for p in entry.params)}
        functions = (*kernels, host)
        return Module(
            module.name, functions, host.name, (), module.root.target, module.effective_topologies(), metadata
        )


def _extents(function: PrimFunction) -> tuple[Dim, ...]:
    """Extents of the parameters in order of first appearance, as launches pass them."""
    return tuple(dict.fromkeys(var for param in function.params for var in type_dim_vars(param.type)))


def _kernels(module: Module, launches: list[Launch], levels: tuple[Topology, ...]) -> list[PrimFunction]:
    found: dict[str, PrimFunction] = {}
    for launch in launches:
        node = module
        *path, name = launch.callee.split(".")
        for part in path:
            node = node.child(part)
        function = node.lookup(name)
        assert isinstance(function, PrimFunction), "the front end launches statement-level functions alone"
        if any(isinstance(stmt, Launch) for stmt in walk_tir(function.body)):
            raise NotFollowed(
                f"{module.name}.{launch.callee} launches kernels and is launched itself; a GPU's kernels "
                "are launched by the host alone: launch them from the entry"
            )
        if launch.callee not in found:
            own = tuple(function.topologies or node.effective_topologies() or levels)
            block = product(launch.block) if launch.block else None
            named = replace(function, name=launch.callee.replace(".", "_"))
            own_launches = [other for other in launches if other.callee == launch.callee]
            found[launch.callee] = started_early(lower_kernel(named, own, block), own_launches)
    return list(found.values())


def _host(entry: PrimFunction, kernels: Mapping[str, PrimFunction]) -> tuple[TirStmt, ...]:
    """The host's statements: memory of its own in one slab, launches with addresses."""
    buffers: list[tuple[Var, int]] = []
    slots: list[tuple[Dim, ...]] = []
    body = _Host(entry.name, kernels, buffers, slots).stmts(entry.body)
    return (Slab(tuple(slots), tuple(buffers)), *body) if slots else body


@dataclass(frozen=True, slots=True)
class _Host:
    """Rewrites a host's statements; allocations go to ``buffers`` and ``slots``."""

    name: str
    kernels: Mapping[str, PrimFunction]
    buffers: list[tuple[Var, int]]
    slots: list[tuple[Dim, ...]]

    def stmts(self, stmts: tuple[TirStmt, ...]) -> tuple[TirStmt, ...]:
        """The statements, in order, without allocations."""
        return tuple(new for stmt in stmts for new in self._stmt(stmt))

    def _stmt(self, stmt: TirStmt) -> tuple[TirStmt, ...]:
        if isinstance(stmt, Allocate):
            assert isinstance(stmt.buffer.type, TensorType)
            self.buffers.append((stmt.buffer, len(self.slots)))
            self.slots.append((product((stmt.size, stmt.buffer.type.dtype.itemsize)),))
            return ()
        if isinstance(stmt, Launch):
            kernel = self.kernels[stmt.callee.replace(".", "_")]
            return (self._with_memory(host_launch(self.name, stmt, kernel), kernel),)
        if isinstance(stmt, For):
            return (replace(stmt, body=self.stmts(stmt.body)),)
        if isinstance(stmt, If):
            return (If(stmt.condition, self.stmts(stmt.then), self.stmts(stmt.orelse)),)
        if isinstance(stmt, (Let, Abort, Comment, Return)):
            return (stmt,)
        raise NotFollowed(
            f"{self.name}: a host that launches kernels allocates, loops, branches and launches; move the "
            f"{type(stmt).__name__.lower()} into a kernel"
        )

    def _with_memory(self, launch: Launch, kernel: PrimFunction) -> Launch:
        """The launch with slots of the slab for memory of the kernel's own."""
        args = list(launch.args)
        for i, param in enumerate(kernel.params):
            if not is_own_memory(param):
                continue
            type_ = param.type
            assert isinstance(type_, TensorType)
            (count,) = type_.shape
            if not isinstance(count, int):
                count = substitute(count, extents_of(launch, kernel))
            own = Var(TensorType((), type_.dtype), f"{kernel.name}_{param.name}_{len(self.slots)}")
            args[i] = own
            self.buffers.append((own, len(self.slots)))
            self.slots.append((product((count, type_.dtype.itemsize)),))
        return replace(launch, args=tuple(args))
