"""Where the C++ runtime's headers are: packed beside this module, or in the checkout around it; what they hold."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

from tilefoundry.codegen.cache import Status, status_of

PACKED = Path(__file__).resolve().parent / "_include"


def checkout_root() -> Path | None:
    """The repository that an editable install points into, if this module lies in one."""
    for parent in Path(__file__).resolve().parents:
        if (parent / "cpp-runtime" / "include" / "tilefoundry" / "runtime.h").is_file():
            return parent
    return None


def include_dirs(*, cute: bool = True) -> tuple[Path, ...]:
    """Folders to pass with `-I`, in order: the runtime's, then (with `cute`) the pinned CUTLASS tree.

    The CPU target needs no CuTe and passes `cute=False`. CUDA's own headers are not in here.
    Raises FileNotFoundError when a tree is in neither place, saying how to get it.
    """
    packed = (PACKED / "runtime", PACKED / "cutlass")
    if packed[0].is_dir():
        found = packed
    elif root := checkout_root():
        found = (root / "cpp-runtime" / "include", root / "third_party" / "cutlass" / "include")
    else:
        raise FileNotFoundError(
            f"the C++ runtime headers are neither in {packed[0]} nor in a checkout around it; "
            "reinstall tilefoundry-cuda"
        )
    if cute and not (found[1] / "cute").is_dir():
        raise FileNotFoundError(f"{found[1]}: no CUTLASS headers there; run tools/vendor.py in the checkout")
    return found if cute else found[:1]


_READ: dict[str, tuple[tuple[str, str], ...]] = {
    "cpu": (("", "runtime.h"), ("runtime/cpu", ".h"), ("runtime/host", ".h")),
    "cuda": (("", "runtime.h"), ("runtime/cuda", ".cuh"), ("runtime/host", ".h"), ("runtime/cpu", "dtype.h")),
}
"""Target -> folders, and how the names of the headers in and below them end that its code includes."""

_SETTLED = 2.0
"""Seconds that must have passed since a header changed: within the clock's step a second change would go unseen."""

_digests: dict[tuple[str, str], str] = {}


def headers_digest(target: str) -> str:
    """Digest of the runtime's headers that code for ``target``, ``"cpu"`` or ``"cuda"``, includes; CUTLASS is pinned.

    Headers are read again once one of them changed. Thread-safe.
    """
    files = list(_headers(target))
    status = status_of(files)
    kept = _digests.get((target, status.digest))
    if kept is not None:
        return kept
    total = hashlib.sha256()
    for file in files:
        with open(file.path, "rb") as content:
            total.update(file.name.encode() + b"\0" + content.read() + b"\0")
    if status == status_of(_headers(target)) and time.time() - status.changed > _SETTLED:
        _digests[target, status.digest] = total.hexdigest()
    return total.hexdigest()


def headers_status() -> Status:
    """The status of all of the runtime's headers."""
    (root,) = include_dirs(cute=False)
    return status_of(_under(f"{root}/tilefoundry", ("",)))


def _headers(target: str) -> Iterator[os.DirEntry[str]]:
    (root,) = include_dirs(cute=False)
    for folder, ending in _READ[target]:
        found = _under(os.path.join(root, "tilefoundry", folder), (ending,), below=bool(folder))
        yield from found


def _under(folder: str, endings: tuple[str, ...], *, below: bool = True) -> Iterator[os.DirEntry[str]]:
    """Files whose names end so, in a fixed order."""
    with os.scandir(folder) as found:
        entries = sorted(found, key=lambda entry: entry.name)
    for entry in entries:
        if entry.is_dir():
            if below:
                yield from _under(entry.path, endings)
        elif entry.name.endswith(endings):
            yield entry
