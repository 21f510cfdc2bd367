"""Inline calls into the entry, and gather the weights of the children that it reaches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tilefoundry.ir.core.expr import Atom, FunctionCall, Stmt, Var
from tilefoundry.ir.core.module import Module
from tilefoundry.ir.errors import LoweringError
from tilefoundry.ir.hir.function import Function
from tilefoundry.ir.passes.copying import Copier, Names, substitute_type
from tilefoundry.ir.passes.solving import solve
from tilefoundry.ir.types import Dim, DimVar, TensorType, TupleType, dim_vars

__all__ = ["PARAM_PATHS", "InlineCalls"]

PARAM_PATHS = "param_paths"
"""Metadata key: one dotted name per parameter of the entry, as callers know it."""


@dataclass(frozen=True, slots=True)
class InlineCalls:
    """The module's entry with every call replaced by the callee's body.

    Before: a module with an HIR entry. After: a module of that one function. Weights that belong to child
    modules follow the entry's own parameters, in call order, each once; the metadata entry ``param_paths``
    names every parameter by its dotted path; a parameter that is called like an extent gets another name in
    the function, since kernels take both as arguments. A call stays where ``keeps`` says so of the topologies
    that the callee declares itself, or else its module.

    Raises:
        LoweringError: no HIR entry, a function without body, or recursion.
    """

    keeps: Callable[[tuple[Any, ...] | None], bool] | None = None

    def run(self, module: Module) -> Module:
        """``module`` with one flat function."""
        entry = module.entry_function()
        if not isinstance(entry, Function):
            raise LoweringError(f"{module.name}.{entry.name} is a prim_func; only HIR functions are inlined")
        names = Names(_dim_names(entry))
        params = {p.name: replace(p, name=names.fresh(p.name)) for p in entry.params}
        inliner = _Inliner(names, self.keeps, params)
        flat = inliner.entry(module, entry)
        paths = _own_paths(module, entry) + tuple(inliner.weights)
        metadata = {**module.metadata, PARAM_PATHS: paths}
        children = module.modules if self.keeps else ()
        return Module(
            module.name,
            (flat,),
            flat.name,
            children,
            module.root.target,
            module.effective_topologies() or None,
            metadata,
        )


def _own_paths(module: Module, entry: Function) -> tuple[str, ...]:
    """What callers know the entry's own parameters as: what the module says, where it was flattened before."""
    known = module.metadata.get(PARAM_PATHS)
    if known is None:
        return tuple(p.name for p in entry.params)
    if len(known) != len(entry.params):
        raise LoweringError(
            f"{module.name}: its metadata {PARAM_PATHS} names {len(known)} parameters, {entry.name} has "
            f"{len(entry.params)}; name each of them, or leave the metadata out"
        )
    return tuple(known)


