"""Lower programs whose authors placed them: mesh scopes become one kernel of runtime calls on distributed values."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field

from tilefoundry.codegen.cpu.bufferise import output_params
from tilefoundry.codegen.cuda.tiles import MeshValue, TileAlloc, TileCopy, TileMap, TileReduce
from tilefoundry.ir.core.expr import Bind, Call, Constant, Var, walk_stmts
from tilefoundry.ir.core.expr import MeshScope as HirScope
from tilefoundry.ir.core.module import Module
from tilefoundry.ir.hir.function import Function
from tilefoundry.ir.passes import PARAM_PATHS, Pass
from tilefoundry.ir.tir import Launch, MeshScope, PrimFunction
from tilefoundry.ir.types import StorageKind, TensorType
from tilefoundry.ir.types.dim import product
from tilefoundry.ir.types.shard import Mesh, ShardLayout, Topology, axis_factors, level_axes

__all__ = ["LowerAuthored", "PlacementWarning", "Unplaced"]

_UNARY = frozenset(
    [
        "neg",
        "abs",
        "logical_not",
        "rsqrt",
        "sqrt",
        "exp",
        "exp2",
        "log",
        "log2",
        "square",
        "ceil",
        "floor",
        "round",
        "sin",
        "cos",
        "erf",
        "relu",
        "sigmoid",
        "silu",
        "tanh",
        "softplus",
    ]
)
_BINARY = frozenset(["add", "sub", "mul", "div", "floor_div", "mod", "minimum", "maximum"])
_FAMILIES = {**dict.fromkeys(_UNARY, "unary"), **dict.fromkeys(_BINARY, "binary")}


class PlacementWarning(UserWarning):
    """A program's own placement is not followed; its values are right all the same."""


class _NotPlaced(Exception):
    """Why a program is placed anew."""


@dataclass(frozen=True, slots=True)
class LowerAuthored:
    """Before: a flat module. After: where the entry has mesh scopes, its kernel and its host as PrimFunctions; any
    other module is left as it is.

    A scope that holds something without a placed lowering is placed anew by the passes that follow, with a
    ``PlacementWarning`` that names it.
    """

    def run(self, module: Module) -> Module:
        """``module``, lowered where its author placed it."""
        entry = module.entry_function()
        if not isinstance(entry, Function) or entry.body is None:
            return module
        scopes = [stmt for stmt in walk_stmts(entry.body.stmts) if isinstance(stmt, HirScope)]
        if not scopes:
            return module
        try:
            return _lowered(module, entry)
        except _NotPlaced as reason:
            message = f"{module.name}.{entry.name}: its placement is not followed: {reason}"
            warnings.warn(message, PlacementWarning, stacklevel=2)
            return module


@dataclass(frozen=True, slots=True)
class Unplaced:
    """``inner`` for modules that no earlier pass has lowered already."""

    inner: Pass

    def run(self, module: Module) -> Module:
        """``module`` after ``inner``, or as it is."""
        return self.inner.run(module) if isinstance(module.entry_function(), Function) else module


def _lowered(module: Module, entry: Function) -> Module:
    outputs = output_params(entry)
    params = (*entry.params, *outputs)
    writer = _Writer({p.name: p for p in entry.params}, module.effective_topologies() or ())
    assert entry.body is not None
    for result, output in zip(entry.body.results, outputs, strict=True):
        if not isinstance(result, Var) or result.name in writer.homes:
            raise _NotPlaced("it returns a literal, or one value twice")
        writer.homes[result.name] = Var(TensorType(output.type.shape, output.type.dtype), output.name)  # type: ignore[attr-defined]  # tensors
    body: list = []
    for stmt in entry.body.stmts:
        if not isinstance(stmt, HirScope):
            raise _NotPlaced(f"{stmt.target.name} is computed outside of its mesh scopes")  # type: ignore[union-attr]  # a bind
        body.append(writer.scope(stmt))
    missing = [name for name in writer.homes if name not in writer.written]
    if missing or len(body) != 1:
        raise _NotPlaced(
            f"{missing[0]} is not moved to gmem in a scope" if missing else "it has several mesh scopes"
        )
    plain = tuple(Var(TensorType(p.type.shape, p.type.dtype), p.name) for p in params)  # type: ignore[attr-defined]  # tensors
    name = f"k0_{entry.name}"
    kernel = PrimFunction(name, plain, tuple(body), 0)
    host = PrimFunction(entry.name, params, (Launch(name, plain),), len(outputs))
    paths = module.metadata.get(PARAM_PATHS, tuple(p.name for p in entry.params))
    metadata = {**module.metadata, PARAM_PATHS: (*paths, *(out.name for out in outputs))}
    return Module(module.name, (kernel, host), host.name, (), module.target, module.topologies, metadata)


