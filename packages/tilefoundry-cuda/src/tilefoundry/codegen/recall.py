"""Libraries of programs that an earlier process compiled: found from the program, without lowering it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from tilefoundry.codegen.cache import DiskCache, ProgramIndex, configured_directory, keep_beside
from tilefoundry.codegen.own_code import own_code, sources_stand
from tilefoundry.runtime.linking import LinkedModule, decode_linked, encode_linked

__all__ = ["program_key", "recalled", "remember"]


def program_key(program: str, surroundings: Iterable[str]) -> str | None:
    """What a program's library is known under; None where nothing may be known under it.

    Args:
        program: digest of text, target and options.
        surroundings: everything else that a library's key holds besides the generated source.
    """
    own = own_code()
    return (
        None if own is None else hashlib.sha256("\0".join((program, own, *surroundings)).encode()).hexdigest()
    )


def recalled(key: str | None, source_name: str | None) -> LinkedModule | None:
    """The library known under ``key``, verified; None where there is none, or only a damaged one.

    ``source_name`` asks for its source to lie beside it, under that name.
    """
    if key is None:
        return None
    root = configured_directory()
    record = ProgramIndex(root).find(key)
    library = None if record is None else DiskCache(root).find(record["library"])
    if record is None or library is None:
        return None
    linked = decode_linked(f"the record of program {key}", record["linked"], str(library))
    if source_name is not None:
        keep_beside(library, source_name, linked.source)
    return linked


def remember(key: str | None, linked: LinkedModule) -> None:
    """Let later processes know ``linked``, a library of the cache, under ``key``.

    Not where the compiler's own sources changed meanwhile: part of it may have run as it is now.
    """
    folder = Path(linked.library_path).parent
    root = folder.parent.parent
    if key is not None and root == configured_directory() and sources_stand():
        ProgramIndex(root).keep(key, {"library": folder.name, "linked": encode_linked(linked)})
