"""Give every launch its grid and block, and the memory that kernels need beside their operands.

The host makes the checks that need extents alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tilefoundry.codegen.cuda.emit import _derive_launch_config
from tilefoundry.codegen.cuda.tiles import BARRIER
from tilefoundry.ir.core.expr import Var
from tilefoundry.ir.core.module import Module
from tilefoundry.ir.passes import Names, Pass
from tilefoundry.ir.tir import Abort, DispatchCall, For, Guard, If, Launch, PrimFunction, Slab, TirStmt
from tilefoundry.ir.types import Dim, TensorType
from tilefoundry.ir.types.dim import product

__all__ = ["PlanLaunches", "WithWorkspaces"]


@dataclass(frozen=True, slots=True)
class PlanLaunches:
    """Before: kernels whose mesh scopes say how many blocks and threads there are, perhaps preceded by checks.
    After: kernels without such checks, launches with geometry, each after its kernel's checks.

    Kernels and their launches name extents alike, which holds until kernels are shared. A launch that says its
    geometry itself keeps it.
    """

    def run(self, module: Module) -> Module:
        """``module`` with complete launches."""
        entry = module.entry_function()
        assert isinstance(entry, PrimFunction)
        known: dict[str, PrimFunction] = {}
        kernels: list[PrimFunction] = []
        for function in module.functions:
            if isinstance(function, PrimFunction) and function is not entry:
                known[function.name] = function
                kernels.append(replace(function, body=_without_checks(function.body)))
        host = replace(entry, body=_planned(entry.body, known))
        return Module(
            module.name, (*kernels, host), host.name, (), module.target, module.topologies, module.metadata
        )


def _planned(stmts: tuple[TirStmt, ...], kernels: dict[str, PrimFunction]) -> tuple[TirStmt, ...]:
    out: list[TirStmt] = []
    for stmt in stmts:
        if isinstance(stmt, Launch):
            kernel = kernels[stmt.callee]
            config = _derive_launch_config(kernel)
            out.extend(check for check in kernel.body if isinstance(check, Abort))
            out.append(replace(stmt, grid=stmt.grid or (config.grid,), block=(config.block,)))
        elif isinstance(stmt, DispatchCall):
            out.append(
                replace(
                    stmt, alternatives=tuple((p, _planned(body, kernels)) for p, body in stmt.alternatives)
                )
            )
        elif isinstance(stmt, For):
            out.append(replace(stmt, body=_planned(stmt.body, kernels)))
        elif isinstance(stmt, If):
            out.append(If(stmt.condition, _planned(stmt.then, kernels), _planned(stmt.orelse, kernels)))
        else:
            out.append(stmt)
    return tuple(out)


def _without_checks(stmts: tuple[TirStmt, ...]) -> tuple[TirStmt, ...]:
    return tuple(
        replace(stmt, body=_without_checks(stmt.body)) if isinstance(stmt, Guard) else stmt
        for stmt in stmts
        if not isinstance(stmt, Abort)
    )


@dataclass(frozen=True, slots=True)
class WithWorkspaces:
    """``inner``, which gives kernels and their host; then buffers that launches pass and nobody has are slots of the
    slab. The counter pair of a grid barrier is the library's own: the launch says where among the arguments it goes."""

    inner: Pass

    def run(self, module: Module) -> Module:
        """``module`` after ``inner``, complete."""
        module = self.inner.run(module)
        entry = module.entry_function()
        if not isinstance(entry, PrimFunction):
            return module
        kernels = {f.name: f for f in module.functions if isinstance(f, PrimFunction) and f is not entry}
        names = Names([p.name for p in entry.params])
        known = {p.name for p in entry.params}
        host = replace(entry, body=_completed(entry.body, kernels, known, names))
        functions = (*kernels.values(), host)
        return Module(
            module.name, functions, host.name, (), module.target, module.topologies, module.metadata
        )


def _completed(
    stmts: tuple[TirStmt, ...], kernels: dict[str, PrimFunction], known: set[str], names: Names
) -> tuple[TirStmt, ...]:
    if stmts and isinstance(stmts[0], DispatchCall):
        first = stmts[0]
        bodies = tuple((p, _completed(body, kernels, known, names)) for p, body in first.alternatives)
        return (replace(first, alternatives=bodies), *stmts[1:])
    slab = next((stmt for stmt in stmts if isinstance(stmt, Slab)), Slab((), ()))
    known = known | {buffer.name for buffer, _ in slab.buffers}
    for name in known:
        names.fresh(name)
    slots, buffers = list(slab.slots), list(slab.buffers)

    def complete(inner: tuple[TirStmt, ...]) -> tuple[TirStmt, ...]:
        return tuple(finished(stmt) for stmt in inner if not isinstance(stmt, Slab))

    def finished(stmt: TirStmt) -> TirStmt:
        if isinstance(stmt, For):
            return replace(stmt, body=complete(stmt.body))
        if isinstance(stmt, If):
            return If(stmt.condition, complete(stmt.then), complete(stmt.orelse))
        if not isinstance(stmt, Launch):
            return stmt
        launch, added = _with_buffers(stmt, kernels[stmt.callee], known, names)
        for buffer, size in added:
            buffers.append((buffer, len(slots)))
            slots.append((size,))
        return launch

    out = complete(stmts)
    return (Slab(tuple(slots), tuple(buffers)), *out) if slots else out


def _with_buffers(
    launch: Launch, kernel: PrimFunction, known: set[str], names: Names
) -> tuple[Launch, list[tuple[Var, Dim]]]:
    """The launch with a buffer of its own for each that nobody has, and their bytes."""
    args, added = list(launch.args), []
    attributes = launch.attributes
    for i, (arg, param) in enumerate(zip(launch.args, kernel.params, strict=True)):
        if not isinstance(arg, Var) or arg.name in known:
            continue
        if arg.name == BARRIER:
            attributes = (*attributes, ("barrier", i))
            continue
        assert isinstance(param.type, TensorType)
        buffer = Var(TensorType((), param.type.dtype), names.fresh(f"{launch.callee}_{arg.name}"))
        args[i] = buffer
        added.append((buffer, product((*param.type.shape, param.type.dtype.itemsize))))
    at = dict(attributes).get("barrier")
    kept = tuple(arg for i, arg in enumerate(args) if i != at)
    return replace(launch, args=kept, attributes=attributes), added
