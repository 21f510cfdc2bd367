"""Write a built library with everything that loading it must check."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
from typing import TYPE_CHECKING, Any

from tilefoundry.runtime.abi_text import encode_entry

if TYPE_CHECKING:
    from tilefoundry.runtime.linking import LinkedModule

__all__ = ["ABI_FILE", "FORMAT", "LIBRARY_FILE", "SOURCE_FILE", "digest_of", "save_linked"]

FORMAT = 1
ABI_FILE = "abi.json"
LIBRARY_FILE = "library.so"
SOURCE_FILE = "source.txt"
TVM_FFI = (">=0.1.10", "<0.2")


def save_linked(linked: LinkedModule, directory: str) -> None:
    """Write library, source text and ``abi.json`` into ``directory``; the last file makes the rest valid."""
    os.makedirs(directory, exist_ok=True)
    library = os.path.join(directory, LIBRARY_FILE)
    abi = os.path.join(directory, ABI_FILE)
    # Without abi.json no reader takes a library that is half written.
    if os.path.exists(abi):
        os.unlink(abi)
    _replace(library, lambda path: shutil.copyfile(linked.library_path, path))
    _replace(os.path.join(directory, SOURCE_FILE), lambda path: _write_text(path, linked.source))
    table = {
        "format": FORMAT,
        "entry": encode_entry(linked.entry),
        "target": linked.target,
        "arch": linked.arch,
        "machine": platform.machine(),
        "tvm_ffi": list(TVM_FFI),
        "sha256": digest_of(library),
    }
    _replace(abi, lambda path: _write_text(path, json.dumps(table, indent=2) + "\n"))


def digest_of(path: str) -> str:
    """sha256 of the file at ``path``, in hex."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _replace(path: str, write: Any) -> None:
    """Write beside ``path`` and rename, so that a process that has the old file open keeps it whole."""
    temporary = f"{path}.{os.getpid()}"
    try:
        write(temporary)
        os.replace(temporary, path)
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)


def _write_text(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
