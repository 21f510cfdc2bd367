"""Names that lead from a launch and its kernel back to the program."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace

from tilefoundry.ir.core.module import Module
from tilefoundry.ir.tir import DispatchCall, For, If, Launch, PrimFunction, TirStmt, While, walk_tir
from tilefoundry.runtime import KernelRecord

__all__ = [
    "JOINED",
    "KERNEL",
    "RANGE",
    "launch_records",
    "launched",
    "named_by_path",
    "path_of",
    "with_launches",
    "with_ranges",
]

KERNEL = "kernel"
"""Attribute of a launch: the kernel's own name, where equal kernels share another one's code."""

JOINED = "joined"
"""Attribute of a launch: the kernels that it stands for, where it is one launch of several."""

RANGE = "range"
"""Attribute of a launch, and metadata of a module for its calls: what a profiler shows; absent: nothing."""

_LONGEST = 100


def with_launches(stmts: tuple[TirStmt, ...], change: Callable[[Launch], Launch]) -> tuple[TirStmt, ...]:
    """A host's statements with every launch replaced by what ``change`` makes of it."""

    def changed(stmt: TirStmt) -> TirStmt:
        if isinstance(stmt, Launch):
            return change(stmt)
        if isinstance(stmt, (For, While)):
            return replace(stmt, body=with_launches(stmt.body, change))
        if isinstance(stmt, If):
            return replace(
                stmt, then=with_launches(stmt.then, change), orelse=with_launches(stmt.orelse, change)
            )
        if isinstance(stmt, DispatchCall):
            bodies = tuple((pattern, with_launches(body, change)) for pattern, body in stmt.alternatives)
            return replace(stmt, alternatives=bodies)
        return stmt

    return tuple(map(changed, stmts))


def path_of(module: Module, launch: Launch | None = None) -> str:
    """``module.function``, or ``module.function.kernel`` of a launch; a function alone is its own module."""
    entry = module.entry or ""
    parts = [module.name] if module.name == entry else [module.name, entry]
    return ".".join(parts if launch is None else [*parts, _own_name(launch)])


def named_by_path(module: Module) -> Module:
    """A lowered module whose kernels are called by their whole path, as identifiers of at most 111 characters."""
    entry = module.entry_function()
    assert isinstance(entry, PrimFunction)
    prefix = path_of(module).replace(".", "_")
    names = {f.name: _shortened(f"{prefix}_{f.name}") for f in module.functions if f is not entry}

    def called(launch: Launch) -> Launch:
        own = dict(launch.attributes).get(KERNEL)
        attributes = launch.attributes if own else (*launch.attributes, (KERNEL, launch.callee))
        return replace(launch, callee=names[launch.callee], attributes=attributes)

    functions = tuple(
        replace(f, body=with_launches(f.body, called)) if f is entry else replace(f, name=names[f.name])  # type: ignore[type-var]  # PrimFunctions
        for f in module.functions
    )
    return Module(module.name, functions, entry.name, (), module.target, module.topologies, module.metadata)


def with_ranges(module: Module) -> Module:
    """A lowered module each of whose launches says under which name a profiler shows it: its path."""
    entry = module.entry_function()
    assert isinstance(entry, PrimFunction)

    def named(launch: Launch) -> Launch:
        return replace(launch, attributes=(*launch.attributes, (RANGE, path_of(module, launch))))

    host = replace(entry, body=with_launches(entry.body, named))
    functions = tuple(host if f is entry else f for f in module.functions)
    metadata = {**module.metadata, RANGE: path_of(module)}
    return Module(module.name, functions, host.name, (), module.target, module.topologies, metadata)


def launch_records(module: Module) -> tuple[KernelRecord, ...]:
    """Every launch of a lowered module in program order: its kernel, path and geometry."""
    entry = module.entry_function()
    assert isinstance(entry, PrimFunction)
    launches = [stmt for stmt in walk_tir(entry.body) if isinstance(stmt, Launch)]
    return tuple(
        KernelRecord(
            _own_name(launch), _text(launch.grid), _count(launch.block), path=path_of(module, launch)
        )
        for launch in launches
    )


def launched(module: Module) -> dict[str, KernelRecord]:
    """Kernels of a lowered module -> the launch that runs each; several may share one."""
    entry = module.entry_function()
    assert isinstance(entry, PrimFunction)
    launches = [stmt for stmt in walk_tir(entry.body) if isinstance(stmt, Launch)]
    found: dict[str, KernelRecord] = {}
    for record, launch in zip(launch_records(module), launches, strict=True):
        found.update(dict.fromkeys(dict(launch.attributes).get(JOINED, (record.name,)), record))
    return found


def _own_name(launch: Launch) -> str:
    return dict(launch.attributes).get(KERNEL, launch.callee)


def _text(grid: tuple[object, ...]) -> str:
    return ", ".join(map(str, grid))


def _count(block: tuple[object, ...]) -> int | None:
    return block[0] if len(block) == 1 and isinstance(block[0], int) else None


def _shortened(name: str) -> str:
    if len(name) <= _LONGEST:
        return name
    return f"{name[:_LONGEST].rstrip('_')}_{hashlib.sha256(name.encode()).hexdigest()[:10]}"
