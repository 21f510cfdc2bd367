"""Put a finished checkpoint in another's place in one step: a killed run leaves the old one or the new one.

Where the file system can exchange two folders, that is the step. Elsewhere the new shard moves in beside the old
one under another name, and renaming the index over the old index is.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count

from tilefoundry.ir.core.shard_file import INDEX_NAME, SHARD_NAME

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

    The files written inside, a shard and its index, must be flushed to disk by the caller.
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
    if not _exchange(stage, target):
        _move_in(stage, target)


def _move_in(stage: str, target: str) -> None:
    """Replace the checkpoint in ``target`` file by file; until the index is renamed, the old one is what is read."""
    old = os.listdir(target)
    used = _shards_in_use(target, old)
    name = next(name for name in _shard_names() if name not in used)
    if name != SHARD_NAME:
        _rename_in_index(os.path.join(stage, INDEX_NAME), name)
    moved = os.path.join(target, name)
    try:
        os.rename(os.path.join(stage, SHARD_NAME), moved)
        _sync_folder(target)
        os.rename(os.path.join(stage, INDEX_NAME), os.path.join(target, INDEX_NAME))
    except BaseException:
        with suppress(OSError):
            os.unlink(moved)
        raise
    _sync_folder(target)
    for left in old:
        if left not in (name, INDEX_NAME):
            os.unlink(os.path.join(target, left))


def _shard_names() -> Iterator[str]:
    return (SHARD_NAME.replace("00001", f"{n:05}") for n in count(1))


def _shards_in_use(folder: str, names: list[str]) -> set[str]:
    """What readers of ``folder`` open; every file where its index is none."""
    if INDEX_NAME not in names:
        return set(names)
    try:
        with open(os.path.join(folder, INDEX_NAME), encoding="utf-8") as file:
            return set(json.load(file)["weight_map"].values())
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return set(names)


def _rename_in_index(path: str, shard: str) -> None:
    with open(path, encoding="utf-8") as file:
        index = json.load(file)
    index["weight_map"] = dict.fromkeys(index["weight_map"], shard)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(index, file, indent=2)
        file.flush()
        os.fsync(file.fileno())


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
