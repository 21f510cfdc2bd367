"""From verified TIR to a loaded library."""

from __future__ import annotations

from typing import Any

from tilefoundry.ir.core.module import Module
from tilefoundry.ir.errors import LoweringError
from tilefoundry.ir.hir.function import Function
from tilefoundry.target import CompilerOptions, Target
from tilefoundry.target.options import checked_options
from tilefoundry.verbs.backends import backend_for
from tilefoundry.verbs.lowering import lower
from tilefoundry.verbs.refusing import refusing_briefly

__all__ = ["build", "compile", "compile_once"]


def build(lowered: Module, *, options: CompilerOptions | None = None) -> Any:
    """Emit, link and load a lowered module.

    Args:
        lowered: what ``lower`` gives.
        options: compiler options; the ones that it was lowered with.

    Returns:
        The callable RuntimeModule.

    Raises:
        LoweringError: a module that was not lowered.
    """
    if not isinstance(lowered, Module) or any(isinstance(f, Function) for f in lowered.functions):
        raise LoweringError("build takes what lower() gives; to go from a program in one step call compile()")
    return backend_for(lowered.resolve_target()).load(_linked(lowered, checked_options(options)))


def _linked(lowered: Module, options: CompilerOptions) -> Any:
    target = lowered.resolve_target()
    backend = backend_for(target)
    return backend.link(backend.emit(lowered, target, options), options)


def compile(mod: Any, *, target: Target | str | None = None, options: CompilerOptions | None = None) -> Any:
    """``build(lower(mod))``: the callable RuntimeModule of a program, without the in-process cache.

    Args, Raises: as for ``lower``.
    """
    options = checked_options(options)
    return refusing_briefly(lambda: build(lower(mod, target=target, options=options), options=options))


def compile_once(module: Module, program: str, target: Target, options: CompilerOptions) -> Any:
    """``compile``, unless an earlier process left the library of the same program.

    Args:
        module: what is compiled, for ``target`` alone.
        program: digest of the program, the target and the options.
    """
    backend = backend_for(target)
    linked = backend.recall(program, target, options)
    if linked is None:
        linked = _linked(lower(module, target=target, options=options), options)
        backend.remember(program, linked, target, options)
    return backend.load(linked)
