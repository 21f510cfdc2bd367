"""Put a finished folder in another's place in one step: a killed run leaves the old one or the new one."""

from __future__ import annotations

import ctypes
import errno
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["check_destination", "staged_folder"]

_OURS = re.compile(r"model(-\d{5}-of-\d{5})?\.safetensors|model\.safetensors\.index\.json")
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


def check_destination(out_dir: str | os.PathLike[str], raw_dir: str | os.PathLike[str] | None) -> str:
    """The real path of ``out_dir`` once it is clear that writing it loses nothing.

    Raises:
        ValueError: it equals, contains or lies in ``raw_dir``, is no folder, or holds other files.
    """
    target = os.path.realpath(out_dir)
    if raw_dir is not None:
        _refuse_overlap(target, os.path.realpath(raw_dir))
    if not os.path.lexists(target):
        return target
    if not os.path.isdir(target):
        raise ValueError(f"{target} is a file; give prepare a folder to write")
    foreign = sorted(name for name in os.listdir(target) if not _OURS.fullmatch(name))
    if foreign:
        shown = ", ".join(foreign[:5]) + (", ..." if len(foreign) > 5 else "")
        raise ValueError(
            f"{target} holds files that prepare did not write ({shown}); give it a new or empty folder"
        )
    return target


def _refuse_overlap(target: str, raw: str) -> None:
    if target == raw:
        how = "is the raw checkpoint's folder"
    elif os.path.commonpath((target, raw)) == raw:
        how = f"lies inside the raw checkpoint's folder {raw}"
    elif os.path.commonpath((target, raw)) == target:
        how = f"holds the raw checkpoint's folder {raw}"
    else:
        return
    raise ValueError(f"{target} {how}; prepare never writes over what it reads, give it another folder")


@contextmanager
def staged_folder(target: str) -> Iterator[str]:
    """A new folder beside ``target`` that takes its place when the block ends, and is removed when it fails.

    The files written inside must be flushed to disk by the caller. Where the file system cannot exchange two
    folders in one step, the old folder is moved aside first and moved back should the second move fail.
    """
    parent = os.path.dirname(target)
    os.makedirs(parent, exist_ok=True)
    stage = tempfile.mkdtemp(prefix=f".{os.path.basename(target)}.", dir=parent)
    try:
        os.chmod(stage, 0o777 & ~_umask())
        yield stage
        _sync_folder(stage)
        _take_place(stage, target)
        _sync_folder(parent)
    finally:
        # After an exchange the staged name holds the old folder.
        shutil.rmtree(stage, ignore_errors=True)


def _take_place(stage: str, target: str) -> None:
    if not os.path.isdir(target):
        os.rename(stage, target)
        return
    if _exchange(stage, target):
        return
    aside = stage + ".old"
    os.rename(target, aside)
    try:
        os.rename(stage, target)
    except BaseException:
        os.rename(aside, target)
        raise
    shutil.rmtree(aside, ignore_errors=True)


def _exchange(first: str, second: str) -> bool:
    """Swap two names in one step; False where the system cannot."""
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError):
        return False
    code = renameat2(_AT_FDCWD, os.fsencode(first), _AT_FDCWD, os.fsencode(second), _RENAME_EXCHANGE)
    if code == 0:
        return True
    error = ctypes.get_errno()
    if error in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP):
        return False
    raise OSError(error, os.strerror(error), first, None, second)


def _sync_folder(path: str) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _umask() -> int:
    # The mask can only be read by setting it; 0o077 in between keeps a file created meanwhile private.
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