@dataclass(slots=True)
class _Inliner:
    names: Names
    keeps: Callable[[tuple[Any, ...] | None], bool] | None
    params: dict[str, Var]
    weights: dict[str, Var] = field(default_factory=dict)
    active: list[int] = field(default_factory=list)

    def entry(self, module: Module, function: Function) -> Function:
        """The flat entry, with variants flattened one by one and the gathered weights appended."""
        variants = tuple(
            type(v)(v.pattern, self._flat(module, v.function, v.function.name)) for v in function.variants
        )
        flat = self._flat(module, function, function.name)
        weights = tuple(self.weights.values())
        whole = Function(
            flat.name,
            flat.params + weights,
            flat.result,
            flat.body,
            topologies=function.topologies,
            target=function.target,
            variants=tuple(
                type(v)(
                    v.pattern,
                    Function(
                        v.function.name, v.function.params + weights, v.function.result, v.function.body
                    ),
                )
                for v in variants
            ),
        )
        return whole

    def _flat(self, module: Module, function: Function, name: str) -> Function:
        params = tuple(self.params[p.name] for p in function.params)
        if function.body is None:
            return Function(name, params, function.result, None)
        values: dict[str, Atom] = dict(self.params)
        copier = Copier(self.names, "", values, {}, self._hook(module, ()))
        return Function(name, params, function.result, copier.block(function.body))

    def _hook(self, module: Module, path: tuple[str, ...]) -> Any:
        def on_call(call: FunctionCall, target: Var, caller: Copier) -> tuple[Stmt, ...] | None:
            return self._inline(module, path, call, target, caller)

        return on_call

    def _inline(
        self, module: Module, path: tuple[str, ...], call: FunctionCall, target: Var, caller: Copier
    ) -> tuple[Stmt, ...] | None:
        node = module
        for part in call.path[:-1]:
            node = node.child(part)
        declared = node.topologies if call.callee.topologies is None else call.callee.topologies
        if self.keeps and self.keeps(declared):
            return None
        if id(call.callee) in self.active:
            raise LoweringError(f"{'.'.join((*path, *call.path))} calls itself; recursion cannot be lowered")
        where = path + call.path[:-1]
        callee = _chosen_variant(call, ".".join((*path, *call.path)))
        arguments = self._arguments(call, callee, where)
        dims = _bound_dims(callee, arguments)
        prefix = "_".join(where) + "_" if where else ""
        copier = Copier(self.names, prefix, arguments, dims, self._hook(node, where))
        assert callee.body is not None
        self.active.append(id(call.callee))
        block = copier.block(callee.body)
        self.active.pop()
        if isinstance(callee.result, TupleType):
            caller.tuples[target.name] = block.results
        else:
            caller.values[target.name] = block.results[0]
        return block.stmts

    def _arguments(self, call: FunctionCall, callee: Function, where: tuple[str, ...]) -> dict[str, Atom]:
        if not call.enters_child:
            return {p.name: arg for p, arg in zip(callee.params, call.args, strict=True)}
        given = iter(call.args)
        return {p.name: self._weight(where, p) if p.is_const else next(given) for p in callee.params}

    def _weight(self, where: tuple[str, ...], param: Var) -> Var:
        path = ".".join((*where, param.name))
        if path not in self.weights:
            name = self.names.fresh("_".join((*where, param.name)))
            self.weights[path] = Var(param.type, name, is_const=True)
        return self.weights[path]


def _dim_names(entry: Function) -> tuple[str, ...]:
    """Names of every extent that the entry's signature holds."""
    return tuple(dict.fromkeys(var.name for var in entry.dim_vars()))


def _chosen_variant(call: FunctionCall, path: str) -> Function:
    callee = call.callee
    if not callee.variants:
        if callee.body is None:
            raise LoweringError(
                f"{path} has no body; give it one, or add variants with @{callee.name}.specialize"
            )
        return callee
    given = _given_dims(callee, call)
    for variant in callee.variants:
        value = given.get(variant.pattern.name)
        if isinstance(value, int) and variant.pattern.matches(value):
            return variant.function
        if isinstance(value, DimVar) and variant.pattern.lo <= value.lo and value.hi <= variant.pattern.hi:
            return variant.function
    raise LoweringError(
        f"{path}: which variant runs is known at run time only, and a call of it is inlined; "
        f"call it as the entry, or give the call a static {callee.variants[0].pattern.name}"
    )


def _given_dims(callee: Function, call: FunctionCall) -> Mapping[str, Dim]:
    params = callee.activations if call.enters_child else callee.params
    return _bound_dims(callee, {p.name: arg for p, arg in zip(params, call.args, strict=True)})


def _bound_dims(callee: Function, arguments: Mapping[str, Atom]) -> dict[str, Dim]:
    """DimVar name of the callee -> extent at the caller, from the arguments' types."""
    dims: dict[str, Dim] = {}
    for param in callee.params:
        argument = arguments.get(param.name)
        if argument is None or not isinstance(param.type, TensorType):
            continue
        assert isinstance(argument.type, TensorType)
        for declared, actual in zip(param.type.shape, argument.type.shape, strict=True):
            for var in dim_vars(declared):
                found = solve(declared, var, actual)
                if found is not None:
                    dims.setdefault(var.name, found)
    _check_types(callee, arguments, dims)
    return {name: dim for name, dim in dims.items() if not (isinstance(dim, DimVar) and dim.name == name)}


def _check_types(callee: Function, arguments: Mapping[str, Atom], dims: Mapping[str, Dim]) -> None:
    for param in callee.params:
        argument = arguments.get(param.name)
        if argument is None:
            continue
        wanted = substitute_type(param.type, dims)
        if not wanted.same_value_type(argument.type):
            raise LoweringError(
                f"{callee.name}: {param.name} is declared {param.type}, the call gives {argument.type}"
            )
