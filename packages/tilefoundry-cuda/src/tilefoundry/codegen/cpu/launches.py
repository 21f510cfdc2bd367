"""Calls of functions that are kernels by themselves stay calls; every other call is inlined."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tilefoundry.codegen.cpu.statement_kernels import kernel_name, statements_kernel
from tilefoundry.ir.core.expr import Atom, Bind, Block, FunctionCall, Stmt, Var
from tilefoundry.ir.core.module import Module, select
from tilefoundry.ir.core.pattern import DimVarRangePat
from tilefoundry.ir.errors import LoweringError
from tilefoundry.ir.hir.function import Function, Variant
from tilefoundry.ir.passes import PARAM_PATHS, Copier, InlineCalls, Names, solve, substitute_type, with_body
from tilefoundry.ir.tir import PrimFunction
from tilefoundry.ir.types import Dim, DimVar, TensorType, dim_vars, substitute
from tilefoundry.ir.types.shard import Topology

__all__ = ["KeepLaunches"]


Levels = tuple[Topology, ...] | None


@dataclass(frozen=True, slots=True)
class KeepLaunches:
    """Before: a module with an HIR entry. After: a module of that one function, flat but for calls of kernels, each a
    flat function with the levels in force for it.

    Weights that belong to children follow the entry's own parameters, as with ``InlineCalls``.

    Attributes:
        declares: whether a function with these levels may be a kernel; every other call is inlined at once.
        is_kernel: whether such a function, flat, is one.
    """

    declares: Callable[[Levels], bool]
    is_kernel: Callable[[Function], bool]

    def run(self, module: Module) -> Module:
        """``module`` with one entry and the kernels that it calls."""
        if isinstance(module.entry_function(), PrimFunction):
            return module
        flat = InlineCalls(self.declares).run(module)
        entry = flat.entry_function()
        assert isinstance(entry, Function)
        if not _calls(entry):
            return Module(
                flat.name, flat.functions, flat.entry, (), flat.target, flat.topologies, flat.metadata
            )
        kept = _Kept(module, self.is_kernel, Names(_taken(entry)), list(flat.metadata[PARAM_PATHS]))
        new = kept.entry(entry)
        metadata = {**flat.metadata, PARAM_PATHS: tuple(kept.paths)}
        return Module(flat.name, (new,), new.name, (), flat.target, flat.topologies, metadata)


def _calls(function: Function) -> bool:
    own = any(isinstance(stmt, Bind) and isinstance(stmt.value, FunctionCall) for stmt in function.stmts())
    return own or any(_calls(variant.function) for variant in function.variants)


def _taken(function: Function) -> set[str]:
    names = {function.name, *(p.name for p in function.params), *(v.name for v in function.dim_vars())}
    for stmt in function.stmts():
        if isinstance(stmt, Bind):
            names.add(stmt.target.name)
    for variant in function.variants:
        names |= _taken(variant.function)
    return names


def _with_variants(function: Function, variants: list[tuple[DimVarRangePat, Function]]) -> Function:
    return Function(
        function.name,
        function.params,
        function.result,
        function.body,
        topologies=function.topologies,
        target=function.target,
        variants=tuple(Variant(pattern, part) for pattern, part in variants),
    )


def _with_params(function: Function, params: tuple[Var, ...]) -> Function:
    return Function(
        function.name,
        params,
        function.result,
        function.body,
        topologies=function.topologies,
        target=function.target,
        variants=tuple(Variant(v.pattern, _with_params(v.function, params)) for v in function.variants),
    )


@dataclass(slots=True)
class _Kept:
    """Rewrites the calls of one entry.

    Attributes:
        module: where paths start.
        is_kernel: whether a flat callee stays a call.
        names: of the entry.
        paths: dotted names of the entry's parameters.
        weights: dotted path -> the parameter that the entry gets for it.
    """

    module: Module
    is_kernel: Callable[[Function], bool]
    names: Names
    paths: list[str]
    weights: dict[str, Var] = field(default_factory=dict)

    def entry(self, function: Function) -> Function:
        """The entry with its calls rewritten, and the weights that they need."""
        known = dict(zip(self.paths, function.params, strict=True))
        self.weights = {path: var for path, var in known.items() if var.is_const}
        new = self._rewritten(function)
        added = [var for path, var in self.weights.items() if path not in known]
        self.paths += [path for path in self.weights if path not in known]
        return _with_params(new, (*function.params, *added))

    def _rewritten(self, function: Function) -> Function:
        new = with_body(function, None if function.body is None else self._block(function.body))
        return _with_variants(new, [(v.pattern, self._rewritten(v.function)) for v in function.variants])

    def _block(self, block: Block) -> Block:
        copier = Copier(Names(), on_call=self._on_call)
        return copier.block(block)

    def _on_call(self, call: FunctionCall, target: Var, caller: Copier) -> tuple[Stmt, ...] | None:
        node = self.module
        for part in call.path[:-1]:
            node = node.child(part)
        if isinstance(call.callee, PrimFunction):
            kernel = statements_kernel(call, node.effective_topologies() or (), self.names)
            made = FunctionCall(call.type, kernel, (kernel.name, kernel.name), call.args)
            return (Bind(caller.define(target, call.type), made),)
        flat = InlineCalls().run(
            select(self.module, ".".join(call.path)) if len(call.path) > 1 else _entered(node, call)
        )
        callee = flat.entry_function()
        assert isinstance(callee, Function)
        if callee.body is None:
            raise LoweringError(
                f"{'.'.join(call.path)}: a function with variants is called; call it as the entry, where its "
                "variant is chosen at run time"
            )
        arguments = self._arguments(call, callee, flat.metadata[PARAM_PATHS])
        levels: tuple[Topology, ...] = tuple(call.callee.topologies or node.effective_topologies() or ())
        made = _bound(callee, arguments, levels, self.names)
        if not self.is_kernel(made):
            assert made.body is not None
            inner = Copier(
                caller.names,
                f"{call.callee.name}_",
                dict(zip((p.name for p in made.params), arguments, strict=True)),
            )
            copied = inner.block(made.body)
            if len(copied.results) == 1:
                caller.values[target.name] = copied.results[0]
            else:
                caller.tuples[target.name] = copied.results
            return copied.stmts
        new = FunctionCall(made.result, made, (made.name, made.name), arguments)
        return (Bind(caller.define(target, made.result), new),)

    def _arguments(self, call: FunctionCall, callee: Function, paths: tuple[str, ...]) -> tuple[Atom, ...]:
        given = iter(call.args)
        where = ".".join(call.path[:-1])
        out: list[Atom] = []
        own = {p.name for p in call.callee.params}
        for param, path in zip(callee.params, paths, strict=True):
            passed = path in own and not (call.enters_child and param.is_const)
            out.append(next(given) if passed else self._weight(f"{where}.{path}" if where else path, param))
        return tuple(out)

    def _weight(self, path: str, param: Var) -> Var:
        if path not in self.weights:
            name = self.names.fresh(path.replace(".", "_"))
            self.weights[path] = Var(param.type, name, is_const=True)
        return self.weights[path]


def _entered(node: Module, call: FunctionCall) -> Module:
    return select(node, call.path[-1])


def _bound(
    callee: Function, arguments: tuple[Atom, ...], levels: tuple[Topology, ...], names: Names
) -> Function:
    """The callee over the caller's extents, with names of its own for its parameters."""
    dims: dict[str, Dim] = {}
    for param, argument in zip(callee.params, arguments, strict=True):
        if isinstance(param.type, TensorType) and isinstance(argument.type, TensorType):
            for declared, actual in zip(param.type.shape, argument.type.shape, strict=True):
                for var in dim_vars(declared):
                    found = solve(declared, var, actual)
                    if found is not None:
                        dims.setdefault(var.name, found)
    dims = {n: d for n, d in dims.items() if not (isinstance(d, DimVar) and d.name == n)}
    inner = Names()
    params = tuple(Var(substitute_type(p.type, dims), inner.fresh(p.name)) for p in callee.params)
    values: dict[str, Atom] = {p.name: new for p, new in zip(callee.params, params, strict=True)}
    copier = Copier(inner, values=values, dims=dict(dims))
    assert callee.body is not None
    body = copier.block(callee.body)
    bound = tuple(Topology(level.name, _over(level.extent, dims)) for level in levels)
    name = names.fresh(kernel_name(callee.name))
    return Function(name, params, substitute_type(callee.result, dims), body, topologies=bound)


def _over(extent: Dim, dims: dict[str, Dim]) -> Dim:
    return extent if isinstance(extent, int) else substitute(extent, dims)
