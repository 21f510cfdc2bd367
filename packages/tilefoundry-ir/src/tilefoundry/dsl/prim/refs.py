"""What the ``T`` namespace holds: names that a ``@prim_func`` body calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilefoundry.ir.tir.ops import SCALAR_OPS, TILE_OPS

__all__ = ["NAMES", "PrimOpRef"]


@dataclass(frozen=True)
class PrimOpRef:
    """A statement-level op as a name that a program calls; calling it from plain Python is a TypeError."""

    name: str

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(f"T.{self.name} has a meaning inside a @prim_func only")

    def __repr__(self) -> str:
        return f"T.{self.name}"


_CONTROL = ("abort", "accumulator", "attention", "contract", "elements", "launch", "parallel", "vectorized")
NAMES = tuple(dict.fromkeys((*TILE_OPS, *SCALAR_OPS, *_CONTROL)))
"""Every name of the namespace: tile ops, scalar ops, control."""
