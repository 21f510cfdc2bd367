"""Compute long reductions with few results in two steps, so that more than a few blocks take part."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import groupby
from math import prod

from tilefoundry.codegen.cpu.decompose import Decomposer
from tilefoundry.ir.core.expr import Atom, Bind, Call, MeshScope, Stmt, Var
from tilefoundry.ir.core.kinds import ReduceKind
from tilefoundry.ir.core.module import Module
from tilefoundry.ir.hir.function import Function
from tilefoundry.ir.passes import Copier, Names, map_functions, with_body
from tilefoundry.ir.tir import SCALAR_OPS, compute_dtype
from tilefoundry.ir.types import Dim, TensorType, bounds
from tilefoundry.ir.types.dim import product

__all__ = ["SplitReductions"]

MOST_OF_A_BLOCK = 2**18
"""Where a block has fewer elements to read, a second launch costs more than the blocks that it brings."""

ENOUGH_BLOCKS = 132
"""Reductions that have this many blocks without help stay as they are."""

WANTED_BLOCKS = 528
_COLUMNS = 128
"""Results that a block of a reduction over outer axes has side by side."""
_SHORTEST = {True: 2048, False: 64}
"""Elements of a piece, for reductions along rows and over outer axes."""
_MOST_OPS = 24
_WIDENED = (ReduceKind.SUM, ReduceKind.MEAN)


@dataclass(frozen=True, slots=True)
class SplitReductions:
    """Before: any function. After: a reduction of many elements to few results reduces pieces of equal length, in the
    wide type, and then the pieces' results. The order of additions follows from extents alone, so equal inputs give
    equal bits. Functions with scopes of their own stay as their author wrote them."""

    def run(self, module: Module) -> Module:
        """``module`` with long reductions in two steps."""
        return map_functions(module, _split)


def _split(function: Function) -> Function:
    if function.body is None or any(isinstance(stmt, MeshScope) for stmt in function.stmts()):
        return function
    names = Names(p.name for p in function.params)
    splitter = _Splitter(names, values={p.name: p for p in function.params})
    return with_body(function, splitter.block(function.body))


@dataclass(frozen=True, slots=True)
class _Cut:
    """Axes ``first`` to ``last`` of ``shape`` as ``pieces`` runs of ``length`` elements."""

    shape: tuple[Dim, ...]
    first: int
    last: int
    pieces: int
    length: int

    def of(self, shape: tuple[Dim, ...]) -> tuple[Dim, ...] | None:
        """A shape that broadcasts to the whole, cut likewise; None where it has some of these axes alone."""
        full = (1,) * (len(self.shape) - len(shape)) + shape
        held = full[self.first : self.last]
        if held == self.shape[self.first : self.last]:
            cut: tuple[Dim, ...] = (self.pieces, self.length)
        elif all(dim == 1 for dim in held):
            cut = (1, 1)
        else:
            return None
        return (*full[: self.first], *cut, *full[self.last :])


@dataclass(slots=True)
class _Splitter(Decomposer):
    """A copier that takes long reductions apart.

    Attributes:
        made: name in the copy -> the call that gives it.
    """

    made: dict[str, Call] = field(default_factory=dict)

    def stmt(self, stmt: Stmt) -> tuple[Stmt, ...]:
        """As in Copier, with long reductions in two steps."""
        if isinstance(stmt, Bind) and isinstance(stmt.value, Call) and stmt.value.op.name == "reduce":
            self._out = []
            result = self._in_steps(stmt.value, self.atom(stmt.value.args[0]))
            if result is not None:
                self.values[stmt.target.name] = result
                return tuple(self._out)
        copied = Copier.stmt(self, stmt)
        for one in copied:
            if isinstance(one, Bind) and isinstance(one.value, Call):
                self.made[one.target.name] = one.value
        return copied

    def _in_steps(self, call: Call, value: Atom) -> Atom | None:
        """What gives the value of ``call``; None where one step is right."""
        source, result = value.type, call.type
        assert isinstance(source, TensorType) and isinstance(result, TensorType)
        axes = tuple(sorted(axis % source.rank for axis in call.attr("axes")))
        if not _is_long(source, axes):
            return None
        steps = self._by_pieces(call, value, axes) or self._by_axes(call, value, axes)
        if steps is None:
            return None
        if _tensor(steps).dtype is not result.dtype:
            steps = self.emit("cast", steps, name="rounded", dtype=result.dtype)
        return self.emit("reshape", steps, name="whole", new_shape=result.shape)

    def _by_pieces(self, call: Call, value: Atom, axes: tuple[int, ...]) -> Atom | None:
        """The outermost axes that lie side by side, cut into pieces."""
        shape = _tensor(value).shape
        first, last = axes[0], axes[-1] + 1
        if axes != tuple(range(first, last)) or not all(isinstance(d, int) for d in shape[first:last]):
            return None
        pieces = _pieces(shape, first, last)
        if pieces is None:
            return None
        length = prod(dim for dim in shape[first:last] if isinstance(dim, int)) // pieces
        cut = self._wide_for(call, self._cut(value, _Cut(shape, first, last, pieces, length), [_MOST_OPS]))
        return self._reduced(call, self._reduced(call, cut, (first + 1,)), (first,))

    def _by_axes(self, call: Call, value: Atom, axes: tuple[int, ...]) -> Atom | None:
        """The innermost run of axes, or the innermost axis, before the rest."""
        runs = [
            [axis for _, axis in run] for _, run in groupby(enumerate(axes), lambda pair: pair[1] - pair[0])
        ]
        inner = runs[-1] if len(runs) > 1 else runs[0][1:]
        outer = tuple(axis for axis in axes if axis not in inner)
        if not outer or not inner or bounds(product(_tensor(value).shape[a] for a in inner))[0] < 32:
            return None
        return self._reduced(call, self._reduced(call, self._wide_for(call, value), tuple(inner)), outer)

    def _reduced(self, call: Call, value: Atom, axes: tuple[int, ...]) -> Atom:
        return self.emit("reduce", value, name="pieces", axes=axes, keepdim=False, kind=call.attr("kind"))

    def _wide_for(self, call: Call, value: Atom) -> Atom:
        """``value`` in the type that sums are kept in; extremes need none."""
        dtype = compute_dtype(_tensor(value).dtype)
        if _tensor(value).dtype is dtype or call.attr("kind") not in _WIDENED:
            return value
        return self.emit("cast", value, name="wide", dtype=dtype)

    def _cut(self, value: Atom, cut: _Cut, ops: list[int]) -> Atom:
        """``value`` with its axes cut: what computes it is computed on cut operands, so that nothing is stored for it.

        ``ops`` holds how many ops may still be repeated.
        """
        if not _tensor(value).shape:
            return value
        made = self.made.get(value.name) if isinstance(value, Var) else None
        if (
            made is not None
            and _is_elementwise(made)
            and ops[0] > 0
            and all(_fits(arg, cut) for arg in made.args)
        ):
            ops[0] -= 1
            attrs = {attr.name: made.attr(attr.name) for attr in made.op.attrs}
            return self.emit(made.op.name, *(self._cut(arg, cut, ops) for arg in made.args), **attrs)
        return self.emit("reshape", value, name="cut", new_shape=cut.of(_tensor(value).shape))


def _tensor(value: Atom) -> TensorType:
    """The type of an operand of a reduction, which is a tensor's."""
    assert isinstance(value.type, TensorType)
    return value.type


