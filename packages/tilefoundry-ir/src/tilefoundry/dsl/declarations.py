"""``@module(...)`` calls whose class body is still running: what the body's functions must know of them."""

from __future__ import annotations

from collections import OrderedDict
from types import FrameType
from typing import Any

from tilefoundry.dsl.scope import is_class_frame

__all__ = ["declare", "settle", "topologies_in_force"]

# The decorator's arguments are evaluated before the class body runs, in the frame that defines the class, on
# a line of the class statement: that is how a body finds them. A body that raises leaves its entry behind,
# so the table is bounded.
_MOST = 512
_Key = tuple[int, str, int]
_PENDING: OrderedDict[_Key, tuple[Any, ...] | None] = OrderedDict()


def declare(frame: FrameType, topologies: tuple[Any, ...] | None) -> _Key:
    """Note the topologies of the class statement that ``frame`` is about to run."""
    key = (id(frame), frame.f_code.co_filename, frame.f_lineno)
    _PENDING[key] = topologies
    _PENDING.move_to_end(key)
    while len(_PENDING) > _MOST:
        _PENDING.popitem(last=False)
    return key


def settle(key: _Key) -> None:
    """Forget a declaration whose class body has ended."""
    _PENDING.pop(key, None)


def topologies_in_force(frame: FrameType) -> tuple[Any, ...] | None:
    """The levels that the innermost declaring class around ``frame`` gives, or None where none does."""
    node: FrameType | None = frame
    while node is not None and is_class_frame(node):
        outer = node.f_back
        if outer is None:
            return None
        found = _declared(node, outer)
        if found is not None:
            return found
        node = outer
    return None


def _declared(class_frame: FrameType, outer: FrameType) -> tuple[Any, ...] | None:
    first = class_frame.f_code.co_firstlineno
    for frame_id, filename, line in reversed(_PENDING):
        if (
            frame_id == id(outer)
            and filename == outer.f_code.co_filename
            and first <= line <= class_frame.f_lineno
        ):
            return _PENDING[(frame_id, filename, line)]
    return None
