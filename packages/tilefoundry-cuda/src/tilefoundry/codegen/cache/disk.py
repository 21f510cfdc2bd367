"""Content-addressed folders: one per library, written once, verified when read.

Layout: ``<root>/<first two digits>/<key>/{library.so, entry.json, source...}`` and ``<root>/locks/<key>.lock``; beside
them what ``programs.py`` and ``notes.py`` keep. A folder appears by one rename, so readers never see half of it.
Builders of one key take turns, by a thread lock within a process and a file lock between processes; the system drops a
file lock when its holder dies.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from filelock import FileLock

from tilefoundry.codegen.cache.notes import NOTES
from tilefoundry.codegen.cache.programs import PROGRAMS, ProgramIndex

__all__ = ["DiskCache", "Usage", "facts_of", "keep_beside"]

LIBRARY = "library.so"
RECORD = "entry.json"
LIMIT_VARIABLE = "TILEFOUNDRY_CACHE_LIMIT"
DEFAULT_LIMIT = 4 * 2**30
_RECORDS = 16
ABANDONED = 3600.0
"""Seconds after which a folder that a builder still writes counts as left by one that was killed."""

_threads: dict[str, threading.Lock] = {}
_threads_lock = threading.Lock()


def _configured_limit() -> int:
    given = os.environ.get(LIMIT_VARIABLE)
    if not given:
        return DEFAULT_LIMIT
    if not (given.isascii() and given.isdigit()):
        raise ValueError(
            f"{LIMIT_VARIABLE}={given}: expected a number of bytes, such as {DEFAULT_LIMIT} for 4 GiB, the default"
        )
    return int(given)


@dataclass(frozen=True, slots=True)
class Usage:
    """One cached library: key, bytes, time of last use in seconds since the epoch."""

    key: str
    size: int
    used: float


@dataclass(frozen=True, slots=True)
class DiskCache:
    """A cache under ``root``. Any number of threads and processes may use one.

    ``limit`` bounds the bytes kept; the least recently used libraries go first. A library that a process has
    loaded may be removed: its file stays until the process ends.
    """

    root: Path
    limit: int = field(default_factory=_configured_limit)

    def get_or_build(self, key: str, build: Callable[[Path], Mapping[str, Any] | None]) -> Path:
        """The library of ``key``; ``build(folder)`` writes ``library.so`` and what else is to be kept with it.

        What it returns, JSON values, is what ``facts_of`` gives from then on. A damaged entry is built again.
        Whatever ``build`` raises comes through, and nothing is kept then.
        """
        found = self._valid(key)
        if found is not None:
            return found
        with self._turn(key):
            found = self._valid(key)
            if found is not None:
                return found
            self._build(key, build)
            found = self._valid(key)
        if found is None:
            raise OSError(
                f"{self.folder(key)}: the library that was just written cannot be read back; check the disk"
            )
        self.prune(keep=key)
        return found

    def find(self, key: str) -> Path | None:
        """The library of ``key`` where it lies there undamaged; also from a cache that cannot be written."""
        return self._valid(key)

    def folder(self, key: str) -> Path:
        """Where the library of ``key`` lies once it is built."""
        return self.root / key[:2] / key

    def _valid(self, key: str) -> Path | None:
        """The library where its bytes are those that were written; marks it as used."""
        folder = self.folder(key)
        library, record = folder / LIBRARY, folder / RECORD
        try:
            wanted = json.loads(record.read_text())
            if not isinstance(wanted, dict) or not isinstance(facts := wanted.get("facts"), dict):
                return None
            if wanted.get("sha256") != _digest(library, facts):
                return None
        except (OSError, ValueError):
            return None
        # A read-only cache still serves; it only forgets what was used last.
        with suppress(OSError):
            os.utime(record)
        return library

    def _build(self, key: str, build: Callable[[Path], Mapping[str, Any] | None]) -> None:
        folder = self.folder(key)
        folder.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=f".{key[:8]}-", dir=self.root))
        try:
            facts = dict(build(work) or {})
            record = {"format": 2, "sha256": _digest(work / LIBRARY, facts), "facts": facts}
            (work / RECORD).write_text(json.dumps(record))
            if folder.exists():
                # A damaged entry: nobody else writes it while this builder has its turn.
                shutil.rmtree(folder)
            os.rename(work, folder)
        finally:
            shutil.rmtree(work, ignore_errors=True)

    @contextmanager
    def _turn(self, key: str) -> Iterator[None]:
        with _threads_lock:
            lock = _threads.setdefault(f"{self.root}/{key}", threading.Lock())
        locks = self.root / "locks"
        locks.mkdir(parents=True, exist_ok=True)
        with lock, FileLock(str(locks / f"{key}.lock")):
            yield

    def entries(self) -> list[Usage]:
        """Every cached library, least recently used first."""
        found = []
        for record in self.root.glob(f"??/*/{RECORD}"):
            try:
                size = sum(one.stat().st_size for one in record.parent.iterdir())
                found.append(Usage(record.parent.name, size, record.stat().st_mtime))
            except OSError:
                continue
        return sorted(found, key=lambda usage: usage.used)

    def prune(self, keep: str = "") -> int:
        """Remove the least recently used libraries until the rest fit the limit, and what killed builders left; the
        number of libraries removed. What programs were compiled to gets a sixteenth of the limit."""
        self._remove_abandoned()
        entries = self.entries()
        records = ProgramIndex(self.root).prune(self.limit // _RECORDS)
        total = records + sum(usage.size for usage in entries)
        removed = 0
        for usage in entries:
            if total <= self.limit:
                break
            if usage.key != keep:
                shutil.rmtree(self.folder(usage.key), ignore_errors=True)
                total -= usage.size
                removed += 1
        return removed

    def _remove_abandoned(self) -> None:
        for folder in self.root.glob(".????????-*"):
            with suppress(OSError):
                if time.time() - folder.stat().st_mtime > ABANDONED:
                    shutil.rmtree(folder, ignore_errors=True)

    def clear(self) -> int:
        """Remove every library, what is known of programs and tools, and what killed builders left; the number of
        libraries removed."""
        self._remove_abandoned()
        for name in (PROGRAMS, NOTES):
            shutil.rmtree(self.root / name, ignore_errors=True)
        entries = self.entries()
        for usage in entries:
            shutil.rmtree(self.folder(usage.key), ignore_errors=True)
        return len(entries)


def facts_of(library: Path) -> dict[str, Any]:
    """What the builder of ``library``, a path that a cache gave, said of it; empty where it said nothing."""
    return json.loads((library.parent / RECORD).read_text())["facts"]


def keep_beside(library: Path, name: str, text: str) -> None:
    """Leave ``text`` as the file ``name`` beside ``library``, a path that a cache gave; equal keys bring equal texts.

    Warns where the cache cannot be written.
    """
    file = library.parent / name
    if file.exists():
        return
    try:
        with tempfile.NamedTemporaryFile("w", dir=file.parent, delete=False, encoding="utf-8") as written:
            written.write(text)
        os.replace(written.name, file)
    except OSError as error:
        warnings.warn(f"{file}: sources are not kept ({error.strerror or error})", stacklevel=2)


def _digest(path: Path, facts: Mapping[str, Any]) -> str:
    """Of the library's bytes, and of what was said of it."""
    with open(path, "rb") as file:
        total = hashlib.file_digest(file, "sha256")
    total.update(json.dumps(facts, sort_keys=True).encode())
    return total.hexdigest()