def _fits(arg: Atom, cut: _Cut) -> bool:
    return cut.of(_tensor(arg).shape) is not None


def _is_elementwise(call: Call) -> bool:
    return call.op.name in SCALAR_OPS or call.op.name == "cast"


def _is_long(source: TensorType, axes: tuple[int, ...]) -> bool:
    """Whether few blocks would read many elements."""
    kept = [dim for axis, dim in enumerate(source.shape) if axis not in axes]
    largest = bounds(product(kept))[1]
    blocks = max(_blocks(source.shape, axes, largest), 1)
    return blocks < ENOUGH_BLOCKS and bounds(source.size)[1] >= MOST_OF_A_BLOCK * blocks


def _blocks(shape: tuple[Dim, ...], axes: tuple[int, ...], results: int) -> int:
    return results if len(shape) - 1 in axes else -(-results // _COLUMNS)


def _pieces(shape: tuple[Dim, ...], first: int, last: int) -> int | None:
    """Into how many pieces the axes are cut: a divisor of their product, one that keeps addresses aligned if any."""
    count, inner = product(shape[first:last]), product(shape[last:])
    assert isinstance(count, int)
    results = bounds(product((*shape[:first], inner)))[1]
    blocks = max(_blocks(shape, tuple(range(first, last)), results), 1)
    most = min(2 * WANTED_BLOCKS // blocks, count // _SHORTEST[last == len(shape)])
    divisors = [n for n in range(2, most + 1) if count % n == 0]
    aligned = [n for n in divisors if isinstance(inner, int) and count // n * inner % 8 == 0]
    wanted = WANTED_BLOCKS // blocks
    return min(aligned or divisors, key=lambda n: (abs(n - wanted), n), default=None)
