"""A small interpreter of TIR over flat Python lists, as the oracle of what a @prim_func means."""

from __future__ import annotations

import contextlib
import itertools
import math
import operator
from collections.abc import Callable
from typing import Any

from tilefoundry.ir import tir as S
from tilefoundry.ir.core.expr import Constant, Var
from tilefoundry.ir.core.kinds import ReduceKind
from tilefoundry.ir.tir import expr as E
from tilefoundry.ir.tir.function import PrimFunction
from tilefoundry.ir.types import evaluate_dim

__all__ = ["Aborted", "interpret"]

_OPS: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": lambda a, b: a / b if b else math.nan,
    "mod": operator.mod,
    "neg": operator.neg,
    "silu": lambda a: a / (1 + math.exp(-a)),
    "exp": math.exp,
    "square": lambda a: a * a,
    "cmp_lt": operator.lt,
    "cmp_le": operator.le,
    "tanh": math.tanh,
    "logical_or": lambda a, b: a or b,
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

    def run_tilecontraction(self, stmt: S.TileContraction) -> None:
        *batch, rows, columns = (self.dim(extent) for extent in stmt.shape)
        for place in itertools.product(*map(range, (*batch, rows, columns))):
            *lead, i, j = place
            self.env.update(zip((v.name for v in stmt.indices), place, strict=True))
            for total, right in zip(stmt.sums, stmt.rhs, strict=True):
                self.env[total.name] = sum(
                    self.element(stmt.lhs, (*lead, i, k)) * self.element(right, (*lead, k, j))
                    for k in range(self.dim(stmt.depth))
                )
            self.run(stmt.body)

    def run_tileattention(self, stmt: S.TileAttention) -> None:
        batch, heads, queries, dims = (self.dim(extent) for extent in stmt.shape)
        depth, shared = self.dim(stmt.q.type.shape[3]), self.dim(stmt.k.type.shape[1])
        for b, h, i in itertools.product(range(batch), range(heads), range(queries)):
            g, keys = h * shared // heads, self.dim(stmt.k.type.shape[2])
            if stmt.kv_len is not None:
                keys = int(self.element(stmt.kv_len, (b,) if stmt.kv_len.type.rank else ()))
            scores = {}
            for t in range(keys):
                score = stmt.scale * sum(
                    self.element(stmt.q, (b, h, i, d)) * self.element(stmt.k, (b, g, t, d))
                    for d in range(depth)
                )
                if stmt.softcap is not None:
                    score = stmt.softcap * math.tanh(score / stmt.softcap)
                at = keys - queries + i
                if not stmt.causal or (t <= at and (stmt.window is None or t > at - stmt.window)):
                    scores[t] = score
            weights = {t: math.exp(s - max(scores.values())) for t, s in scores.items()}
            for d in range(dims):
                self.env.update(zip((v.name for v in stmt.indices), (b, h, i, d), strict=True))
                weighed = sum(w * self.element(stmt.v, (b, g, t, d)) for t, w in weights.items())
                self.env[stmt.output.name] = weighed / sum(weights.values()) if weights else 0.0
                self.run(stmt.body)

    def element(self, operand: Any, place: tuple[int, ...]) -> float:
        """An operand's element; missing and extent-1 leading axes repeat."""
        shape = [self.dim(extent) for extent in operand.type.shape]
        place = place[len(place) - len(shape) :]
        place = tuple(0 if extent == 1 else at for at, extent in zip(place, shape, strict=True))
        if isinstance(operand, S.Prologue):
            held = dict(self.env)
            self.env.update(zip((v.name for v in operand.indices), place, strict=True))
            value = self.value(operand.value)
            self.env = held
            return value
        at = self.dim(operand.offset)
        at += sum(i * self.dim(stride) for i, stride in zip(place, operand.strides, strict=True))
        return self.buffers[operand.buffer.name][at]

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
            return int(args[0]) if expr.type.dtype.name == "i64" else float(args[0])
        return _OPS[expr.op](*args)

    def dim(self, dim: Any) -> int:
        return evaluate_dim(dim, self.env)
