"""From a program to verified TIR of one target."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from tilefoundry.ir.core.module import Module
from tilefoundry.ir.hir.function import Function
from tilefoundry.ir.passes import Pipeline
from tilefoundry.ir.tir.function import PrimFunction
from tilefoundry.target import CompilerOptions, Target
from tilefoundry.target.options import checked_options
from tilefoundry.verbs.backends import backend_for, choose_target
from tilefoundry.verbs.printing import printing
from tilefoundry.verbs.refusing import refusing_briefly

__all__ = ["as_module", "lower", "resolved_target"]


def as_module(program: object) -> Module:
    """``program`` as a Module; a function becomes the one function of a module that declares nothing.

    Raises:
        TypeError: something that is no program.
    """
    if isinstance(program, Module):
        return program
    if isinstance(program, (Function, PrimFunction)):
        return Module(
            program.name, (program,), program.name, target=program.target, topologies=program.topologies
        )
    kind = type(program).__name__
    if callable(program):
        name = getattr(program, "__name__", kind)
        raise TypeError(f"{name} is a Python {kind}, not a TileFoundry program; decorate it with @func")
    raise TypeError(f"a Function or a Module is compiled, got {kind}; decorate a function with @func")


def resolved_target(module: Module, target: Target | str | None, default: str) -> Target:
    """The target to compile for, with what depends on this machine spelled out."""
    chosen = choose_target(module, target, default)
    return backend_for(chosen).resolve(chosen)


def lower(
    mod: Any,
    *,
    target: Target | str | None = None,
    options: CompilerOptions | None = None,
    print_after: bool | str | Collection[str] = False,
) -> Module:
    """The program as buffers, loops and launches for one target; nothing is compiled.

    Args:
        mod: a Module with an entry, or a Function.
        target: ``"cpu"``, ``"cuda"`` or a Target; by default the one that the module declares, else ``"cuda"``.
        options: compiler options.
        print_after: True writes the text of the program after every pass to standard output; a name, or several,
            does so after the passes called that.

    Returns:
        A Module of PrimFunctions that carries its target; ``build`` takes it.

    Raises:
        TypeError: no program, or options of another kind.
        LoweringError: something that the target refuses; the message names it and the way out.
        VerificationError: the program breaks an invariant of the IR.
        ValueError: ``print_after`` names a pass that the target does not run.
    """
    module = as_module(mod)
    module.entry_function()
    resolved = resolved_target(module, target, "cuda")
    passes = backend_for(resolved).pipeline(resolved, checked_options(options))
    shown = printing(passes, print_after)
    lowered = refusing_briefly(lambda: Pipeline(passes).run(module, shown))
    return Module(
        lowered.name,
        lowered.functions,
        lowered.entry,
        lowered.modules,
        resolved,
        lowered.topologies,
        lowered.metadata,
    )
