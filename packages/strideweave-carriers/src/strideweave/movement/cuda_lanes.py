"""What device copies run on: a stream, a reaper thread and page-locked buffers per device and direction."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any

from .. import seam
from . import driver
from .bursts import Turn
from .captures import beside_captures
from .completion import Completion
from .convoy import FULL, LONGEST, Convoy
from .flight import Flight
from .pool import DEMAND
from .reaper import Reaper, Settle, Watch

if TYPE_CHECKING:
    import torch

SLOT = 16 << 20
SLOTS = 4


class NothingLeft:
    """On a failure within, waits for what was queued before it: its memory may be given back afterwards."""

    __slots__ = ("_stream",)

    def __init__(self, stream: torch.cuda.Stream) -> None:
        self._stream = stream

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            self._stream.synchronize()


_streams: dict[tuple[int, int], torch.cuda.Stream] = {}


def current_stream(device: int) -> torch.cuda.Stream:
    """torch's current stream of ``device``, without making the object, and asking what devices there are, each time."""
    import torch

    key = device, torch._C._cuda_getCurrentRawStream(device)
    found = _streams.get(key)
    if found is None:
        found = _streams[key] = torch.cuda.current_stream(device)
    return found


class queued_on:
    """Within it work goes to ``stream``; like ``torch.cuda.stream``, in a fraction of the time on the same device."""

    __slots__ = ("_before", "_context", "_stream")

    def __init__(self, stream: torch.cuda.Stream) -> None:
        self._stream = stream

    def __enter__(self) -> None:
        import torch

        device = self._stream.device_index
        if torch.cuda.current_device() != device:
            self._context = torch.cuda.stream(self._stream)
            self._context.__enter__()
            return
        self._context, self._before = None, current_stream(device)
        torch.cuda.set_stream(self._stream)

    def __exit__(self, *error: object) -> None:
        import torch

        if self._context is not None:
            self._context.__exit__(*error)
        else:
            torch.cuda.set_stream(self._before)


class Marks:
    """Events of one stream, used again once what followed them is done. Safe from any thread.

    Whoever still looks at one that was given back sees later work of the stream, which is no less.
    """

    __slots__ = ("_free", "_stream")

    def __init__(self, stream: torch.cuda.Stream) -> None:
        self._stream = stream
        self._free: list[driver.Event] = []

    def take(self) -> Any:
        """An event that stands for everything queued on the stream so far."""
        if not driver.is_there():
            return self._stream.record_event()
        try:
            event = self._free.pop()
        except IndexError:
            with beside_captures():
                event = driver.Event(self._stream)
        event.record()
        return event

    def take_bound(self, calls: driver.Calls) -> Any:
        """``take``, for callers that have ``calls`` of ``driver.bound``."""
        try:
            event = self._free.pop()
        except IndexError:
            with beside_captures():
                event = driver.Event(self._stream)
        event.record_bound(calls)
        return event

    def give(self, event: Any) -> None:
        """Nothing will follow ``event`` any more."""
        if isinstance(event, driver.Event):
            self._free.append(event)


class Marked(Watch):
    """A watch of an event of ``marks``, which goes back there; ``keep`` lives until what follows has been done."""

    __slots__ = ("_keep", "_marks")

    def __init__(
        self, reaper: Reaper, event: Any, settle: Settle, lazy: bool, marks: Marks, keep: object
    ) -> None:
        # Not through the class above: one of these is made with every request.
        self._reaper, self.event, self.lazy = reaper, event, lazy
        self._todo, self._waiting = [settle], []
        self._marks, self._keep = marks, keep

    def give_back(self) -> None:
        """See ``Watch.give_back``."""
        self._keep = None
        self._marks.give(self.event)


def follow(
    reaper: Reaper,
    marks: Marks,
    event: Any,
    settle: Settle,
    waited: Completion[Any],
    lazy: bool = False,
    keep: object = None,
) -> None:
    """Call ``settle`` once ``event``, which was taken from ``marks``, has passed; who waits for ``waited`` helps."""
    watch = Marked(reaper, event, settle, lazy, marks, keep)
    reaper.add(watch)
    waited.assist(watch)


