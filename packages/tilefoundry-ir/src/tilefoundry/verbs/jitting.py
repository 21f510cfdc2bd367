"""Compile once per program, target and options within a process."""

from __future__ import annotations

import hashlib
import threading
from typing import Any

from tilefoundry.inspection import digest
from tilefoundry.ir.core.module import Module
from tilefoundry.target import CompilerOptions, Target
from tilefoundry.target.options import checked_options
from tilefoundry.verbs.building import compile_once
from tilefoundry.verbs.lowering import as_module, resolved_target
from tilefoundry.verbs.refusing import refusing_briefly

__all__ = ["jit"]

_WRAPPED = 256


class _DefaultTarget(str):
    """The default of ``target``: told apart from the same name given by a caller."""

    __slots__ = ()


class _Jit:
    """``jit`` itself: a call, and what speaks of its cache. Thread-safe; one key is compiled once at a time."""

    __name__ = "jit"
    __qualname__ = "jit"

    def __init__(self) -> None:
        self.__doc__ = type(self).__call__.__doc__  # help(jit) is about the call
        self._done: dict[str, Any] = {}
        self._running: dict[str, threading.Lock] = {}
        self._wrapped: dict[int, tuple[Any, Module]] = {}
        self._lock = threading.Lock()

    def __call__(
        self,
        fn_or_mod: Any,
        *,
        target: Target | str = _DefaultTarget("cuda"),
        options: CompilerOptions | None = None,
    ) -> Any:
        """Compile a Function or Module and return the callable RuntimeModule; equal programs compile once.

        Args:
            fn_or_mod: a Function or a Module with an entry.
            target: ``"cuda"`` (the current GPU), ``"cpu"``, or a Target. A module that declares a target is
                compiled for that one.
            options: compiler options.

        Raises:
            TypeError: a raw Python function, or something else that is no program; options of another kind.
            ValueError: a target that contradicts the module's declaration.
            LoweringError: no compiler for the target is installed, or it refuses something by name.
        """
        module = self._module(fn_or_mod)
        wanted = None if isinstance(target, _DefaultTarget) else target
        resolved = resolved_target(module, wanted, "cuda")
        options = checked_options(options)
        key = _key(module, resolved, options)
        found = self._done.get(key)
        if found is not None:
            return found
        return refusing_briefly(lambda: self._compiled(key, module, resolved, options))

    def cache_clear(self) -> None:
        """Forget every compiled module of this process; the disk cache stays."""
        with self._lock:
            self._done.clear()
            self._wrapped.clear()

    def cache_info(self) -> dict[str, int]:
        """``{"size": N}``, the number of modules compiled in this process and still remembered."""
        return {"size": len(self._done)}

    def _module(self, program: Any) -> Module:
        """``program`` as a Module; a function keeps the module that was made for it."""
        if isinstance(program, Module):
            return program
        known = self._wrapped.get(id(program))
        if known is not None and known[0] is program:
            return known[1]
        module = as_module(program)
        with self._lock:
            if len(self._wrapped) >= _WRAPPED:
                self._wrapped.pop(next(iter(self._wrapped)))
            self._wrapped[id(program)] = (program, module)
        return module

    def _compiled(self, key: str, module: Module, target: Target, options: CompilerOptions) -> Any:
        with self._lock:
            running = self._running.setdefault(key, threading.Lock())
        with running:
            found = self._done.get(key)
            if found is None:
                found = compile_once(_with_target(module, target), key, target, options)
                self._done[key] = found
        with self._lock:
            self._running.pop(key, None)
        return found

    def __repr__(self) -> str:
        return "<function jit>"


def _key(module: Module, target: Target, options: CompilerOptions) -> str:
    """The cache key; kept with the module per target, options and levels in force, as printing takes long."""
    known = module._cache.setdefault("verbs.jit", {})
    asked = (target, options, module.effective_topologies())
    key = known.get(asked)
    if key is None:
        text = "\n".join((digest(module), module.entry or "", target.text(), options.text()))
        key = known.setdefault(asked, hashlib.sha256(text.encode()).hexdigest())
    return key


def _with_target(module: Module, target: Target) -> Module:
    """A root module with ``target``; the given one stays as it is."""
    if module.owner is None and module.target == target:
        return module
    return Module(
        module.name,
        module.functions,
        module.entry,
        module.modules,
        target,
        module.effective_topologies() or module.topologies,
        module.metadata,
        module.methods,
    )


jit = _Jit()
