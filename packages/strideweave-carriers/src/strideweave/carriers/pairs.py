"""Holding two carriers for a move in one step, in a third of the time of ``hold_for_read`` and ``hold_for_write``."""

from __future__ import annotations

from .base import Carrier


def try_hold_pair(source: Carrier, target: Carrier) -> bool:
    """``hold_for_read`` and ``hold_for_write`` at once if nothing stands in the way; neither waits nor says what does.

    The locks are taken one after the other, never both: whoever holds one of them waits for nothing meanwhile.
    """
    with source._lock:
        if source._released or source._stranded or source._writers or source._slot_busy:
            return False
        source._readers.append(None)
    with target._lock:
        if not (
            target._readers
            or target._writers
            or target._slot_busy
            or target._released
            or target._stranded
            or target._owner is not None
            or not target._mutable
        ):
            target._writers.append(None)
            return True
    source._readers.pop()
    return False


def drop_pair(source: Carrier, target: Carrier, wrote: bool) -> None:
    """End a ``try_hold_pair`` that succeeded; ``wrote`` advances the target's version."""
    target._version += wrote
    target._writers.pop()
    source._readers.pop()
