"""A small interpreter of TIR over flat Python lists, as the oracle of what a @prim_func means."""

from __future__ import annotations

import contextlib
import math
import operator
from collections.abc import Callable
from typing import Any

from tilefoundry.ir.core.expr import Constant, Var
from tilefoundry.ir.core.kinds import ReduceKind
from tilefoundry.ir.tir import expr as E
from tilefoundry.ir.tir import stmt as S
from tilefoundry.ir.tir.function import PrimFunction
from tilefoundry.ir.types import evaluate_dim

__all__ = ["Aborted", "interpret"]

_OPS: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "mod": operator.mod,
    "neg": operator.neg,
    "exp": math.exp,
    "square": lambda a: a * a,
    "cmp_lt": operator.lt,
    "cmp_gt": operator.gt,
    "cmp_ge": operator.ge,
    "cmp_eq": operator.eq,
    "logical_and": lambda a, b: a and b,
    "logical_not": operator.not_,
    "select": lambda c, a, b: a if c else b,
    "maximum": max,
    "relu": lambda a: max(a, 0),
}
_START = {ReduceKind.SUM: 0.0, ReduceKind.MAX: -math.inf, ReduceKind.MIN: math.inf}
_JOIN = {ReduceKind.SUM: operator.add, ReduceKind.MAX: max, ReduceKind.MIN: min}


class Aborted(Exception):
    """An Abort statement whose condition held."""


class _Returned(Exception):
    pass


def interpret(function: PrimFunction, extents: dict[str, int], **buffers: list[float]) -> None:
    """Run ``function`` on ``buffers``, flat row-major lists that it changes in place."""
    with contextlib.suppress(_Returned):
        _Machine(dict(extents), dict(buffers)).run(function.body)


class _Machine:
    def __init__(self, env: dict[str, Any], buffers: dict[str, list[float]]) -> None:
        self.env, self.buffers = env, buffers

    def run(self, stmts: tuple[Any, ...]) -> None:
        for stmt in stmts:
            getattr(self, f"run_{type(stmt).__name__.lower()}")(stmt)

    def run_let(self, stmt: S.Let) -> None:
        self.env[stmt.target.name] = self.value(stmt.value)

    def run_accumulator(self, stmt: S.Accumulator) -> None:
        self.env[stmt.target.name] = _START[stmt.kind]

    def run_accumulate(self, stmt: S.Accumulate) -> None:
        name = stmt.target.name
        self.env[name] = _JOIN[stmt.kind](self.env[name], self.value(stmt.value))

    def run_store(self, stmt: S.Store) -> None:
        self.buffers[stmt.buffer.name][self.dim(stmt.index)] = self.value(stmt.value)

    def run_allocate(self, stmt: S.Allocate) -> None:
        self.buffers[stmt.buffer.name] = [math.nan] * self.dim(stmt.size)

    def run_for(self, stmt: S.For) -> None:
        for i in range(self.dim(stmt.start), self.dim(stmt.stop), self.dim(stmt.step)):
            self.env[stmt.index.name] = i
            self.run(stmt.body)

    def run_parallel(self, stmt: S.Parallel) -> None:
        half = self.dim(stmt.extent) // 2
        for begin, end in ((0, half), (half, self.dim(stmt.extent))):
            self.env.update({stmt.begin.name: begin, stmt.end.name: end})
            self.run(stmt.body)

    def run_while(self, stmt: S.While) -> None:
        while self.value(stmt.condition):
            self.run(stmt.body)

    def run_if(self, stmt: S.If) -> None:
        self.run(stmt.then if self.value(stmt.condition) else stmt.orelse)

    def run_meshscope(self, stmt: S.MeshScope) -> None:
        self.run(stmt.body)

    def run_abort(self, stmt: S.Abort) -> None:
        if self.value(stmt.condition):
            raise Aborted(f"{stmt.kind}: {stmt.message}")

    def run_return(self, stmt: S.Return) -> None:
        raise _Returned

    def value(self, expr: Any) -> Any:
        if isinstance(expr, Constant):
            return expr.value
        if isinstance(expr, Var):
            return self.env[expr.name]
        if isinstance(expr, E.IndexValue):
            return self.dim(expr.value)
        if isinstance(expr, E.Load):
            return self.buffers[expr.buffer.name][self.dim(expr.index)]
        assert isinstance(expr, E.Apply)
        args = [self.value(arg) for arg in expr.args]
        if expr.op == "cast":
            return float(args[0])
        return _OPS[expr.op](*args)

    def dim(self, dim: Any) -> int:
        return evaluate_dim(dim, self.env)
