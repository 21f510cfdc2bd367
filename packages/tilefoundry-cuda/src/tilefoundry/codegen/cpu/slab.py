"""Share workspace memory among buffers that are not alive at the same time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tilefoundry.codegen.cpu.schedule.plan import sample
from tilefoundry.ir.types import Dim

__all__ = ["Lifetime", "plan_slots"]


@dataclass(frozen=True, slots=True)
class Lifetime:
    """Bytes of a buffer, and the first and last step that touches it."""

    size: Dim
    first: int
    last: int


@dataclass(slots=True)
class _Slot:
    sizes: dict[Dim, None] = field(default_factory=dict)
    free_from: int = 0


def plan_slots(lifetimes: Mapping[str, Lifetime]) -> tuple[tuple[tuple[Dim, ...], ...], dict[str, int]]:
    """Slots, each as the sizes that it must hold, and the slot of every buffer.

    Linear scan in order of first use. A free slot that has held the same size is taken first, then the one
    closest in size.
    """
    slots: list[_Slot] = []
    chosen: dict[str, int] = {}
    for name, life in sorted(lifetimes.items(), key=lambda item: (item[1].first, item[0])):
        free = [i for i, slot in enumerate(slots) if slot.free_from <= life.first]
        index = min(free, key=lambda i: _misfit(slots[i], life.size), default=None)
        if index is None:
            slots.append(_Slot())
            index = len(slots) - 1
        slots[index].sizes.setdefault(life.size)
        slots[index].free_from = life.last + 1
        chosen[name] = index
    return tuple(tuple(slot.sizes) for slot in slots), chosen


def _misfit(slot: _Slot, size: Dim) -> int:
    if size in slot.sizes:
        return -1
    held = max(sample(one) for one in slot.sizes)
    return abs(held - sample(size))
