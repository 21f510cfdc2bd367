"""Names around a definition, innermost first, and where the definition stands."""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from dataclasses import dataclass
from types import FrameType, FunctionType
from typing import Any

__all__ = ["Enclosure", "Scope", "enclosure_of", "is_class_frame"]

_OPTIMIZED = 0x1


@dataclass(frozen=True, slots=True)
class Scope:
    """Layers of names: class bodies, the enclosing function, its closure, globals, builtins."""

    layers: tuple[Mapping[str, Any], ...]

    def __contains__(self, name: str) -> bool:
        return any(name in layer for layer in self.layers)

    def lookup(self, name: str) -> Any:
        """The innermost value called ``name``; KeyError where there is none."""
        for layer in self.layers:
            if name in layer:
                return layer[name]
        raise KeyError(name)


@dataclass(frozen=True, slots=True)
class Enclosure:
    """Where a definition stands.

    Attributes:
        scope: the names that its signature and body see.
        frame: the frame that runs the definition.
        members: the namespace of the class body it stands in, or None outside a class.
    """

    scope: Scope
    frame: FrameType
    members: Mapping[str, Any] | None


def enclosure_of(function: FunctionType, frame: FrameType) -> Enclosure:
    """What surrounds ``function``, decorated from ``frame`` or from a helper that ``frame`` calls."""
    home = _defining_frame(function, frame)
    layers = [*_frame_layers(home), _closure(function), function.__globals__, vars(builtins)]
    return Enclosure(Scope(tuple(layers)), home, home.f_locals if is_class_frame(home) else None)


def is_class_frame(frame: FrameType) -> bool:
    """True where ``frame`` runs a class body."""
    return not frame.f_code.co_flags & _OPTIMIZED and frame.f_locals is not frame.f_globals


def _defining_frame(function: FunctionType, frame: FrameType) -> FrameType:
    candidate: FrameType | None = frame
    while candidate is not None:
        if any(const is function.__code__ for const in candidate.f_code.co_consts):
            return candidate
        candidate = candidate.f_back
    return frame


def _frame_layers(frame: FrameType) -> list[Mapping[str, Any]]:
    layers: list[Mapping[str, Any]] = []
    node: FrameType | None = frame
    while node is not None and is_class_frame(node):
        layers.append(node.f_locals)
        node = node.f_back
    if node is not None and node.f_code.co_flags & _OPTIMIZED:
        layers.append(dict(node.f_locals))
    return layers


def _closure(function: FunctionType) -> dict[str, Any]:
    found = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # assigned only after the definition
            continue
    return found
