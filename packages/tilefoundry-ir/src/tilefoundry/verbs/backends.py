"""Back ends by target name, found through the entry-point group ``tilefoundry.targets``."""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, PackageNotFoundError, distribution, entry_points
from typing import Any, Protocol

from tilefoundry.ir.core.module import Module
from tilefoundry.ir.errors import LoweringError
from tilefoundry.ir.passes import Pass
from tilefoundry.target import CompilerOptions, CpuTarget, CudaTarget, Target

__all__ = ["Backend", "backend_for", "choose_target"]

GROUP = "tilefoundry.targets"
_COMPILERS = ("tilefoundry-cuda",)


class Backend(Protocol):
    """What a wheel that compiles offers under a target's name. Its methods are thread-safe."""

    def resolve(self, target: Target) -> Target:
        """``target`` with everything spelled out that depends on this machine."""
        ...

    def pipeline(self, target: Target, options: CompilerOptions) -> tuple[Pass, ...]:
        """The passes from a checked module to verified TIR."""
        ...

    def emit(self, module: Module, target: Target, options: CompilerOptions) -> Any:
        """Source of a lowered module, as a LinkableModule."""
        ...

    def link(self, linkable: Any, options: CompilerOptions) -> Any:
        """The native library, as a LinkedModule."""
        ...

    def recall(self, program: str, target: Target, options: CompilerOptions) -> Any | None:
        """The LinkedModule of a program that an earlier process compiled, verified; None where there is none.

        ``program`` is a digest of the program, the target and the options.
        """
        ...

    def remember(self, program: str, linked: Any, target: Target, options: CompilerOptions) -> None:
        """Let later processes recall ``linked``; one that cannot be kept is not."""
        ...

    def load(self, linked: Any) -> Any:
        """The callable RuntimeModule."""
        ...


def backend_for(target: Target) -> Backend:
    """The back end of a target.

    Raises:
        LoweringError: no installed wheel compiles for it; the message names the wheel.
    """
    point = _point(target.kind)
    if point is None:
        known = ", ".join(_points()) or "none"
        raise LoweringError(
            f"no installed package compiles for the target {target.kind!r} (there are: {known}); "
            "install the compiler with: pip install tilefoundry-cuda"
        )
    return _loaded(point)


@cache
def _point(kind: str) -> EntryPoint | None:
    """The project's own compiler first: to ask every installed package takes ten times as long."""
    for wheel in _COMPILERS:
        try:
            found = distribution(wheel).entry_points.select(group=GROUP, name=kind)
        except PackageNotFoundError:
            continue
        if found:
            return next(iter(found))
    return _points().get(kind)


@cache
def _points() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}


@cache
def _loaded(point: EntryPoint) -> Backend:
    return point.load()


def choose_target(module: Module, wanted: Target | str | None, default: str) -> Target:
    """The target to compile ``module`` for.

    A target that the module declares is taken where ``wanted`` is None or names the same kind.

    Raises:
        ValueError: an unknown name, or one that contradicts the module's declaration.
        TypeError: neither a name nor a Target.
    """
    declared = module.root.target
    if wanted is None:
        return _named(default) if declared is None else declared
    if not isinstance(wanted, (str, Target)):
        raise TypeError(f'target is "cpu", "cuda" or a Target, got {type(wanted).__name__}')
    if declared is None:
        return _named(wanted) if isinstance(wanted, str) else wanted
    agrees = declared.kind == wanted if isinstance(wanted, str) else declared == wanted
    if not agrees:
        raise ValueError(
            f"module {module.root.name!r} declares the target {declared}, but {wanted!s} was asked for; "
            "drop target=, or compile a module without a declared target"
        )
    return declared


def _named(name: str) -> Target:
    if name == "cpu":
        return CpuTarget()
    if name == "cuda":
        return CudaTarget.current()
    raise ValueError(f'unknown target {name!r}; give "cpu", "cuda" or a Target')
