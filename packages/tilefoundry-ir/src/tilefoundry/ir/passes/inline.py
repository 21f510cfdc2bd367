"""Inline calls into the entry, and gather the weights of the children that it reaches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from tilefoundry.ir.core.expr import Atom, FunctionCall, Stmt, Var
from tilefoundry.ir.core.module import Module
from tilefoundry.ir.core.pattern import DimVarRangePat
from tilefoundry.ir.errors import LoweringError
from tilefoundry.ir.hir.function import Function, Variant
from tilefoundry.ir.passes.copying import Copier, Names, substitute_type
from tilefoundry.ir.passes.solving import solve
from tilefoundry.ir.passes.variants import Ranges, Uncovered, Undecided, chosen_variant
from tilefoundry.ir.tir.function import PrimFunction
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
    that the callee declares itself, or else its module. Where a call decides which variant of a callee runs, the
    entry gets variants too: one per range of the extent, with the choice made in each.

    Raises:
        LoweringError: no HIR entry, a function without body, recursion, or a variant chosen by several extents.
    """

    keeps: Callable[[tuple[Any, ...] | None], bool] | None = None

    def run(self, module: Module) -> Module:
        """``module`` with one flat function."""
        entry = module.entry_function()
        if not isinstance(entry, Function):
            raise LoweringError(f"{module.name}.{entry.name} is a prim_func; only HIR functions are inlined")
        names = Names(_dim_names(entry))
        params = {p.name: replace(p, name=names.fresh(p.name)) for p in entry.params}
        ranges = {var.name: (var.lo, var.hi) for var in entry.dim_vars()}
        inliner = _Inliner(names, self.keeps, params, ranges)
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
    ranges: Ranges
    weights: dict[str, Var] = field(default_factory=dict)
    active: list[int] = field(default_factory=list)

    def entry(self, module: Module, function: Function) -> Function:
        """The flat entry, with variants flattened one by one and the gathered weights appended."""
        if function.variants:
            cut = [part for v in function.variants for part in self._variants(module, v)]
            flat = self._base(function, function.name, tuple(cut))
        else:
            flat = self._flat_or_cut(module, function)
        return _extended(flat, tuple(self.weights.values()), function)

    def _variants(self, module: Module, variant: Variant) -> tuple[Variant, ...]:
        """A variant of the entry, or its parts where its calls ask for more cuts of the same extent."""
        pattern, before = variant.pattern, self.ranges
        self.ranges = {**before, pattern.name: (pattern.lo, pattern.hi)}
        try:
            flat = self._flat_or_cut(module, variant.function)
        finally:
            self.ranges = before
        if flat.variants and flat.variants[0].pattern.name == pattern.name:
            return flat.variants
        return (Variant(pattern, flat),)

    def _flat_or_cut(self, module: Module, function: Function) -> Function:
        """``function`` flat; with a variant per range of an extent where its calls need that to choose theirs."""
        try:
            return self._flat(module, function, function.name)
        except Undecided as undecided:
            name, cuts = undecided.name, undecided.cuts
        low, high = self.ranges[name]
        parts: list[Variant] = []
        uncovered: Uncovered | None = None
        for part in pairwise((low, *cuts, high)):
            try:
                parts += self._variants(module, Variant(DimVarRangePat(name, *part), function))
            except Uncovered as error:  # calls with such extents find no variant when they run
                uncovered = error
        if uncovered is not None and not parts:
            raise uncovered
        return self._base(function, function.name, tuple(parts))

    def _base(self, function: Function, name: str, variants: tuple[Variant, ...]) -> Function:
        params = tuple(self.params[p.name] for p in function.params)
        return Function(name, params, function.result, None, variants=variants)

    def _flat(self, module: Module, function: Function, name: str) -> Function:
        if function.body is None:
            return self._base(function, name, ())
        params = tuple(self.params[p.name] for p in function.params)
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
        if isinstance(call.callee, PrimFunction):
            return self._kept(call)
        declared = node.topologies if call.callee.topologies is None else call.callee.topologies
        if self.keeps and self.keeps(declared):
            return None
        if id(call.callee) in self.active:
            raise LoweringError(f"{'.'.join((*path, *call.path))} calls itself; recursion cannot be lowered")
        where = path + call.path[:-1]
        given = _given_dims(call.callee, call) if call.callee.variants else {}
        callee = chosen_variant(call.callee, given, ".".join((*path, *call.path)), self.ranges)
        arguments = self._arguments(call, callee, where)
        dims = _bound_dims(callee, arguments)
        prefix = "_".join(where) + "_" if where else ""
        copier = Copier(self.names, prefix, arguments, dims, self._hook(node, where))
        assert callee.body is not None
        self.active.append(id(call.callee))
        try:
            block = copier.block(callee.body)
        finally:
            self.active.pop()
        if isinstance(callee.result, TupleType):
            caller.tuples[target.name] = block.results
        else:
            caller.values[target.name] = block.results[0]
        return block.stmts

    def _kept(self, call: FunctionCall) -> None:
        """Statements stay a call, where any may."""
        if self.keeps is None:
            raise LoweringError(
                f"{'.'.join(call.path)} is a @prim_func: its statements are a kernel, called by the entry alone; call "
                "it from there"
            )

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


def _extended(flat: Function, weights: tuple[Var, ...], declared: Function) -> Function:
    """``flat`` with ``weights`` after its parameters, in every variant, and what ``declared`` says of its placement."""
    variants = tuple(Variant(v.pattern, _extended(v.function, weights, v.function)) for v in flat.variants)
    return Function(
        flat.name,
        flat.params + weights,
        flat.result,
        flat.body,
        topologies=declared.topologies,
        target=declared.target,
        variants=variants,
    )


def _dim_names(entry: Function) -> tuple[str, ...]:
    """Names of every extent that the entry's signature holds."""
    return tuple(dict.fromkeys(var.name for var in entry.dim_vars()))


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
