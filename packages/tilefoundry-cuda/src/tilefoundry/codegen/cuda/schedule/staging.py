"""What of a row more than one pass reads: what waits in shared memory where registers are too few."""

from __future__ import annotations

from collections.abc import Sequence

from tilefoundry.codegen.cpu.schedule.plan import Access, Loop, Plan
from tilefoundry.codegen.cuda.schedule.geometry import pack_width
from tilefoundry.ir.core.expr import Var

__all__ = ["kept_bytes"]

_COPIES = (4, 8, 16)
"""Bytes of one asynchronous copy."""


def kept_bytes(plan: Plan, inner: Sequence[Loop]) -> int:
    """Bytes of all inputs per element of a row that several passes read; 0 where one pass reads all, where the row
    is more than one run of memory, or where its packs are no asynchronous copies."""
    if len(inner) != 1 or _passes(plan, inner[0].axis) < 2:
        return 0
    axis, extent = inner[0].axis, inner[0].extent
    reads = {
        (access.view.buffer, access.view.offset): access
        for access in _reads(plan)
        if access.stride(axis) == 1
    }
    own = [access for access in reads.values() if _is_row(plan, access)]
    packed = [access for access in plan.accesses() if access.stride(axis) == 1]
    width = pack_width([access.view.dtype.itemsize for access in packed], extent)
    sizes = [access.view.dtype.itemsize for access in own]
    return sum(sizes) if all(size * width in _COPIES for size in sizes) else 0


def _passes(plan: Plan, axis: int) -> int:
    """How many times the threads of a row go over it."""
    joined = [plan.phase(name) for name in plan.binds if plan.is_reduction(name)]
    stored = [plan.phase(name) + 1 for name in plan.outputs if axis in plan.maps[name]]
    return max([*joined, *stored], default=0)


def _reads(plan: Plan) -> list[Access]:
    return [
        Access(plan.views[arg.name], plan.read_map(name, position))
        for name in plan.binds
        for position, arg in enumerate(plan.call(name).args)
        if isinstance(arg, Var) and arg.name not in plan.binds
    ]


def _is_row(plan: Plan, access: Access) -> bool:
    """Whether each row has elements of its own there, which no other block reads."""
    return all(extent == 1 or access.stride(axis) != 0 for axis, extent in enumerate(plan.nest.extents))
