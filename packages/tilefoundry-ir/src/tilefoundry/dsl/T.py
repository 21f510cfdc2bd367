"""The statement-level ops by name: ``T.copy``, ``T.reduce``, ``T.launch``, ... for ``@prim_func`` bodies.

Tile ops take buffers and windows of them, scalar ops take elements and numbers; ``copy``, ``clamp`` and
``relu`` are either, by their operands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilefoundry.dsl.prim.refs import NAMES, PrimOpRef

__all__ = list(NAMES)

globals().update({_name: PrimOpRef(_name) for _name in NAMES})

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
