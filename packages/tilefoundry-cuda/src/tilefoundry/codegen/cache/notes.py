"""Facts about files that take long to find, kept on disk for as long as the files stay what they are.

A file counts as the same while its place, size, times of content and of status, and number on its device are: the last
two change with every write and every replacement, whatever a program does to the first. Notes are
``<root>/notes/<digest of what and which files>``; each holds the digest of its own text, so that damage is seen.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tilefoundry.codegen.cache.place import configured_directory

__all__ = ["NOTES", "Status", "noted", "status_of"]

NOTES = "notes"
_SETTLED = 2.0
"""Seconds that must have passed since a file changed: within the clock's step a second change would go unseen."""


@dataclass(frozen=True, slots=True)
class Status:
    """Of a set of files: ``digest`` tells two apart, ``changed`` is their last change in seconds of the epoch."""

    digest: str
    changed: float


def status_of(files: Iterable[os.DirEntry[str] | Path]) -> Status:
    """The status of ``files``, which are named by their full paths; OSError for one that is not there."""
    rows = [(os.fspath(file), file.stat()) for file in files]
    facts = [(path, s.st_size, s.st_mtime_ns, s.st_ctime_ns, s.st_ino, s.st_dev) for path, s in rows]
    changed = max((max(s.st_mtime_ns, s.st_ctime_ns) for _, s in rows), default=0)
    return Status(hashlib.sha256(repr(facts).encode()).hexdigest(), changed / 1e9)


def noted(what: str, before: Status, again: Callable[[], Status], find: Callable[[], str]) -> str:
    """What ``find()`` gives, from disk where files of that status were asked about before.

    Args:
        what: which fact, and everything it depends on besides the files.
        before: the status of the files it depends on.
        again: gives their status anew, to see that none changed meanwhile.
        find: finds it; whatever it raises comes through and nothing is kept.

    A cache that cannot be written only forgets. Thread-safe.
    """
    place = _place(what, before)
    kept = _read(place)
    if kept is not None:
        return kept
    value = find()
    if again() == before and time.time() - before.changed > _SETTLED:
        with suppress(OSError):
            _write(place, value)
    return value


def _place(what: str, status: Status) -> Path:
    key = hashlib.sha256(f"{what}\0{status.digest}".encode()).hexdigest()
    return configured_directory() / NOTES / key


def _read(place: Path) -> str | None:
    try:
        digest, _, value = place.read_text(encoding="utf-8").partition("\n")
    except (OSError, ValueError):
        return None
    return value if digest == _sealed(place, value) else None


def _write(place: Path, value: str) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=place.parent, delete=False, encoding="utf-8") as written:
        written.write(f"{_sealed(place, value)}\n{value}")
    os.replace(written.name, place)


def _sealed(place: Path, value: str) -> str:
    return hashlib.sha256(f"{place.name}\n{value}".encode()).hexdigest()
