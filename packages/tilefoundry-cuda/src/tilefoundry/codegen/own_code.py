"""What the compiler itself consists of, as a digest: the part of a program's key that an update of it changes."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from functools import cache

import tilefoundry
from tilefoundry.codegen.cache import Status, noted, status_of
from tilefoundry.codegen.headers import headers_status, include_dirs

__all__ = ["own_code", "sources_stand"]

_KINDS = (".py", ".h", ".cuh")
_MARGIN = 0.1
"""Seconds by which files must be older than this process: times of files go by coarser steps than the clock."""


def own_code() -> str | None:
    """The digest of the package's Python and C++ sources; None where some changed after this process began.

    What runs then is not what lies there, and nothing may be told from the files. Headers, which are read whenever a
    library is built, are looked at each time. Thread-safe.
    """
    digest, headers = _as_begun()
    return digest if headers == headers_status() else None


@cache
def _as_begun() -> tuple[str | None, Status]:
    """What ``own_code`` gives while the headers stay as they are, and their status."""
    headers, seen = headers_status(), _status()
    return noted("own code", seen, _status, _digest) if _is_older(seen) else None, headers


def sources_stand() -> bool:
    """Whether no source changed since this process began, up to now: modules and headers are read when first used."""
    return _is_older(_status())


def _is_older(seen: Status) -> bool:
    return seen.changed <= tilefoundry.IMPORTED_AT - _MARGIN


def _status() -> Status:
    return status_of(entry for _, entry in _files())


def _digest() -> str:
    total = hashlib.sha256()
    for name, entry in _files():
        with open(entry.path, "rb") as file:
            content = file.read()
        total.update(f"{name}\0{len(content)}\0".encode() + content)
    return total.hexdigest()


def _files() -> Iterator[tuple[str, os.DirEntry[str]]]:
    """All sources in a fixed order, with their names under the folders that hold them."""
    (headers,) = include_dirs(cute=False)
    for root in sorted(
        {*map(os.path.realpath, tilefoundry.__path__), os.path.realpath(headers / "tilefoundry")}
    ):
        for entry in _under(root):
            yield entry.path.removeprefix(root), entry


def _under(folder: str) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as found:
        entries = sorted(found, key=lambda entry: entry.name)
    for entry in entries:
        if entry.is_dir():
            # Folders may be links: what lies behind is imported too. The headers of a wheel lie inside of its package
            # and are a folder of their own above.
            if entry.name not in ("__pycache__", "_include"):
                yield from _under(entry.path)
        elif entry.name.endswith(_KINDS):
            yield entry
