"""Give every launch its grid and block, and let the host make the checks that need extents alone."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tilefoundry.codegen.cuda.emit import _derive_launch_config
from tilefoundry.ir.core.module import Module
from tilefoundry.ir.tir import Abort, DispatchCall, Guard, Launch, PrimFunction, TirStmt

__all__ = ["PlanLaunches"]


@dataclass(frozen=True, slots=True)
class PlanLaunches:
    """Before: kernels whose mesh scopes say how many blocks and threads there are, perhaps preceded by checks.
    After: kernels without such checks, launches with geometry, each after its kernel's checks.

    Kernels and their launches name extents alike, which holds until kernels are shared.
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
            out.append(replace(stmt, grid=(config.grid,), block=(config.block,)))
        elif isinstance(stmt, DispatchCall):
            out.append(
                replace(
                    stmt, alternatives=tuple((p, _planned(body, kernels)) for p, body in stmt.alternatives)
                )
            )
        else:
            out.append(stmt)
    return tuple(out)


def _without_checks(stmts: tuple[TirStmt, ...]) -> tuple[TirStmt, ...]:
    return tuple(
        replace(stmt, body=_without_checks(stmt.body)) if isinstance(stmt, Guard) else stmt
        for stmt in stmts
        if not isinstance(stmt, Abort)
    )
