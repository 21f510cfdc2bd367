"""Spell row ops out in elementwise ops and reductions, so that they fuse with what is around them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tilefoundry.codegen.cpu.decompose_attention import attention, quant
from tilefoundry.ir.core.expr import Atom, Bind, Call, Constant, FunctionCall, Stmt, Var
from tilefoundry.ir.core.module import Module
from tilefoundry.ir.hir import HIR_OPS
from tilefoundry.ir.hir.function import Function
from tilefoundry.ir.passes import Copier, Names, map_functions, with_body
from tilefoundry.ir.tir import compute_dtype
from tilefoundry.ir.types import TensorType, scalar

__all__ = ["Decomposer", "DecomposeRows"]


def _none(call: Call) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class DecomposeRows:
    """softmax, rms_norm, layer_norm, attention and quant become arithmetic, reductions and products in the wide
    type, rounded once.

    Attributes:
        keeps: calls that stay as they are, for a target that computes them in one kernel.
    """

    keeps: Callable[[Call], bool] = _none

    def run(self, module: Module) -> Module:
        """``module`` without row ops but those that are kept."""
        return map_functions(module, self._decomposed)

    def _decomposed(self, function: Function) -> Function:
        if function.body is None:
            return function
        known: dict[str, Atom] = {p.name: p for p in function.params}
        copier = Decomposer(Names(p.name for p in function.params), values=known)
        copier.keeps = self.keeps
        return with_body(function, copier.block(function.body))


class Decomposer(Copier):
    """A copier that replaces row ops by the statements that spell them out."""

    __slots__ = ("_out", "keeps")

    def stmt(self, stmt: Stmt) -> tuple[Stmt, ...]:
        """As in Copier, with row ops spelled out."""
        if isinstance(stmt, Bind) and isinstance(stmt.value, Call) and self._spells(stmt.value):
            self._out: list[Stmt] = []
            call = stmt.value
            args = tuple(self._wide(self.atom(arg)) for arg in call.args)
            wide = _RULES[call.op.name](self, call, args)
            if isinstance(wide, tuple):
                self.tuples[stmt.target.name] = wide
                return tuple(self._out)
            assert isinstance(call.type, TensorType)
            dtype = call.type.dtype
            self.values[stmt.target.name] = self._named(stmt.target.name, wide, dtype)
            return tuple(self._out)
        return Copier.stmt(self, stmt)

    def _spells(self, call: Call) -> bool:
        return call.op.name in _RULES and not self.keeps(call)

    def emit(self, op: str, *args: Atom, name: str = "row", **attrs: object) -> Atom:
        """Append ``op(*args, **attrs)`` and give its value, which has no name that the program could mean."""
        call = HIR_OPS[op].call(args, attrs)
        bind = Bind(Var(call.type, self.names.fresh(self.prefix + name)), call)
        self._out.append(bind)
        return bind.target

    def constant(self, like: Atom, value: float) -> Constant:
        """``value`` in the dtype of ``like``."""
        assert isinstance(like.type, TensorType)
        return Constant(scalar(like.type.dtype), value)

    def _wide(self, atom: Atom) -> Atom:
        assert isinstance(atom.type, TensorType)
        dtype = compute_dtype(atom.type.dtype)
        return atom if dtype is atom.type.dtype else self.emit("cast", atom, name="wide", dtype=dtype)

    def _named(self, name: str, wide: Atom, dtype: object) -> Atom:
        assert isinstance(wide.type, TensorType)
        if wide.type.dtype is not dtype:
            return self.emit("cast", wide, name=name, dtype=dtype)
        last = self._out[-1]
        assert isinstance(last, Bind) and last.target == wide, "a rule's value is what it emitted last"
        renamed = Bind(self.define(_named(name, last.value), last.value.type), last.value)
        self._out[-1] = renamed
        return renamed.target


def _named(name: str, call: Call | FunctionCall) -> Var:
    return Var(call.type, name)


def _softmax(to: Decomposer, call: Call, args: tuple[Atom, ...]) -> Atom:
    (x,) = args
    axes = (call.attr("axis"),)
    top = to.emit("reduce", x, name="row_max", axes=axes, keepdim=True, kind="max")
    shifted = to.emit("exp", to.emit("sub", x, top, name="shifted"), name="weight")
    total = to.emit("reduce", shifted, name="row_sum", axes=axes, keepdim=True, kind="sum")
    return to.emit("div", shifted, total)


def _rms_norm(to: Decomposer, call: Call, args: tuple[Atom, ...]) -> Atom:
    x = args[0]
    squares = to.emit(
        "reduce",
        to.emit("square", x, name="squared"),
        name="mean_square",
        axes=(-1,),
        keepdim=True,
        kind="mean",
    )
    scale = to.emit(
        "rsqrt", to.emit("add", squares, to.constant(x, call.attr("eps")), name="shifted"), name="scale"
    )
    out = to.emit("mul", x, scale)
    return to.emit("mul", out, args[1]) if len(args) > 1 else out


def _layer_norm(to: Decomposer, call: Call, args: tuple[Atom, ...]) -> Atom:
    x = args[0]
    assert isinstance(x.type, TensorType)
    axes = tuple(range(call.attr("axis") % x.type.rank, x.type.rank))
    mean = to.emit("reduce", x, name="row_mean", axes=axes, keepdim=True, kind="mean")
    centred = to.emit("sub", x, mean, name="centred")
    squared = to.emit("square", centred, name="squared")
    variance = to.emit("reduce", squared, name="variance", axes=axes, keepdim=True, kind="mean")
    shifted = to.emit("add", variance, to.constant(x, call.attr("eps")), name="shifted")
    out = to.emit("mul", centred, to.emit("rsqrt", shifted, name="scale"))
    if len(args) > 1:
        out = to.emit("mul", out, args[1])
    return to.emit("add", out, args[2]) if len(args) > 2 else out


_RULES: dict[str, Callable[[Decomposer, Call, tuple[Atom, ...]], Atom | tuple[Atom, ...]]] = {
    "attention": attention,
    "quant": quant,
    "softmax": _softmax,
    "rms_norm": _rms_norm,
    "layer_norm": _layer_norm,
}
