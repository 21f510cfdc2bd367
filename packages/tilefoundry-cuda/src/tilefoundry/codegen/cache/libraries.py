"""The library that lies under a key, or that is built now."""

from __future__ import annotations

import atexit
import secrets
import shutil
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from tilefoundry.codegen.cache.disk import DiskCache
from tilefoundry.codegen.cache.place import cache_directory, configured_directory

__all__ = ["Build", "built_library", "kept_library"]

Build = Callable[[Path, Path, Path], "Mapping[str, Any] | None"]
"""Writes ``library.so`` into a folder: from the cache's root, that folder, and where it lies afterwards."""

_TRIES = 3


def kept_library(key: Callable[[], str], build: Build) -> Path:
    """The library of the key in the cache, built where there is none; ``key()`` gives what is there at that moment.

    A cache that was filled by somebody else serves even where it cannot be written.

    What the key is made of may change while a library is built: then nothing is kept, and it is built again.

    Raises:
        RuntimeError: it changed every time.
    """
    for _ in range(_TRIES):
        wanted = key()
        found = DiskCache(configured_directory()).find(wanted)
        if found is not None:
            return found
        with suppress(_Changed):
            return _built(cache_directory(), wanted, key, build)
    raise RuntimeError(
        f"a compiler or a header of the runtime changed in each of {_TRIES} builds of a library; compile again when "
        "they stay as they are"
    )


class _Changed(Exception):
    """What was built is of two states of its sources."""


def _built(root: Path, wanted: str, key: Callable[[], str], build: Build) -> Path:
    def checked(folder: Path) -> Mapping[str, Any] | None:
        facts = build(root, folder, DiskCache(root).folder(wanted))
        if key() != wanted:
            raise _Changed
        return facts

    return DiskCache(root).get_or_build(wanted, checked)


def built_library(build: Build) -> Path:
    """A library that is built now, for this process alone: nothing says when another would be equal."""
    root, key = _private_directory(), secrets.token_hex(32)
    return DiskCache(root).get_or_build(key, lambda folder: build(root, folder, DiskCache(root).folder(key)))


@cache
def _private_directory() -> Path:
    private = Path(tempfile.mkdtemp(prefix="tilefoundry-"))
    atexit.register(shutil.rmtree, private, ignore_errors=True)
    return private