@dataclass(slots=True)
class _Writer:
    """Translates the binds of a scope.

    Attributes:
        whole: values that lie whole in global memory, by name.
        homes: returned values -> output buffer.
        written: returned values that have been moved there.
        levels: the program levels in force.
        over: the mesh of the scope at hand.
    """

    whole: dict[str, Var]
    levels: tuple[Topology, ...] = ()
    over: Mesh | None = None
    homes: dict[str, Var] = field(default_factory=dict)
    written: set[str] = field(default_factory=set)
    held: dict[str, Var] = field(default_factory=dict)
    mesh: str = ""
    out: list = field(default_factory=list)

    def scope(self, scope: HirScope) -> MeshScope:
        """The scope's statements."""
        mesh = _resolved(scope, self.levels)
        self.mesh, self.over = f"{scope.name}_mesh", mesh
        self.out = [MeshValue(self.mesh, mesh)]
        for stmt in scope.stmts:
            if not isinstance(stmt, Bind) or not isinstance(stmt.value, Call):
                raise _NotPlaced(f"{scope.name} holds a loop or another scope")
            self._bind(stmt, stmt.value)
        return MeshScope(scope.name, mesh, tuple(self.out))

    def _bind(self, bind: Bind, call: Call) -> None:
        name = call.op.name
        if name == "reshard":
            self._reshard(bind, call)
        elif name == "reduce":
            self._reduce(bind, call)
        elif name in _FAMILIES or name in ("cast", "clamp", "gelu"):
            self._map(bind, call)
        else:
            raise _NotPlaced(f"{bind.target.name} = tf.{name}(...) has no placed lowering")

    def _held(self, atom: Var | Constant, what: str) -> Var | Constant:
        if isinstance(atom, Constant):
            return atom
        if atom.name not in self.held:
            raise _NotPlaced(f"{what} reads {atom.name}, which no reshard brought to registers")
        return self.held[atom.name]

    def _alloc(self, bind: Bind) -> Var:
        type_ = bind.target.type
        assert isinstance(type_, TensorType)
        layout = type_.layout
        if not isinstance(layout, ShardLayout) or layout.strides is None or layout.is_dynamic:
            raise _NotPlaced(f"{bind.target.name} has no settled distribution")
        if self.over is None or layout.mesh.layout != self.over.layout:
            raise _NotPlaced(f"{bind.target.name} is distributed over another mesh than its scope's")
        if not all(isinstance(dim, int) for dim in (*layout.shape, *layout.strides, *type_.shape)):
            raise _NotPlaced(f"{bind.target.name} has extents that only a call decides")
        target = Var(type_, bind.target.name)
        self.held[bind.target.name] = target
        self.out.append(TileAlloc(target, layout, self.mesh))
        return target

    def _reshard(self, bind: Bind, call: Call) -> None:
        source = call.args[0]
        type_ = bind.target.type
        assert isinstance(type_, TensorType) and isinstance(source, Var)
        if type_.storage is StorageKind.GMEM:
            home = self.homes.get(bind.target.name)
            if home is None:
                raise _NotPlaced(f"{bind.target.name} lies in gmem between phases")
            held = self._held(source, bind.target.name)
            assert isinstance(held, Var) and isinstance(held.type, TensorType)
            layout = held.type.layout
            if isinstance(layout, ShardLayout) and layout.partials:
                raise _NotPlaced(f"{bind.target.name} moves partial values to gmem")
            self.out.append(TileCopy(held, home, False))
            self.written.add(bind.target.name)
        elif type_.storage is not StorageKind.RMEM:
            raise _NotPlaced(f"{bind.target.name} lies in {type_.storage}")
        elif source.name in self.whole:
            buffer = self.whole[source.name]
            assert isinstance(buffer.type, TensorType)
            plain = Var(TensorType(buffer.type.shape, buffer.type.dtype), buffer.name)
            self.out.append(TileCopy(plain, self._alloc(bind), True))
        else:
            self._join(bind, source, type_)

    def _join(self, bind: Bind, source: Var, type_: TensorType) -> None:
        """From partial values to their reduction; every other change of ownership needs memory in between."""
        held = self._held(source, bind.target.name)
        assert isinstance(held, Var) and isinstance(held.type, TensorType)
        before, after = held.type.layout, type_.layout
        assert isinstance(before, ShardLayout)
        if isinstance(after, ShardLayout) and (before.shape, before.attrs) == (after.shape, after.attrs):
            self.held[bind.target.name] = held
            return
        if not isinstance(after, ShardLayout) or after.partials or not before.partials:
            raise _NotPlaced(f"{bind.target.name} changes who owns what between registers")
        if (
            before.shape != after.shape
            or before.splits != after.splits
            or len(set(before.partials.values())) > 1
        ):
            raise _NotPlaced(f"{bind.target.name} joins partial values and moves them at once")
        op = next(iter(before.partials.values()))
        if self.over is not None and _crosses_blocks(before, self.over):
            raise _NotPlaced(f"{bind.target.name} joins partial values of several CTAs")
        self.out.append(TileReduce(op, (), held, self._alloc(bind), False))

    def _reduce(self, bind: Bind, call: Call) -> None:
        source = self._held(call.args[0], bind.target.name)
        assert isinstance(source, Var) and isinstance(source.type, TensorType)
        layout = source.type.layout
        assert isinstance(layout, ShardLayout)
        factors = axis_factors(source.type.shape, layout.shape)
        if factors is None:
            raise _NotPlaced(f"{bind.target.name} reduces an axis that its layout does not factor")
        kind, axes = call.attr("kind").value, call.attr("axes")
        canonical = tuple(k for axis in axes for k in factors[axis])
        target = self._alloc(bind)
        assert isinstance(target.type, TensorType) and isinstance(target.type.layout, ShardLayout)
        if set(target.type.layout.partials) - set(layout.partials):
            self.out.append(TileReduce(kind, canonical, source, target, True))
            return
        over = {layout.splits[k] for k in canonical if k in layout.splits}
        if self.over is not None and over & _block_axes(self.over):
            raise _NotPlaced(f"{bind.target.name} reduces an axis that CTAs share")
        self.out.append(TileReduce(kind, tuple(axes), source, target, False))

    def _map(self, bind: Bind, call: Call) -> None:
        operands = tuple(self._held(arg, bind.target.name) for arg in call.args)
        layouts = {o.type.layout for o in operands if isinstance(o, Var)}  # type: ignore[attr-defined]  # tensors
        target_layout = bind.target.type.layout  # type: ignore[attr-defined]  # a tensor
        shapes = {layout.local_shape for layout in layouts if isinstance(layout, ShardLayout)}
        if len({len(shape) for shape in shapes}) > 1 or not isinstance(target_layout, ShardLayout):
            raise _NotPlaced(f"{bind.target.name} mixes layouts of different ranks")
        name = call.op.name
        if name == "gelu":
            tag = "gelu_tanh" if call.attr("approximate") == "tanh" else "gelu"
            self.out.append(TileMap("unary", tag, operands, self._alloc(bind)))
        elif name == "cast":
            self.out.append(TileMap("cast", "", operands, self._alloc(bind)))
        elif name == "clamp":
            bounds = (call.attr("min_val"), call.attr("max_val"))
            if None in bounds:
                raise _NotPlaced(f"{bind.target.name} is clamped on one side")
            self.out.append(TileMap("clamp", "", operands, self._alloc(bind), bounds))
        else:
            self.out.append(TileMap(_FAMILIES[name], name, operands, self._alloc(bind)))


