"""What a module may hold, and under which names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilefoundry.ir.hir.function import Function
from tilefoundry.ir.tir.function import PrimFunction
from tilefoundry.ir.types.shard import Topology

if TYPE_CHECKING:
    from tilefoundry.ir.core.module import Module

__all__ = ["check_members"]


def check_members(module: Module) -> None:
    """Refuse wrong kinds of members, names given twice, an unknown entry, levels that are none.

    Raises:
        TypeError: a member, level or target of another kind.
        ValueError: clashing names, an unknown entry, a child that declares a target.
    """
    if not isinstance(module.name, str) or not module.name.isidentifier():
        raise ValueError(f"a module's name must be an identifier, got {module.name!r}")
    for function in module.functions:
        if not isinstance(function, (Function, PrimFunction)):
            raise TypeError(
                f"module {module.name!r}: a function is a Function or PrimFunction, got {function!r}"
            )
    for child in module.modules:
        _check_child(module, child)
    for name, method in module.methods.items():
        if not callable(method):
            raise TypeError(
                f"module {module.name!r}: the method {name!r} is a Python function, got {method!r}"
            )
    _check_names(module)
    _check_levels(module)
    _check_target(module)
    if module.entry is not None and not module.function_named(module.entry):
        raise ValueError(
            f"module {module.name!r}: entry {module.entry!r} is no function of it; {module.callables()}"
        )


def _check_child(module: Module, child: Any) -> None:
    if not isinstance(child, type(module)):
        raise TypeError(f"module {module.name!r}: a child is a Module, got {child!r}")
    if child.target is not None:
        raise ValueError(
            f"module {module.name!r}: the child {child.name!r} declares the target {child.target}; "
            "only a root may, so declare it there"
        )


def _check_names(module: Module) -> None:
    names = [f.name for f in module.functions] + [m.name for m in module.modules] + list(module.methods)
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(
            f"module {module.name!r}: {', '.join(twice)} named twice among functions, children and methods; "
            "give each member its own name"
        )


def _check_levels(module: Module) -> None:
    for level in module.topologies or ():
        if not isinstance(level, Topology):
            raise TypeError(
                f'module {module.name!r}: topologies holds levels such as Topology("cta", 8), got {level!r}'
            )
    names = [level.name for level in module.topologies or ()]
    if len(set(names)) != len(names):
        raise ValueError(f"module {module.name!r}: topology levels must have different names, got {names}")


def _check_target(module: Module) -> None:
    # Targets live above the ir; what makes one is that it spells itself and names its back end.
    target = module.target
    if target is not None and not (hasattr(target, "kind") and callable(getattr(target, "text", None))):
        raise TypeError(
            f"module {module.name!r}: target is a Target such as CpuTarget() or "
            f'CudaTarget("nvidia.h200_sxm"), got {target!r}; names go to the verbs, as in jit(m, target="cuda")'
        )
