"""Long copies in the background, queued a few portions at a time: a device's queue is short, and whoever queues more
than it holds waits until there is room.

The thread that waits for the copy, or else the reaper, queues the next portion when one has ended, while another one
keeps the link busy. What lets other copies in between are the bursts that a portion consists of, see ``bursts``.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from .captures import beside_captures
from .completion import Completion
from .transfer import Run

if TYPE_CHECKING:
    from .cuda_lanes import Lane

PORTION = 512 << 20
"""Bytes, in whole pieces, that are queued and watched together.

A thread that runs Python and nothing else lets the reaper in a few times in 50 ms, in which time it queues one portion:
small ones would leave the link idle.
"""

LONGEST = 2048
"""The most pieces of a portion."""

AHEAD = 2
"""Portions that are queued at once."""


def fits_at_once(runs: Sequence[Run]) -> bool:
    """Whether the runs are no more than what is queued at once anyway."""
    return len(runs) <= LONGEST and sum([run.nbytes for run in runs]) <= AHEAD * PORTION


def portions_of(pieces: Iterable[Run]) -> deque[list[Run]]:
    """The pieces in order, in lists of at least ``PORTION`` bytes or of ``LONGEST`` pieces, but for the last."""
    found: deque[list[Run]] = deque()
    room = 0
    for piece in pieces:
        if room <= 0 or len(found[-1]) == LONGEST:
            found.append([])
            room = PORTION
        found[-1].append(piece)
        room -= piece.nbytes
    return found


class Portions:
    """One copy on lane ``on``: ``queue`` puts runs on its stream and gives what must live until they are done.

    ``completion`` settles after the last portion; a failure keeps what is not queued yet from being queued.
    """

    def __init__(
        self, pieces: Iterable[Run], queue: Callable[[Sequence[Run]], object], on: Lane, keep: object
    ) -> None:
        self.completion: Completion[None] = Completion()
        self._left = portions_of(pieces)
        self._queue, self._on, self._keep = queue, on, keep
        self._open = 0
        self._error: BaseException | None = None
        self._lock = threading.Lock()

    def begin(self) -> None:
        """Queue the first portions. What this raises means that nothing is under way."""
        first = [self._left.popleft() for _ in range(min(AHEAD, len(self._left)))]
        self._open = len(first)
        for k, portion in enumerate(first):
            try:
                self._send(portion)
            except BaseException as error:
                if k == 0:
                    raise
                for _ in first[k:]:
                    self._settled(error)
                return

    def _send(self, portion: Sequence[Run]) -> None:
        import torch

        # A later portion is sent by whichever thread found an earlier one done.
        with beside_captures(), torch.cuda.device(self._on.device):
            keep = self._queue(portion), self._keep

            def settle(error: BaseException | None, keep: object = keep) -> None:
                self._settled(error)

            self._on.follow(self.completion, settle)

    def _settled(self, error: BaseException | None) -> None:
        with self._lock:
            self._open -= 1
            if self._error is None:
                self._error = error
            following = self._left.popleft() if self._left and self._error is None else None
            if following is not None:
                self._open += 1
            last = self._open == 0
        if following is not None:
            try:
                self._send(following)
            except BaseException as failure:
                self._settled(failure)
        elif last and self._error is not None:
            self.completion.reject(self._error)
        elif last:
            self.completion.resolve(None)


def queue_in_turn(pieces: Iterable[Run], queue: Callable[[Sequence[Run]], object], on: Lane) -> None:
    """The same on a thread that may wait: returns once the last portion is queued, the others are done by then or soon.

    Raises:
        RuntimeError: the device failed at a portion. The caller sees to what is queued.
    """
    under_way: deque[Any] = deque()
    for portion in portions_of(pieces):
        if len(under_way) == AHEAD:
            done = under_way.popleft()
            done.synchronize()
            on.marks.give(done)
        queue(portion)
        under_way.append(on.marks.take())
    # Whoever follows the whole waits for the lane's next event, after which these have passed too.
    for mark in under_way:
        on.marks.give(mark)
