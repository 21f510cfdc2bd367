"""Where the disk cache lies."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import threading
import warnings
from pathlib import Path

__all__ = ["VARIABLE", "cache_directory", "configured_directory"]

VARIABLE = "TILEFOUNDRY_CACHE_DIR"

_fallbacks: dict[str, Path] = {}
_lock = threading.Lock()


def configured_directory() -> Path:
    """The directory that the environment asks for, whether it is usable or not."""
    given = os.environ.get(VARIABLE)
    if given:
        return Path(given).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME")
    root = Path(base) if base and os.path.isabs(base) else Path.home() / ".cache"
    return root / "tilefoundry"


def cache_directory() -> Path:
    """A directory that can be written: the configured one, else a private temporary one, with a warning.

    The temporary one is gone when the process ends.
    """
    wanted = configured_directory()
    reason = _why_unwritable(wanted)
    if reason is None:
        return wanted
    with _lock:
        if str(wanted) not in _fallbacks:
            _fallbacks[str(wanted)] = _private(wanted, reason)
        return _fallbacks[str(wanted)]


def _why_unwritable(directory: Path) -> str | None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            return None
    except OSError as error:
        return error.strerror or str(error)


def _private(wanted: Path, reason: str) -> Path:
    private = Path(tempfile.mkdtemp(prefix="tilefoundry-"))
    atexit.register(shutil.rmtree, private, ignore_errors=True)
    warnings.warn(
        f"the cache directory {wanted} cannot be written ({reason}); compiled libraries of this process go to "
        f"{private} and are lost at its end. Set {VARIABLE} to a writable directory",
        stacklevel=2,
    )
    return private
