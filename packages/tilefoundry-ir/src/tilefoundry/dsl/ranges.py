"""``range`` and ``tile`` as a program sees them: extents may be dims."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tilefoundry.ir.types import Dim, DimExpr, DimVar

__all__ = ["LoopRange", "TileWindow", "make_range", "tile"]


@dataclass(frozen=True, slots=True)
class LoopRange:
    """What a ``for`` runs over.

    Attributes:
        kind: ``"range"`` or ``"tile"``.
        start, stop, step: ints or dims.
        over: the mesh axis that takes tiles in turn, or None.
    """

    kind: str
    start: Dim
    stop: Dim
    step: Dim
    over: Any | None = None

    def unrolled(self) -> Iterator[int]:
        """The values of a ``range`` with integer extents; TypeError for others."""
        if self.kind == "tile" or not all(isinstance(v, int) for v in (self.start, self.stop, self.step)):
            raise TypeError(
                f"{self} cannot be unrolled: only a range with integer extents can; use a for statement"
            )
        return iter(range(self.start, self.stop, self.step))  # type: ignore[arg-type]  # ints by the line above

    def __str__(self) -> str:
        if self.kind == "tile":
            return f"tile({self.stop}, {self.step})"
        return f"range({self.start}, {self.stop}, {self.step})"


@dataclass(frozen=True, slots=True)
class TileWindow:
    """The variable of a ``tile`` loop, used as an index; in arithmetic and as a slice's bound it is its start.

    Attributes:
        start: index of the window's first element.
        extent: its length: the loop's step, or a DimVar where the last window may be shorter.
        loop: what the loop runs over.
    """

    start: DimVar
    extent: Dim
    loop: LoopRange

    def __str__(self) -> str:
        return self.start.name


def make_range(*args: Any) -> LoopRange:
    """``range(stop)``, ``range(start, stop)`` or ``range(start, stop, step)`` over ints and dims.

    Raises:
        TypeError: a wrong count or an extent that is neither an int nor a dim.
        ValueError: a step below 1.
    """
    if not 1 <= len(args) <= 3:
        raise TypeError(f"range takes 1 to 3 arguments, got {len(args)}")
    start, stop, step = (0, args[0], 1) if len(args) == 1 else (*args, 1)[:3]
    return LoopRange("range", _extent("range", start), _extent("range", stop), _step("range", step))


def tile(extent: Dim, step: Dim, over: Any | None = None) -> Any:
    """Windows of ``step`` elements over ``extent``, the last one cut at the edge.

    ``for i in tile(extent, step)`` inside a ``@func`` becomes one loop node whose variable is used as an
    index: ``x[i, :]`` is the window. ``over`` names the mesh axis that takes the tiles in turn.

    Raises:
        TypeError: an extent that is neither an int nor a dim.
        ValueError: a step below 1.
    """
    return LoopRange("tile", 0, _extent("tile", extent), _step("tile", step), over)


def _extent(name: str, value: Any) -> Dim:
    if isinstance(value, (DimVar, DimExpr)):
        return value
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} runs over ints and extents, got {value!r}")
    return value.__index__()


def _step(name: str, value: Any) -> Dim:
    step = _extent(name, value)
    if isinstance(step, int) and step < 1:
        raise ValueError(f"the step of {name} must be at least 1, got {step}")
    return step
