"""Scopes of the entry become kernels: a run of scopes without work in between is one kernel of several phases."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tilefoundry.codegen.cpu.decompose import DecomposeRows
from tilefoundry.codegen.cuda.attention_forms import has_kernel
from tilefoundry.codegen.cuda.open_scopes import open_scope
from tilefoundry.ir.core.expr import Atom, Bind, Block, Call, For, FunctionCall, MeshScope, Stmt, Var
from tilefoundry.ir.core.module import Module
from tilefoundry.ir.hir import HIR_OPS
from tilefoundry.ir.hir.function import Function, Variant
from tilefoundry.ir.passes import Copier, Names, with_body
from tilefoundry.ir.types import TensorType, TupleType, Type
from tilefoundry.ir.types.shard import Topology

__all__ = ["OutlineScopes"]

_JOINS = frozenset(["slice", "reshape", "transpose", "tuple_get_item", "reshard", "prefetch"])
_SINKS = frozenset(["zeros", "full_like", "workspace", "arange"])


@dataclass(frozen=True, slots=True)
class OutlineScopes:
    """Before: a flat entry that may hold scopes and calls of hand-placed functions. After: an entry whose scopes are
    calls too, each callee with row ops spelled out."""

    def run(self, module: Module) -> Module:
        """``module`` with its scopes outlined."""
        entry = module.entry_function()
        if not isinstance(entry, Function):
            return module
        levels = entry.topologies or module.effective_topologies() or ()
        outlined = _outlined(entry, tuple(levels), Names(_taken(entry)))
        if outlined is entry:
            return module
        return Module(
            module.name, (outlined,), outlined.name, (), module.target, module.topologies, module.metadata
        )


def _taken(function: Function) -> set[str]:
    names = {function.name, *(p.name for p in function.params), *(v.name for v in function.dim_vars())}
    for stmt in function.stmts():
        names |= set(_bound_names(stmt))
    for variant in function.variants:
        names |= _taken(variant.function)
    return names


def _bound_names(stmt: Stmt) -> Iterator[str]:
    if isinstance(stmt, Bind):
        yield stmt.target.name
    elif isinstance(stmt, For):
        yield stmt.index.name
        for carry in stmt.carries:
            yield carry.inner.name
            yield carry.result.name


def _outlined(function: Function, levels: tuple[Topology, ...], names: Names) -> Function:
    body = function.body
    if (body is not None and _placed_stmts(body.stmts)) or (
        body is not None and any(_is_launch(stmt) for stmt in body.stmts)
    ):
        function = with_body(function, _Outliner(function.name, levels, names).block(body))
    if not function.variants:
        return function
    variants = tuple(Variant(v.pattern, _outlined(v.function, levels, names)) for v in function.variants)
    return Function(
        function.name,
        function.params,
        function.result,
        function.body,
        topologies=function.topologies,
        target=function.target,
        variants=variants,
    )


def _placed_stmts(stmts: tuple[Stmt, ...]) -> bool:
    return any(_is_placed_stmt(stmt) for stmt in stmts)


def _is_placed_stmt(stmt: Stmt) -> bool:
    if isinstance(stmt, MeshScope):
        return True
    return isinstance(stmt, For) and _placed_stmts(stmt.body.stmts)


def _is_launch(stmt: Stmt) -> bool:
    return isinstance(stmt, Bind) and isinstance(stmt.value, FunctionCall)


@dataclass(slots=True)
class _Outliner:
    """Cuts a body into runs."""

    name: str
    levels: tuple[Topology, ...]
    names: Names
    count: int = 0
    out: list[Stmt] = field(default_factory=list)

    def block(self, block: Block) -> Block:
        """The host's body."""
        stmts = list(block.stmts)
        created = {s.target.name: s for s in stmts if isinstance(s, Bind) and _op(s) in _SINKS}
        at = 0
        while at < len(stmts):
            if not _is_placed_stmt(stmts[at]):
                self.out.append(self._spelled(stmts[at]))
                at += 1
                continue
            end = _run_end(stmts, at)
            used_later = set(_used(stmts[end:])) | {a.name for a in block.results if isinstance(a, Var)}
            self._kernel(stmts[at:end], used_later, created)
            at = end
        return Block(tuple(self.out), block.results)

    def _spelled(self, stmt: Stmt) -> Stmt:
        """A call of a placed function, its row ops spelled out."""
        if not isinstance(stmt, Bind) or not isinstance(stmt.value, FunctionCall):
            return stmt
        call = stmt.value
        if not isinstance(call.callee, Function):
            return stmt
        return Bind(stmt.target, FunctionCall(call.type, _decomposed(call.callee), call.path, call.args))

    def _kernel(self, run: list[Stmt], used_later: set[str], created: dict[str, Bind]) -> None:
        inside = _defined(run)
        needed = list(dict.fromkeys(name for name in _used(run) if name not in inside))
        sunk = [created[name] for name in needed if name in created]
        run = [*sunk, *run]
        inside |= {bind.target.name: bind.target for bind in sunk}
        params = tuple({v.name: v for v in _used_vars(run) if v.name not in inside}.values())
        views = [s for s in run if isinstance(s, Bind) and _op(s) in _JOINS - {"reshard"}]
        outside = set(used_later)
        for view in reversed(views):
            if view.target.name in outside:
                outside.discard(view.target.name)
                outside |= {a.name for a in view.value.args if isinstance(a, Var) and a.name in inside}
        results = [
            var
            for name, var in inside.items()
            if name in outside and name not in {s.target.name for s in sunk}
        ]
        if not results:
            return
        name = self.names.fresh(f"k{self.count}_{self.name}")
        self.count += 1
        result = _result(tuple(results))
        kernel = _over_memory(name, params, Block(tuple(run), tuple(results)), self.levels)
        call = FunctionCall(result, _decomposed(kernel), (name, name), params)
        if len(results) == 1:
            self.out.append(Bind(results[0], call))
        else:
            group = Var(result, self.names.fresh(f"{name}_results"))
            self.out.append(Bind(group, call))
            for i, var in enumerate(results):
                item = HIR_OPS["tuple_get_item"].call((group,), {"index": i})
                self.out.append(Bind(var, item))
        self.out.extend(view for view in views if view.target.name in used_later)


