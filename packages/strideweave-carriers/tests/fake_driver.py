"""A stand-in for CUDA's driver: streams are counts of copies queued and done, an event stands for a count."""

from __future__ import annotations

import ctypes
import threading
from collections import defaultdict

from strideweave.movement import driver

LANE = 7
"""The stream that a ``Stream`` here names."""


class Library:
    """What ``driver._Calls`` offers. ``refuse`` is the status of the next call, or of the next one named ``refuse_at``.

    With ``late`` a copy's bytes move once something shows that it is done: a wait, or ``finish``.
    """

    def __init__(self, late=False):
        self.late, self.lock = late, threading.RLock()
        self.queued, self.done, self.pending = defaultdict(int), defaultdict(int), defaultdict(list)
        self.events, self.records, self.waited = {}, 0, []
        self.refuse, self.refuse_at = 0, ""

    def _status(self, name, otherwise=0):
        if self.refuse_at not in ("", name):
            return otherwise
        status, self.refuse, self.refuse_at = self.refuse, 0, ""
        return status or otherwise

    def finish(self, stream, count=None):
        """The first ``count`` copies of ``stream``, or all, are done."""
        with self.lock:
            count = self.queued[stream] if count is None else count
            for copy in self.pending[stream][: max(0, count - self.done[stream])]:
                ctypes.memmove(*copy)
            del self.pending[stream][: max(0, count - self.done[stream])]
            self.done[stream] = max(self.done[stream], count)

    def reason(self, status, into):
        if status == 999:
            return 1
        ctypes.cast(into, ctypes.POINTER(ctypes.c_char_p))[0] = f"reason {status}".encode()
        return 0

    def copy(self, target, source, nbytes, stream):
        status = self._status("copy")
        if not status:
            with self.lock:
                if not self.late:
                    ctypes.memmove(target, source, nbytes)
                    target = source = nbytes = 0
                self.pending[stream].append((target, source, nbytes))
                self.queued[stream] += 1
        return status

    def queue(self, target, source, nbytes, stream):
        return self.copy(target, source, nbytes, stream)

    def stream_query(self, stream):
        busy = self.done[stream] < self.queued[stream]
        return self._status("stream_query", driver.NOT_READY if busy else 0)

    def stream_synchronize(self, stream):
        self.finish(stream)
        return self._status("stream_synchronize")

    def event_create(self, into, flags):
        assert flags == driver.NO_TIMING
        with self.lock:
            handle = 100 + len(self.events)
            self.events[handle] = (LANE, 0)
        ctypes.cast(into, ctypes.POINTER(ctypes.c_void_p))[0] = handle
        return self._status("event_create")

    def event_record(self, event, stream):
        status = self._status("event_record")
        if not status:
            with self.lock:
                self.events[event] = stream, self.queued[stream]
                self.records += 1
        return status

    def event_query(self, event):
        stream, count = self.events[event]
        return self._status("event_query", driver.NOT_READY if self.done[stream] < count else 0)

    def event_synchronize(self, event):
        self.finish(*self.events[event])
        return self._status("event_synchronize")

    def wait_event(self, stream, event, flags):
        self.waited.append((stream, event, flags))
        return self._status("wait_event")


class Stream:
    """What torch would give for the stream ``LANE``; remembers which threads asked it for something."""

    cuda_stream = LANE
    device_index = -1
    """torch changes nothing for a device below 0."""

    def __init__(self, device=None, priority=0):
        self.asked_by = []

    def query(self):
        self.asked_by.append(threading.get_ident())
        return True

    def synchronize(self):
        driver.synchronize(self)
