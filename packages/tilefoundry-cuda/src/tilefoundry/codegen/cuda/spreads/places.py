"""Which axes of a nest the values of a kernel run over, where these are in the order of memory."""

from __future__ import annotations

from dataclasses import dataclass

from tilefoundry.codegen.cpu.nest import ELEMENTWISE, AxisMap
from tilefoundry.codegen.cpu.schedule.plan import Plan
from tilefoundry.codegen.cpu.schedule.rows import leading_access
from tilefoundry.codegen.cuda.schedule.row_shapes import RowShape
from tilefoundry.ir.core.expr import Var
from tilefoundry.ir.types import Dim
from tilefoundry.ir.types.dim import product

__all__ = ["Places"]

_CREATED = frozenset({"zeros", "workspace", "full_like", "arange"})


@dataclass(frozen=True, slots=True)
class Places:
    """The axes of a nest in the order of its values' own axes.

    Attributes:
        axes: those of several places.
        count: how many of them number rows.
        outer: the extents of these.
    """

    axes: tuple[int, ...]
    count: int
    outer: tuple[Dim, ...]

    @staticmethod
    def of(plan: Plan, shape: RowShape) -> Places | None:
        """None where memory is walked in another order, or where a row is more than one loop."""
        extents, lead = plan.nest.extents, leading_access(plan)
        axes = tuple(axis for axis, extent in enumerate(extents) if extent != 1)
        reduced = plan.memory_order(tuple(plan.nest.reduced), lead)
        if (*plan.memory_order(plan.nest.kept, lead), *reduced) != axes or len(shape.inner) != 1:
            return None
        count, along = len(axes), 1
        while along != shape.extent and count:
            count -= 1
            along = product((along, extents[axes[count]]))
        if along != shape.extent or any(extents[axis] == 0 for axis in axes):
            return None
        return Places(axes, count, tuple(extents[axis] for axis in axes[:count]))

    def kind(self, map_: AxisMap) -> bool | None:
        """True for a value with an element at every place, False for one per row, None for any other."""
        live = tuple(axis for axis in map_ if axis in self.axes)
        return True if live == self.axes else False if live == self.axes[: self.count] else None

    def is_read_whole(self, plan: Plan, param: str) -> bool:
        """Whether the parameter has an element at every place, and is read nowhere else."""
        reads = _reads(plan, param)
        return bool(reads) and all(self.kind(map_) is True for map_ in reads)

    def window_maps(self, plan: Plan, params: tuple[Var, ...]) -> tuple[AxisMap, ...] | None:
        """The axes of parameters and results; None where some op does more than to compute element by element and to
        join along rows, or where a parameter is read in several ways."""
        plain = ELEMENTWISE - _CREATED | {"reduce"}
        if any(plan.call(name).op.name not in plain for name in plan.binds):
            return None
        found: list[AxisMap] = []
        for param in params:
            maps = _reads(plan, param.name)
            if not maps or any(map_ != maps[0] for map_ in maps):
                return None
            found.append(maps[0])
        return (*found, *(plan.maps[name] for name in plan.outputs))


def _reads(plan: Plan, param: str) -> list[AxisMap]:
    return [
        plan.read_map(name, position)
        for name in plan.binds
        for position, arg in enumerate(plan.call(name).args)
        if isinstance(arg, Var) and arg.name == param
    ]
