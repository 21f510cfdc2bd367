"""Open a linked library and put its entry behind the calling convention."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from tilefoundry.runtime.compiled import CompiledModule
from tilefoundry.runtime.linking.host_services import serve_host
from tilefoundry.runtime.linking.linked import LinkedModule

# tvm_ffi is imported where it is first needed: it brings torch along, which takes seconds.

__all__ = ["load_linked_module"]

_NOT_MAPPED = "failed to map segment"
"""What the system's loader says of a library that it may read and not run."""


def load_linked_module(linked: LinkedModule) -> CompiledModule:
    """The callable module of ``linked``; the library stays open as long as the process lives. Thread-safe.

    Raises:
        FileNotFoundError: there is no such library.
        OSError: the system cannot open it; the message names the file.
        ValueError: it does not export the entry.
    """
    entry = _entry(linked)
    return CompiledModule(type=linked.entry, fn=entry, source=linked.source, linked=linked)


def _entry(linked: LinkedModule) -> Callable[..., Any]:
    import tvm_ffi

    path = os.path.abspath(linked.library_path)
    if not os.path.exists(path):
        raise FileNotFoundError(f"{linked.entry.name}: the library {path} does not exist; build it again")
    try:
        # Where Python's file system encoding is ASCII, a path's other bytes are surrogates, which are no UTF-8.
        library = tvm_ffi.load_module(os.fsencode(path).decode(errors="replace"))
    except RuntimeError as error:
        raise OSError(f"{linked.entry.name}: {_why_closed(path, str(error))}") from error
    try:
        function = library.get_function(linked.entry.name)
    except (AttributeError, RuntimeError, ValueError) as error:
        raise ValueError(
            f"the library {path} exports no entry {linked.entry.name!r}; build it again"
        ) from error
    return serve_host(path, function)


def _why_closed(path: str, error: str) -> str:
    if _NOT_MAPPED in error:
        return (
            f"the system refuses to run the library {path}: its file system is mounted noexec or out of memory; set "
            "TILEFOUNDRY_CACHE_DIR to a folder that programs may be run from, or copy a saved library to one"
        )
    return f"the system cannot open the library {path}: {error}"
