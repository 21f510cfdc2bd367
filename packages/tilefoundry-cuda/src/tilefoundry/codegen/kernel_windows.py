"""Windows that a kernel takes in its own body: what the host checks before it launches the kernel.

Where a window lies follows from the call's extents, loops included: the first and the last turn of a loop bound what
all turns touch, so that no turn is looked at one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from itertools import product as combinations

from tilefoundry.codegen.cpu.schedule import bind_text
from tilefoundry.ir.core.expr import Bind, Call, Constant, Expr, For, MeshScope, Stmt, Var
from tilefoundry.ir.hir.function import Function
from tilefoundry.ir.tir import Abort, Apply, IndexValue, Let
from tilefoundry.ir.types import Dim, DimVar, DType, TensorType, bounds, dim_vars, scalar, substitute
from tilefoundry.ir.types.dim import floordiv, product

__all__ = ["window_checks"]


@dataclass(frozen=True, slots=True)
class _Window:
    """One axis of a window: ``size`` elements from ``start`` on, ``stride`` apart, out of ``extent``."""

    bind: Bind
    axis: int
    start: Dim
    size: Dim
    stride: int
    extent: Dim

    @property
    def room(self) -> Dim:
        """How many elements are left behind its last one."""
        return self.extent - (self.start + (self.size - 1) * self.stride + 1)


@dataclass(frozen=True, slots=True)
class _Range:
    """A loop's range, in the extents of the call."""

    start: Dim
    stop: Dim
    step: Dim


def window_checks(function: Function, fresh: Callable[[str], str]) -> tuple[Let | Abort, ...]:
    """Statements that stop a call where a window in the body of ``function`` leaves its tensor.

    Nothing for windows that lie inside for every call, and for those that start at a value on the device. ``fresh``
    gives names to numbers that the checks compute.
    """
    return tuple(
        stmt
        for window, loops in _windows(function.body.stmts if function.body is not None else (), ())
        for stmt in _checks(window, loops, fresh)
    )


def _windows(stmts: Sequence[Stmt], loops: tuple[For, ...]) -> Iterator[tuple[_Window, tuple[For, ...]]]:
    """Every axis of every window, with the loops around it, outermost first."""
    for stmt in stmts:
        if isinstance(stmt, MeshScope):
            yield from _windows(stmt.stmts, loops)
        elif isinstance(stmt, For):
            yield from _windows(stmt.body.stmts, (*loops, stmt))
        elif isinstance(stmt.value, Call) and stmt.value.op.name in ("slice", "insert_slice"):
            yield from ((window, loops) for window in _axes(stmt, stmt.value, loops))


def _axes(bind: Bind, call: Call, loops: tuple[For, ...]) -> Iterator[_Window]:
    inserts = call.op.name == "insert_slice"
    whole, update = call.args[0].type, call.args[1].type if inserts else None
    assert isinstance(whole, TensorType)
    sizes = update.shape if isinstance(update, TensorType) else call.attr("sizes")
    strides = (1,) * whole.rank if inserts else call.attr("strides")
    given = iter(call.args[2 if inserts else 1 :])
    indices = {loop.index.name: DimVar(loop.index.name, 0, 2**62) for loop in loops}
    for axis, attr in enumerate(call.attr("offsets" if inserts else "starts")):
        start = attr
        if start is None:
            atom = next(given)
            start = int(atom.value) if isinstance(atom, Constant) else indices.get(atom.name)
        if start is not None:
            yield _Window(bind, axis, start, sizes[axis], strides[axis], whole.shape[axis])


def _checks(window: _Window, loops: tuple[For, ...], fresh: Callable[[str], str]) -> Iterator[Let | Abort]:
    """The checks of one window in the turns that bound it."""
    chosen = _loops_of(window, loops)
    forwards = not any(_may_be_below(dim, 0) for dim in (window.start, *(loop.start for loop in chosen)))
    limiting = (window.room,) if forwards else (window.room, window.start)
    for ends in combinations((_first, _last), repeat=len(chosen)):
        steps: list[Let] = []
        env: dict[str, Dim] = {}
        taken: list[Dim] = []
        for loop, end in zip(chosen, ends, strict=True):
            start, stop, step = (substitute(d, env) for d in (loop.start, loop.stop, loop.step))
            index, tile, at_least_one = end(loop, _Range(start, stop, step), steps, fresh)
            env[loop.index.name] = index
            if loop.window is not None:
                env[loop.window.name] = tile
            taken.append(at_least_one)
        limits = [substitute(dim, env) for dim in limiting]
        outside = [d for d in limits if _may_be_below(d, 0) and not _follows(d, taken)]
        if outside:
            yield from steps
            yield _stop(window, outside, [d for d in taken if _may_be_below(d, 1)])


def _loops_of(window: _Window, loops: tuple[For, ...]) -> list[For]:
    """The loops that decide where a window lies, outermost first."""
    wanted = {v.name for d in (window.start, window.size, window.extent) for v in dim_vars(d)}
    chosen: list[For] = []
    for loop in reversed(loops):
        if wanted & {loop.index.name, loop.index.name if loop.window is None else loop.window.name}:
            chosen.insert(0, loop)
            wanted |= {v.name for d in (loop.start, loop.stop, loop.step) for v in dim_vars(d)}
    return chosen


def _first(loop: For, over: _Range, steps: list[Let], fresh: Callable[[str], str]) -> tuple[Dim, Dim, Dim]:
    """Index and tile of the first turn, and what is positive where it is taken; a turn that is cut is the last one."""
    cut = 0 if loop.window is None else over.step - 1
    return over.start, over.step, over.stop - over.start - cut


def _last(loop: For, over: _Range, steps: list[Let], fresh: Callable[[str], str]) -> tuple[Dim, Dim, Dim]:
    """The same of the last turn."""
    before = over.stop - over.start - 1
    if isinstance(over.step, int):
        turns = floordiv(before, over.step)
    else:
        turns = DimVar(fresh(f"{loop.index.name}_turns"), 0, 2**62)
        quotient = Apply(scalar(DType.i64), "floor_div", (IndexValue.of(before), IndexValue.of(over.step)))
        steps.append(Let(Var(scalar(DType.i64), turns.name), quotient))
    index = over.start + product((turns, over.step))
    return index, over.stop - index, before + 1


def _may_be_below(dim: Dim, least: int) -> bool:
    """Whether nothing proves that ``dim`` is ``least`` or more."""
    return bounds(dim)[0] < least


def _follows(dim: Dim, positive: list[Dim]) -> bool:
    """Whether ``dim`` is 0 or more wherever ``positive`` are 1 or more."""
    return any(bounds(dim - (one - 1))[0] >= 0 for one in positive)


def _stop(window: _Window, outside: list[Dim], taken: list[Dim]) -> Abort:
    """Stop where one of ``outside`` is negative and all of ``taken`` are positive."""
    condition = reduce(partial(_joined, "logical_or"), [_below(dim, 0) for dim in outside])
    for dim in taken:
        condition = _joined("logical_and", _below(0, dim), condition)
    return Abort(
        condition,
        "ValueError",
        f"{bind_text(window.bind)}: the window of axis {window.axis}, {window.size} long from {window.start} on, "
        f"leaves its extent {window.extent}",
    )


def _below(left: Dim, right: Dim) -> Expr:
    return _joined("cmp_lt", IndexValue.of(left), IndexValue.of(right))


def _joined(op: str, left: Expr, right: Expr) -> Expr:
    return Apply(scalar(DType.bool_), op, (left, right))
