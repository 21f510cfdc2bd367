"""Tiles in the order in which an operation looks at them; those that are not on primary are read ahead of it.

The caller has pinned the tiles. They come in groups: while the operation works on one, copies of the next are under
way. All groups together take no more staging than one piece of other work would, or the tiles of one step.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from ...movement.interrupts import interrupts_deferred
from .tile_reader import Found, fetch, locate, settle, staging

if TYPE_CHECKING:
    from ...movement.completion import Completion
    from .core import Core
    from .slots import Slab, Slot

Key = TypeVar("Key")
GROUP = 16 << 20
"""Bytes that are read at once, which keep a link busy while the group before is worked on."""

STEPS = 1024
"""Steps of a group, at most."""

GROUPS = 3
"""One that is worked on, and those on their way behind it."""


class Group(NamedTuple, Generic[Key]):
    """Steps, where their tiles can be read once ``stored`` have come to ``room``, and the copies that bring these."""

    steps: list[tuple[Key, Sequence[int]]]
    found: Found
    stored: list[tuple[int, Slot]]
    parts: list[Completion[None]]
    room: Slab | None


class TileStream(Generic[Key]):
    """Of each ``(key, codes)`` in ``steps``, in turn, ``key`` and where each of its tiles can be read (None: zero).

    A context manager that gives an iterator. What it gives holds until the next is asked for; at the end of the block
    nothing is under way any more. A copy that failed is raised where its tiles are asked for.
    """

    def __init__(self, core: Core, steps: Iterable[tuple[Key, Sequence[int]]]) -> None:
        self._core, self._steps = core, iter(steps)
        self._rooms = Rooms(core)
        self._per = max(1, min(self._rooms.limit // GROUPS, -(-GROUP // core.tile_bytes)))
        self._begun: deque[Group[Key]] = deque()
        self._waiting: Group[Key] | None = None

    def __enter__(self) -> Iterator[tuple[Key, Found]]:
        return self._run()

    def __exit__(self, *_: object) -> None:
        # Nobody asks for these any more, but their copies read tiles that the caller is about to let go.
        with interrupts_deferred():
            for group in self._begun:
                with suppress(BaseException):
                    settle(group.parts)
            if self._begun:
                self._core.mover.finish()
            self._begun.clear()

    def _run(self) -> Iterator[tuple[Key, Found]]:
        begun = self._begun
        self._begin()
        while begun:
            group = begun[0]
            settle(group.parts)
            for key, codes in group.steps:
                yield key, {code: group.found[code] for code in codes}
            if group.room is not None:
                # What is queued still reads there, and the next group is about to be written there.
                self._core.mover.finish()
                self._rooms.give(group.room)
            begun.popleft()
            self._begin()

    def _begin(self) -> None:
        """Submit as many groups as there is staging for."""
        begun = self._begun
        while len(begun) < GROUPS:
            group = self._waiting or self._collect()
            self._waiting = None
            if group is None:
                return
            if group.stored:
                room = self._rooms.take(len(group.stored))
                if room is None:
                    self._waiting = group
                    return
                with interrupts_deferred():
                    places, parts = fetch(self._core, group.stored, room)
                    group.found.update(places)
                    group = group._replace(parts=parts, room=room)
                    begun.append(group)
            else:
                begun.append(group)

    def _collect(self) -> Group[Key] | None:
        """The next steps whose tiles make up a group; None after the last."""
        steps: list[tuple[Key, Sequence[int]]] = []
        found: Found = {}
        stored: list[tuple[int, Slot]] = []
        for step in self._steps:
            steps.append(step)
            locate(self._core, step[1], found, stored)
            if len(stored) >= self._per or len(steps) >= STEPS:
                break
        return Group(steps, found, stored, [], None) if steps else None


class Rooms:
    """Staging of one stream: as many tiles as one piece of work may stage, in all, or one group's."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self.limit = core.staged_at_once()
        self._held = 0
        self._spare: list[Slab] = []

    def take(self, tiles: int) -> Slab | None:
        """Room for ``tiles``; None while others have what there is."""
        for k, room in enumerate(self._spare):
            if room.tiles >= tiles:
                return self._spare.pop(k)
        while self._spare and self._held + tiles > self.limit:
            self._held -= self._spare.pop().tiles
        if self._held and self._held + tiles > self.limit:
            return None
        self._held += tiles
        return staging(self._core, tiles)

    def give(self, room: Slab) -> None:
        """Nothing reads there any more."""
        self._spare.append(room)
