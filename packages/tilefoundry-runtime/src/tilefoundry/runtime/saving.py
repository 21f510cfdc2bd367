"""Write a built library with everything that loading it must check."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import tempfile
from typing import TYPE_CHECKING, Any

from tilefoundry.runtime.abi_text import encode_entry, encode_kernels

if TYPE_CHECKING:
    from tilefoundry.runtime.linking import LinkedModule

__all__ = ["ABI_FILE", "FORMAT", "LIBRARY_FILE", "SOURCE_FILE", "digest_of", "save_linked"]

FORMAT = 1
ABI_FILE = "abi.json"
LIBRARY_FILE = "library.so"
SOURCE_FILE = "source.txt"
TVM_FFI = (">=0.1.10", "<0.2")


def save_linked(linked: LinkedModule, directory: str) -> None:
    """Write library, source text and ``abi.json`` into ``directory``; the last file makes the rest valid.

    All three are written beside their places first, so that an error leaves what was there. A process that has
    the old library open keeps it whole.
    """
    if not os.path.exists(linked.library_path):
        raise FileNotFoundError(
            f"{linked.library_path} is gone, and with it what would be saved into {directory}; "
            f"a loaded {linked.entry.name} still runs, build it again to save it"
        )
    table = _table(linked)
    os.makedirs(directory, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".save.", dir=directory) as stage:
        library = os.path.join(stage, LIBRARY_FILE)
        shutil.copyfile(linked.library_path, library)
        _write_text(os.path.join(stage, SOURCE_FILE), linked.source)
        table["sha256"] = digest_of(library)
        _write_text(os.path.join(stage, ABI_FILE), json.dumps(table, indent=2) + "\n")
        # Without abi.json no reader takes a library beside another's source.
        if os.path.exists(os.path.join(directory, ABI_FILE)):
            os.unlink(os.path.join(directory, ABI_FILE))
        for name in (LIBRARY_FILE, SOURCE_FILE, ABI_FILE):
            os.replace(os.path.join(stage, name), os.path.join(directory, name))


def _table(linked: LinkedModule) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "entry": encode_entry(linked.entry),
        "target": linked.target,
        "arch": linked.arch,
        "machine": platform.machine(),
        "tvm_ffi": list(TVM_FFI),
        "kernels": encode_kernels(linked.kernels),
    }


def digest_of(path: str) -> str:
    """sha256 of the file at ``path``, in hex."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _write_text(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
