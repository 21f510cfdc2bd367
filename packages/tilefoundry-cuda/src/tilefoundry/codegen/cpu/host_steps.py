"""What a host does, before memory is placed: kernels, statements of its own, loops of both."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Union

from tilefoundry.codegen.cpu.schedule import KernelSpec, bind_text
from tilefoundry.codegen.cpu.statement_kernels import StatementSpec
from tilefoundry.codegen.cpu.views import View
from tilefoundry.ir.core.expr import Bind, Call, Var
from tilefoundry.ir.hir.function import Function
from tilefoundry.ir.tir import Abort, Apply, For, IndexValue, Let, Load, TirStmt
from tilefoundry.ir.types import Dim, DType, bounds, scalar

__all__ = [
    "HostChecks",
    "LoopSteps",
    "Step",
    "kernels_of",
    "map_kernel_steps",
    "no_checks",
    "renamed",
    "smaller",
    "window_check",
]


@dataclass(frozen=True, slots=True)
class LoopSteps:
    """Steps that the host repeats, with ``index`` an extent in them."""

    index: Var
    start: Dim
    stop: Dim
    step: Dim
    steps: tuple[Step, ...]

    def statement(self, body: tuple[TirStmt, ...]) -> For:
        """The loop with its steps as ``body``."""
        return For(self.index, self.start, self.stop, body, "serial", self.step)


Step = Union[KernelSpec, StatementSpec, TirStmt, LoopSteps]


HostChecks = Callable[[Function, Callable[[str], str]], tuple[TirStmt, ...]]
"""From a kernel, and a source of fresh names, to the statements that come before its launch."""


def no_checks(function: Function, fresh: Callable[[str], str]) -> tuple[TirStmt, ...]:
    """None: of kernels that look at what they touch themselves."""
    return ()


def kernels_of(step: Step) -> Iterator[Step]:
    """The step itself, or for a loop everything that it repeats."""
    if isinstance(step, LoopSteps):
        for inner in step.steps:
            yield from kernels_of(inner)
    else:
        yield step


def map_kernel_steps(step: Step, change: Callable[[Step], Step]) -> Step:
    """``change`` applied to the step, or for a loop to all that it repeats."""
    if isinstance(step, LoopSteps):
        return replace(step, steps=tuple(map_kernel_steps(inner, change) for inner in step.steps))
    return change(step)


def smaller(one: Dim, other: Dim) -> Apply:
    """The smaller of two extents, computed by the host."""
    left, right = IndexValue.of(one), IndexValue.of(other)
    less = Apply(scalar(DType.bool_), "cmp_lt", (left, right))
    return Apply(scalar(DType.i64), "select", (less, left, right))


def window_check(name: str, call: Call, axis: int, start: Dim, extent: Dim) -> tuple[Abort, ...]:
    """Stop the call where a slice's window begins at ``start`` and leaves ``extent``; nothing where it cannot.

    The message names the op as the program's text has it.
    """
    size, stride = call.attr("sizes")[axis], call.attr("strides")[axis]
    last = extent - (size - 1) * stride - 1
    if isinstance(start, int) and bounds(last - start)[0] >= 0:
        return ()
    boolean = scalar(DType.bool_)
    low = Apply(boolean, "cmp_lt", (IndexValue.of(start), IndexValue.of(0)))
    high = Apply(boolean, "cmp_gt", (IndexValue.of(start), IndexValue.of(last)))
    outside = high if isinstance(start, int) else Apply(boolean, "logical_or", (low, high))
    line = bind_text(Bind(Var(call.type, name), call))
    message = f"{line}: the window of axis {axis}, {size} long, leaves its extent {extent}"
    return (Abort(outside, "ValueError", message),)


def renamed(step: Step, homes: dict[str, str]) -> Step:
    """The step with its buffers called as ``homes`` says; a loop is taken apart before."""
    if isinstance(step, KernelSpec):
        return replace(step, inputs=_renamed(step.inputs, homes), outputs=_renamed(step.outputs, homes))
    if isinstance(step, StatementSpec):
        return replace(step, inputs=_renamed(step.inputs, homes), outputs=_renamed(step.outputs, homes))
    if isinstance(step, Let) and isinstance(step.value, Load):
        buffer = step.value.buffer
        return Let(
            step.target, Load.of(Var(buffer.type, homes.get(buffer.name, buffer.name)), step.value.index)
        )
    return step


def _renamed(views: tuple[View, ...], homes: dict[str, str]) -> tuple[View, ...]:
    return tuple(replace(view, buffer=homes.get(view.buffer, view.buffer)) for view in views)