def _resolved(scope: HirScope, levels: tuple[Topology, ...]) -> Mesh:
    """The scope's mesh with the extents of its levels."""
    mesh = scope.mesh
    if mesh.is_sliced or not all(isinstance(extent, int) for extent in mesh.layout.shape):
        raise _NotPlaced(f"the mesh {scope.name} is a sub-mesh, or has extents that only a call decides")
    unknown = set(mesh.level_names) - {"cta", "thread"}
    if unknown:
        raise _NotPlaced(f"the mesh {scope.name} has the level {min(unknown)}; a GPU has cta and thread")
    if len(mesh.level_names) == 1 and isinstance(mesh.topologies[0], str) and not levels:
        levels = (Topology(mesh.level_names[0], product(mesh.layout.shape)),)
    try:
        level_axes(mesh, levels)
    except (KeyError, ValueError) as error:
        raise _NotPlaced(
            f"the levels of {scope.name} have no extents; declare topologies=: {error}"
        ) from None
    return mesh.resolved(levels)


def _crosses_blocks(layout: ShardLayout, mesh: Mesh) -> bool:
    """Whether partial values lie with several CTAs."""
    return bool(_block_axes(mesh) & set(layout.partials))


def _block_axes(mesh: Mesh) -> set[int]:
    """Axes of the mesh that more than one CTA lies along."""
    blocks = [part for part in level_axes(mesh) if part.level.name == "cta"]
    return {axis for part in blocks for axis in part.axes if mesh.layout.shape[axis] != 1}
