"""What the layouts of a kernel's scope say, and whether its schedule does just that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tilefoundry.codegen.cpu.schedule import KernelSpec
from tilefoundry.codegen.cuda.open_scopes import opened
from tilefoundry.codegen.cuda.spreads.spread import Spread, chosen_spread, spread_over
from tilefoundry.ir.core.expr import Atom, Bind, Block, Call, MeshScope, Var
from tilefoundry.ir.hir.function import Function
from tilefoundry.ir.passes import with_body
from tilefoundry.ir.types import TensorType
from tilefoundry.ir.types.shard import ShardLayout
from tilefoundry.ir.types.storage import StorageKind

__all__ = ["fitting_layouts", "scheduled_spec"]


def scheduled_spec(spec: KernelSpec) -> KernelSpec | None:
    """The kernel with an open scope in place of its layouts, where they are those of the schedule for its mesh.

    None for a kernel that says anything else.
    """
    said = _Said.of(spec.function)
    if said is None:
        return None
    flat = replace(spec, function=said.flat)
    spread = spread_over(flat, said.scope, spec.function.topologies or ())
    if spread is None or not said.agrees(spread):
        return None
    return replace(spec, function=opened(said.flat, said.scope))


def fitting_layouts(spec: KernelSpec) -> str | None:
    """What a schedule would take in place of the kernel's layouts, as a remedy: for its mesh, else with a mesh that
    suits it; None for a kernel that no layouts make one of a schedule."""
    said = _Said.of(spec.function)
    if said is None:
        return None
    flat = replace(spec, function=said.flat)
    spread = spread_over(flat, said.scope, spec.function.topologies or ()) or chosen_spread(flat)
    if spread is None:
        return None
    flat_results = said.flat.body.results if said.flat.body is not None else ()
    moved = [*zip(spec.function.params, spread.inputs, strict=True)]
    moved += [*zip(flat_results, spread.results, strict=True)]
    listed = ", ".join(f"{var.name} as {layout}" for var, layout in moved if layout is not None)
    return f"over {spread.mesh} fit {listed}"


@dataclass(frozen=True, slots=True)
class _Said:
    """A scope that brings parameters to registers, computes, and stores every result.

    Attributes:
        scope: as it is written.
        flat: what it computes, without layouts.
        inputs: per parameter the reshard that brings it; None where it is read as it lies.
        results: per result the reshard that stores it.
    """

    scope: MeshScope
    flat: Function
    inputs: tuple[Call | None, ...]
    results: tuple[Call, ...]

    @staticmethod
    def of(function: Function) -> _Said | None:
        """None for a function of another form."""
        body = function.body
        if body is None or len(body.stmts) != 1 or not isinstance(body.stmts[0], MeshScope):
            return None
        scope = body.stmts[0]
        moves = _Moves(function.params, body.results)
        if not all(map(moves.takes, scope.stmts)) or set(moves.stored.values()) != _names(body.results):
            return None
        inputs = tuple(moves.brought.get(param.name) for param in function.params)
        results = tuple(moves.stores[atom.name] for atom in body.results if isinstance(atom, Var))
        return _Said(scope, _Flattening(moves).function(function, scope), inputs, results)

    def agrees(self, spread: Spread) -> bool:
        """Whether the layouts are those of ``spread``."""
        pairs = [
            *zip(self.inputs, spread.inputs, strict=True),
            *zip(self.results, spread.results, strict=True),
        ]
        return all(_is(call, layout) for call, layout in pairs)


def _is(call: Call | None, layout: ShardLayout | None) -> bool:
    """Whether the reshard gives the layout, strides as they are where none are written."""
    if call is None or layout is None:
        return call is None and layout is None
    return call.op.call(call.args, {**dict(call.attrs), "layout": layout}).attrs == call.attrs


def _names(atoms: Sequence[Atom]) -> set[str]:
    return {atom.name for atom in atoms if isinstance(atom, Var)}


@dataclass(slots=True)
class _Moves:
    """The reshards of a scope, noted statement by statement.

    Attributes:
        params, results: of the function.
        brought: parameter -> its way to registers; aliases: the name that it has there -> the parameter.
        stores: result -> its way to memory; stored: the name that it was computed under -> the result.
        computed: what ops of the scope gave.
    """

    params: tuple[Var, ...]
    results: tuple[Atom, ...]
    brought: dict[str, Call] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    stores: dict[str, Call] = field(default_factory=dict)
    stored: dict[str, str] = field(default_factory=dict)
    computed: set[str] = field(default_factory=set)

    def takes(self, stmt: object) -> bool:
        """Note the statement; False for one that no chosen scope has."""
        if not isinstance(stmt, Bind) or not isinstance(stmt.value, Call):
            return False
        if stmt.value.op.name == "reshard":
            return self._reshard(stmt.target, stmt.value)
        self.computed.add(stmt.target.name)
        operands = _names(stmt.value.args)
        late = operands & (self.brought.keys() | self.stores.keys())
        return stmt.value.op.name != "local" and isinstance(stmt.target.type, TensorType) and not late

    def _reshard(self, target: Var, call: Call) -> bool:
        source, storage = call.args[0], call.attr("storage")
        if not isinstance(source, Var):
            return False
        if storage is StorageKind.RMEM and source.name in {param.name for param in self.params}:
            self.aliases[target.name] = source.name
            return self.brought.setdefault(source.name, call) is call and not self.computed
        if storage is StorageKind.GMEM and source.name in self.computed:
            self.stores[target.name] = call
            return self.stored.setdefault(source.name, target.name) == target.name
        return False


class _Flattening:
    """Writes what a scope computes without its layouts; every op is typed anew."""

    def __init__(self, moves: _Moves) -> None:
        self.moves = moves
        self.values: dict[str, Atom] = {}

    def function(self, function: Function, scope: MeshScope) -> Function:
        """The flat function; results have the names under which they are stored."""
        params = {param.name: param for param in function.params}
        self.values = {**params, **{own: params[name] for own, name in self.moves.aliases.items()}}
        stmts = tuple(
            self._bind(stmt) for stmt in scope.stmts if isinstance(stmt, Bind) and _op(stmt) != "reshard"
        )
        assert function.body is not None
        computed = {result: own for own, result in self.moves.stored.items()}
        results = tuple(
            self.values[computed[atom.name]] for atom in function.body.results if isinstance(atom, Var)
        )
        return with_body(function, Block(stmts, results))

    def _bind(self, bind: Bind) -> Bind:
        call, name = bind.value, bind.target.name
        assert isinstance(call, Call)
        args = tuple(self.values[arg.name] if isinstance(arg, Var) else arg for arg in call.args)
        made = call.op.call(args, dict(call.attrs))
        var = Var(made.type, self.moves.stored.get(name, name))
        self.values[name] = var
        return Bind(var, made)


def _op(bind: Bind) -> str:
    return bind.value.op.name if isinstance(bind.value, Call) else ""
