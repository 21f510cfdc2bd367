"""A LinkedModule as JSON values, and back; where the library lies is not part of it."""

from __future__ import annotations

from typing import Any

from tilefoundry.runtime.abi_text import decode_entry, decode_kernels, encode_entry, encode_kernels
from tilefoundry.runtime.linking.linked import LinkedModule

__all__ = ["decode_linked", "encode_linked"]

_TEXTS = ("source", "target", "arch")


def encode_linked(linked: LinkedModule) -> dict[str, Any]:
    """``linked`` as JSON values; TypeError for a layout that is none of the IR's records. Any thread."""
    return {
        **{field: getattr(linked, field) for field in _TEXTS},
        "entry": encode_entry(linked.entry),
        "kernels": encode_kernels(linked.kernels),
    }


def decode_linked(where: str, table: dict[str, Any], library_path: str) -> LinkedModule:
    """What ``encode_linked`` wrote, for the library at that path; ValueError naming ``where`` for anything else.
    Any thread."""
    try:
        source, target, arch = (table[field] for field in _TEXTS)
        entry, kernels = table["entry"], table["kernels"]
    except (KeyError, TypeError) as error:
        raise ValueError(f"{where} is damaged: it describes no library ({error!r})") from None
    return LinkedModule(
        library_path, source, decode_entry(where, entry), target, arch, decode_kernels(where, kernels)
    )
