"""The kernels that an entry calls, as children of its module."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tilefoundry.ir.core.expr import Bind, Block, For, FunctionCall, Stmt
from tilefoundry.ir.core.module import Module
from tilefoundry.ir.hir.function import Function, Variant
from tilefoundry.ir.passes import with_body
from tilefoundry.ir.tir import PrimFunction

__all__ = ["map_kernels"]


def map_kernels(module: Module, change: Callable[[Function], Function]) -> Module:
    """The module of the entry with ``change`` applied to every kernel that it calls, each a child of its name; those
    written as statements stay as they are.

    The entry, or each of its variants, is flat; its calls are of kernels with names of their own.
    """
    entry = module.entry_function()
    assert isinstance(entry, Function)
    kernels: dict[str, Function | PrimFunction] = {}
    new = _changed(entry, change, kernels)
    children = tuple(_child(kernel) for kernel in kernels.values())
    return Module(module.name, (new,), new.name, children, module.target, module.topologies, module.metadata)


def _child(kernel: Function | PrimFunction) -> Module:
    """The kernel as ``@func(topologies=...)`` declares one in a class: its levels are its module's."""
    if isinstance(kernel, PrimFunction):
        plain: Function | PrimFunction = replace(kernel, topologies=None)
        return Module(kernel.name, (plain,), kernel.name, topologies=kernel.topologies)
    plain = Function(kernel.name, kernel.params, kernel.result, kernel.body)
    return Module(kernel.name, (plain,), kernel.name, topologies=kernel.topologies)


def _changed(
    function: Function, change: Callable[[Function], Function], kernels: dict[str, Function | PrimFunction]
) -> Function:
    def changed(stmt: Stmt) -> Stmt:
        if isinstance(stmt, For):
            return replace(stmt, body=Block(tuple(map(changed, stmt.body.stmts)), stmt.body.results))
        if not isinstance(stmt, Bind) or not isinstance(stmt.value, FunctionCall):
            return stmt
        call = stmt.value
        kernel = change(call.callee) if isinstance(call.callee, Function) else call.callee
        kernels[kernel.name] = kernel
        return Bind(stmt.target, FunctionCall(call.type, kernel, (kernel.name, kernel.name), call.args))

    body = function.body
    if body is not None:
        function = with_body(function, Block(tuple(map(changed, body.stmts)), body.results))
    variants = tuple(Variant(v.pattern, _changed(v.function, change, kernels)) for v in function.variants)
    if not variants:
        return function
    return Function(
        function.name,
        function.params,
        function.result,
        function.body,
        topologies=function.topologies,
        target=function.target,
        variants=variants,
    )
