"""Restoration: tiles of other carriers that made room for a request which then failed come back onto primary.

They left one by one, written back first, because their places have another size than the tiles they made room for.
A place that somebody else has taken since is not taken back: that tile stays on secondary, where its value is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ...movement.completion import when_all
from .batch import Batch, Victim
from .request import Request
from .reserve import new_batch
from .table import TileRecord

if TYPE_CHECKING:
    from .core import Core


class Displaced(NamedTuple):
    """A tile of ``core`` that left primary, and what it was then."""

    core: Core
    victim: Victim


def restore(displaced: Sequence[Displaced], what: str, then: Callable[[], None]) -> None:
    """Bring the tiles back as they were, as far as there is room; call ``then`` once that has ended, well or not."""
    by_core: dict[Core, list[Victim]] = {}
    for core, victim in displaced:
        by_core.setdefault(core, []).append(victim)
    undoings = [_undoing(core, victims, what) for core, victims in by_core.items()]
    when_all([undoing.completion for undoing in undoings if undoing is not None], lambda _: then())


def _undoing(core: Core, victims: list[Victim], what: str) -> Request | None:
    request = Request(core, f"the undoing of a failed {what}")
    with core.lock:
        core.admit(request)
    try:
        batch = _reserved(core, request, victims)
        if batch is not None:
            request.begin()
            batch.start()
    except BaseException as error:
        # Nothing was submitted: the tiles stay on secondary.
        request.withdraw(error)
        return None
    request.end()
    return request


def _reserved(core: Core, request: Request, victims: list[Victim]) -> Batch | None:
    """The batch that loads what can come back; growth, which calls providers, happens before the lock is taken."""
    with core.lock:
        missing = core.primary.missing(min(core.room(), len(victims)))
    core.grow(missing, 0)
    with core.lock:
        ready = min(core.room(), len(victims))
        backups = {v.record: v for v in victims if _may_return(core, v.record)}
        records = list(backups)[: min(ready, core.primary.available())]
        if not records:
            return None
        dirty = [backups[r] for r in records if backups[r].backup is not None]
        request.pin(records)
        request.mark = lambda: _as_before(core, dirty)
        request.atomic = True
        batch = new_batch(core, request, records, [])
        # What somebody else needed in the meantime is not kept for nothing.
        core.primary.trim()
        return batch


def _may_return(core: Core, record: TileRecord) -> bool:
    return not core.released and record.primary is None and record.transit is None and record.claim is None


def _as_before(core: Core, victims: Sequence[Victim]) -> None:
    """Tiles that were dirty are so again; their places on secondary are given back. Under the lock."""
    for record, _, backup in victims:
        if record.secondary is backup and backup is not None:
            core.give_secondary(backup)
            record.secondary, record.dirty = None, True
