"""What the layouts of a kernel's scope say, and whether its schedule does just that."""

from __future__ import annotations

from dataclasses import replace

from tilefoundry.codegen.cpu.schedule import KernelSpec
from tilefoundry.codegen.cuda.open_scopes import opened
from tilefoundry.codegen.cuda.spreads.flattening import flattened
from tilefoundry.codegen.cuda.spreads.likeness import alike
from tilefoundry.codegen.cuda.spreads.spread import chosen_spread, spread_over
from tilefoundry.codegen.cuda.spreads.writing import with_layouts
from tilefoundry.ir.core.expr import Var
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
    """What a schedule would take in place of the kernel's layouts, as a remedy: for its mesh, else with a mesh that
    suits it; None for a kernel that no layouts make one of a schedule."""
    found = flattened(spec.function)
    if found is None:
        return None
    scope, function = found
    flat = replace(spec, function=function)
    spread = spread_over(flat, scope, spec.function.topologies or ()) or chosen_spread(flat)
    if spread is None or function.body is None:
        return None
    moved = [*zip(function.params, spread.inputs, strict=True)]
    values = (atom for atom in function.body.results if isinstance(atom, Var))
    moved += [*zip(values, spread.results, strict=True)]
    listed = ", ".join(f"{var.name} as {layout}" for var, layout in moved if isinstance(layout, ShardLayout))
    return f"over {spread.mesh} fit {listed}"
