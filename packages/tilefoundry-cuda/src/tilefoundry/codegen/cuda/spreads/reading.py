"""What the layouts of a kernel's scope say, and whether its schedule does just that."""

from __future__ import annotations

from dataclasses import replace

from tilefoundry.codegen.cpu.schedule import KernelSpec, bind_text
from tilefoundry.codegen.cuda.open_scopes import opened
from tilefoundry.codegen.cuda.spreads.flattening import flattened
from tilefoundry.codegen.cuda.spreads.likeness import alike, first_difference
from tilefoundry.codegen.cuda.spreads.spread import chosen_spread, spread_over
from tilefoundry.codegen.cuda.spreads.writing import with_layouts
from tilefoundry.ir.core.expr import Bind, Call, For, MeshScope, Stmt, Var
from tilefoundry.ir.hir.function import Function
from tilefoundry.ir.types.shard import ShardLayout

__all__ = ["fitting_layouts", "scheduled_spec"]


def scheduled_spec(spec: KernelSpec) -> KernelSpec | None:
    """The kernel with an open scope in place of its layouts, where they are those of the schedule for its mesh.

    None for a kernel that says anything else.
    """
    found = flattened(spec.function)
    if found is None:
        return None
    scope, flat = found
    spread = spread_over(replace(spec, function=flat), scope, spec.function.topologies or ())
    own = None if spread is None else with_layouts(flat, spread)
    if own is None or not alike(own, spec.function):
        return None
    return replace(spec, function=opened(flat, scope))


def fitting_layouts(spec: KernelSpec) -> str | None:
    """What a schedule would take in place of what the kernel says, as a remedy: for its mesh, else with a mesh that
    suits it; None for a kernel that no layouts make one of a schedule.

    Where the layouts are those of the schedule, it is the first step that differs.
    """
    found = flattened(spec.function)
    if found is None:
        return None
    scope, function = found
    flat = replace(spec, function=function)
    spread = spread_over(flat, scope, spec.function.topologies or ()) or chosen_spread(flat)
    if spread is None or function.body is None:
        return None
    own = with_layouts(function, spread)
    step = None if own is None or spread.mesh != scope.mesh else _other_step(own, spec.function)
    if step is not None:
        return step
    moved = [*zip(function.params, spread.inputs, strict=True)]
    values = (atom for atom in function.body.results if isinstance(atom, Var))
    moved += [*zip(values, spread.results, strict=True)]
    listed = ", ".join(f"{var.name} as {layout}" for var, layout in moved if isinstance(layout, ShardLayout))
    where = f"over {spread.mesh}" + (f", in place of {scope.mesh}," if spread.mesh != scope.mesh else "")
    return f"{where} fit {listed}"


def _other_step(own: Function, function: Function) -> str | None:
    """Where ``function`` does another thing than the schedule's own text; None where only a layout is another one."""
    ours, theirs = first_difference(own, function)
    if ours is None and theirs is None:
        return None
    if _is_reshard(ours) and _is_reshard(theirs):
        return None
    return f"with these layouts {_text(ours)} fits in place of {_text(theirs)}"


def _is_reshard(stmt: Stmt | None) -> bool:
    return isinstance(stmt, Bind) and isinstance(stmt.value, Call) and stmt.value.op.name == "reshard"


def _text(stmt: Stmt | None) -> str:
    """One statement in a message."""
    if stmt is None:
        return "nothing"
    if isinstance(stmt, For):
        head = (
            f"tile({stmt.stop}, {stmt.step})"
            if stmt.kind == "tile"
            else f"range({stmt.start}, {stmt.stop}, {stmt.step})"
        )
        return f"the loop over {head}" + (f" that {stmt.over} takes turns at" if stmt.over else "")
    if isinstance(stmt, MeshScope):
        return f"the scope of {stmt.mesh}"
    return bind_text(stmt)
