"""Convoy: small device copies queued one after another on a lane that share the event which says that they are done.

An event costs the submitting thread a tenth of what a megabyte takes on the link, and settling each move by itself as
much again. Whoever waits for one of a convoy waits for those queued before the event too, ``FULL`` bytes at the most,
and nothing that must wait for other work of the device ever joins a convoy that is under way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .flight import Flight
from .interrupts import interrupts_deferred
from .reaper import Watch

if TYPE_CHECKING:
    from .cuda_lanes import Lane

FULL = 4 << 20
"""A convoy of this many bytes takes nothing more; a link moves them in less than a tenth of a millisecond."""

LONGEST = 32
"""Nor one of this many moves: whoever waits for one settles all."""


class Convoy(Watch):
    """The moves of one convoy, in the order in which their copies were queued. Its lane's gate guards what is open."""

    __slots__ = ("_lane", "flights", "nbytes")

    def __init__(self, lane: Lane) -> None:
        Watch.__init__(self, lane.reaper, None, _nothing, True)
        self._lane = lane
        self.flights: list[Flight] = []
        self.nbytes = 0

    def mark(self) -> Any:
        """The event, recorded now if there is none: from here on nothing joins.

        Raises:
            RuntimeError: the device refuses.
        """
        if self.event is None:
            lane = self._lane
            with lane.gate:
                if self.event is None:
                    lane.leave(self)
                    self.event = lane.marks.take()
        return self.event

    def settle(self, error: BaseException | None) -> None:
        """End every move of the convoy, if nobody has begun to."""
        with interrupts_deferred():
            try:
                # Of two threads one finds it gone.
                self._todo.pop()
            except IndexError:
                return
            for flight in self.flights:
                flight.ended(error)
            self.flights = []
            if error is None:
                self._lane.marks.give(self.event)


def _nothing(error: BaseException | None) -> None:
    """What follows is the convoy's own."""