def _over_memory(name: str, params: tuple[Var, ...], body: Block, levels: tuple[Topology, ...]) -> Function:
    """The body as a function of its own.

    What it reads is memory, whoever wrote it: what layout a value had in another scope, or in the host's text, is
    nothing to its parameters.
    """
    plain = tuple(Var(_memory(p.type), p.name) for p in params)
    copier = Copier(Names(p.name for p in plain), values={p.name: p for p in plain})
    copied = copier.block(body)
    return Function(name, plain, _result(copied.results), copied, topologies=levels)


def _memory(type_: Type) -> Type:
    return TensorType(type_.shape, type_.dtype) if isinstance(type_, TensorType) else type_


def _result(results: tuple[Atom, ...]) -> Type:
    return results[0].type if len(results) == 1 else TupleType(tuple(atom.type for atom in results))


def _op(stmt: Bind) -> str:
    return stmt.value.op.name if isinstance(stmt.value, Call) else ""


def _run_end(stmts: list[Stmt], start: int) -> int:
    """One past the last statement of the run that starts here: scopes, with views between them."""
    end = at = start
    while at < len(stmts):
        stmt = stmts[at]
        if _is_placed_stmt(stmt) or (isinstance(stmt, Bind) and _op(stmt) == "reshard"):
            end = at + 1
        elif not (isinstance(stmt, Bind) and _op(stmt) in _JOINS | _SINKS):
            break
        at += 1
    return end


def _defined(stmts: list[Stmt]) -> dict[str, Var]:
    """Values bound by statements at the top level of the run and in its scopes, visible after it."""
    found: dict[str, Var] = {}
    for stmt in stmts:
        if isinstance(stmt, Bind):
            found[stmt.target.name] = stmt.target
        elif isinstance(stmt, MeshScope):
            found |= _defined(list(stmt.stmts))
        else:
            found |= {carry.result.name: carry.result for carry in stmt.carries}
    return found


def _used(stmts: list[Stmt]) -> Iterator[str]:
    return (var.name for var in _used_vars(stmts))


def _used_vars(stmts: list[Stmt]) -> Iterator[Var]:
    """Values that the statements read and that loops inside them do not bind."""
    for stmt in stmts:
        if isinstance(stmt, Bind):
            yield from _vars(stmt.value.args)
        elif isinstance(stmt, MeshScope):
            yield from _used_vars(list(stmt.stmts))
        else:
            own = {stmt.index.name, *(c.inner.name for c in stmt.carries), *_defined(list(stmt.body.stmts))}
            yield from _vars(tuple(c.initial for c in stmt.carries))
            inner = [*_used_vars(list(stmt.body.stmts)), *_vars(stmt.body.results)]
            yield from (var for var in inner if var.name not in own)


def _vars(atoms: tuple[Atom, ...]) -> Iterator[Var]:
    return (atom for atom in atoms if isinstance(atom, Var))


def _decomposed(function: Function) -> Function:
    """The function with its row ops spelled out; its levels stay. An attention alone in an open scope is a kernel."""
    scope = open_scope(function)
    alone = scope is not None and len(scope.stmts) == 1
    pass_ = DecomposeRows(keeps=has_kernel) if alone else DecomposeRows()
    module = pass_.run(Module(function.name, (function,), function.name))
    found = module.entry_function()
    assert isinstance(found, Function)
    return found
