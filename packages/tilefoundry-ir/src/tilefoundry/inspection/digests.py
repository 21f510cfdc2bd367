"""Digests of programs, for cache keys."""

from __future__ import annotations

import hashlib

from tilefoundry.inspection.names import Header
from tilefoundry.inspection.script import as_script
from tilefoundry.inspection.values import value_text
from tilefoundry.ir.core.module import Module
from tilefoundry.ir.hir.function import Function
from tilefoundry.ir.passes import PARAM_PATHS

__all__ = ["digest"]

_KEY = "inspection.digest"


def digest(node: Function | Module) -> str:
    """The SHA-256 of a program's canonical text as 64 hex digits.

    A Module's own text is printed once and its digest kept with the Module; each look-up combines it with the
    levels in force where the Module hangs, since these change when it is attached, and with what callers know an
    entry's parameters as. Orchestration methods and other metadata are not part of it: nothing compiles them.
    Thread-safe: two threads at worst compute one text twice.
    """
    if not isinstance(node, Module):
        return _sha(as_script(node))
    own = node._cache.get(_KEY)
    if own is None:
        own = node._cache.setdefault(_KEY, _sha(as_script(node, program_only=True)))
    known = f"\n{node.metadata[PARAM_PATHS]!r}" if PARAM_PATHS in node.metadata else ""
    return _sha(own + "\n" + value_text(node.effective_topologies(), Header(())) + known)


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
