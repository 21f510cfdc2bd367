"""Take device placement out of a program that runs on a CPU, or say by name what cannot be."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tilefoundry.ir.core.expr import Bind, Call, FunctionCall, MeshScope, Stmt, Var
from tilefoundry.ir.core.module import Module
from tilefoundry.ir.errors import UnsupportedError
from tilefoundry.ir.hir.function import Function
from tilefoundry.ir.passes import Copier, Names, map_functions, substitute_type
from tilefoundry.ir.types import TensorType, TupleType, Type

__all__ = ["ErasePlacement"]


@dataclass(frozen=True, slots=True)
class ErasePlacement:
    """Mesh scopes and value-preserving reshards are gone; types carry neither layout nor storage, those of what kernels
    give among them.

    Raises:
        UnsupportedError: ``tf.local``, whose value is one instance's part.
    """

    def run(self, module: Module) -> Module:
        """``module`` without placement."""
        return map_functions(module, _erased)


def _erased(function: Function) -> Function:
    params = tuple(Var(_plain(p.type), p.name, p.is_const) for p in function.params)
    body = None
    if function.body is not None:
        copier = _Eraser(Names(p.name for p in params), values={p.name: p for p in params})
        body = copier.block(function.body)
    return Function(
        function.name,
        params,
        _plain(function.result),
        body,
        converters=function.converters,
        variants=function.variants,
    )


def _plain(type_: Type) -> Type:
    if isinstance(type_, TupleType):
        return TupleType(tuple(_plain(element) for element in type_.elements))
    return substitute_type(TensorType(type_.shape, type_.dtype), {})


class _Eraser(Copier):
    __slots__ = ()

    def stmt(self, stmt: Stmt) -> tuple[Stmt, ...]:
        """As in Copier, with scopes opened and reshards skipped."""
        if isinstance(stmt, MeshScope):
            return self.stmts(stmt.stmts)
        if isinstance(stmt, Bind) and isinstance(stmt.value, Call):
            name = stmt.value.op.name
            if name == "local":
                raise UnsupportedError(
                    f"{stmt.target.name} = tf.local(...) has no meaning on the cpu target, where one instance holds "
                    "everything; compile for cuda, or write the computation on whole tensors"
                )
            if name in ("reshard", "prefetch"):
                self.values[stmt.target.name] = self.atom(stmt.value.args[0])
                return ()
        if isinstance(stmt, Bind) and isinstance(stmt.value, FunctionCall):
            call = replace(
                stmt.value, type=_plain(stmt.value.type), args=tuple(map(self.atom, stmt.value.args))
            )
            return (Bind(self.define(stmt.target, call.type), call),)
        return Copier.stmt(self, stmt)