class Lane:
    """One device and direction: its stream, its reaper and its ring of page-locked buffers."""

    def __init__(self, device: int, direction: str, priority: int) -> None:
        import torch

        self.device, self.behind = device, priority != DEMAND
        urgent = priority == DEMAND and direction != "d2d"
        self.stream = torch.cuda.Stream(device, priority=-1 if urgent else 0)
        self.reaper = Reaper(f"strideweave-{direction}-{device}" + "-behind" * (priority != DEMAND))
        self.handle: int = self.stream.cuda_stream
        self.marks = Marks(self.stream)
        self.gate = threading.Lock()
        self._open: Convoy | None = None
        self._turn: Turn | None = None
        self._ring: list[tuple[torch.Tensor, torch.cuda.Event]] = []
        self.lock = threading.Lock()

    def clear(self) -> torch.cuda.Stream:
        """The stream, for work that the moves queued so far need not wait for.

        Raises:
            RuntimeError: the device refuses.
        """
        convoy = self._open
        if convoy is not None:
            convoy.mark()
        return self.stream

    def carry(self, flight: Flight, nbytes: int) -> None:
        """Settle ``flight``, whose copy was the last thing queued on the stream by this thread, once that is done."""
        with self.gate:
            convoy = self._open
            if convoy is None:
                convoy = self._open = Convoy(self)
                self.reaper.add(convoy)
            flight.convoy = convoy
            convoy.flights.append(flight)
            convoy.nbytes += nbytes
            full = convoy.nbytes >= FULL or len(convoy.flights) >= LONGEST
        if full:
            convoy.mark()

    def leave(self, convoy: Convoy) -> None:
        """``convoy`` takes nothing more; the caller holds ``gate``."""
        if self._open is convoy:
            self._open = None

    def give_way(self) -> None:
        """Let copies of other streams that come meanwhile go before what is queued here from now on."""
        turn = self._turn
        if turn is None:
            # Of two threads that make one either's will do.
            turn = self._turn = Turn(self.stream, self.device)
        turn.queue()

    def ring(self) -> list[tuple[torch.Tensor, torch.cuda.Event]]:
        """The buffers, each with the event of its last copy; the caller holds ``lock``."""
        import torch

        while len(self._ring) < SLOTS:
            seam.enter("allocate")
            buffer = torch.empty(SLOT, dtype=torch.uint8, device="cpu").pin_memory()
            self._ring.append((buffer, torch.cuda.Event(blocking=True)))
        return self._ring

    def finish(self, completion: Completion[None], keep: object) -> None:
        """Settle ``completion`` after everything queued on the stream so far; ``keep`` lives until then."""

        def settle(error: BaseException | None) -> None:
            if error is None:
                completion.resolve(None)
            else:
                completion.reject(error)

        self.follow(completion, settle, keep)

    def follow(self, completion: Completion[Any], settle: Settle, keep: object = None) -> None:
        """Call ``settle`` after everything queued on the stream so far; who waits for ``completion`` helps."""
        event = self.marks.take()
        follow(self.reaper, self.marks, event, settle, completion, not completion.urgent, keep)


_lanes: dict[tuple[int, str, int], Lane] = {}
_guard = threading.Lock()


def lane(device: int, direction: str, priority: int = DEMAND) -> Lane:
    """The lane of a device in a direction (``h2d``, ``d2h``, ``d2d``), made at first use.

    Copies that nobody waits for yet have lanes of their own, so that others need not queue behind them.
    """
    key = (device, direction, priority)
    found = _lanes.get(key)
    if found is None:
        with _guard:
            found = _lanes.get(key)
            if found is None:
                found = _lanes[key] = Lane(device, direction, priority)
    return found


_inherited: list[object] = []


def _after_fork() -> None:
    global _guard, _lanes
    _guard = threading.Lock()
    # Destroying the parent's streams and events here would call a device that the child cannot use.
    _inherited.append((_lanes, dict(_streams)))
    _lanes = {}
    _streams.clear()


os.register_at_fork(after_in_child=_after_fork)
