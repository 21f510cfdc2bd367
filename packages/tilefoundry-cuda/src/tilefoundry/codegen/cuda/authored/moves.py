"""reshard: between global memory, shared memory and registers, and from one ownership to another."""

from __future__ import annotations

from dataclasses import replace

from tilefoundry.codegen.cuda.authored.joins import join_partials
from tilefoundry.codegen.cuda.authored.operands import aligned_part, as_held, materialised
from tilefoundry.codegen.cuda.authored.refusal import NotFollowed
from tilefoundry.codegen.cuda.authored.space import Held, Space
from tilefoundry.codegen.cuda.authored.spread import spread
from tilefoundry.codegen.cuda.authored.windows import window_home
from tilefoundry.codegen.cuda.authored.writer import KernelWriter, Lazy, storage_of
from tilefoundry.codegen.cuda.tiles import TileAsync, TileCopy
from tilefoundry.ir.core.expr import Bind, Call, Var
from tilefoundry.ir.types import TensorType
from tilefoundry.ir.types.shard import Instances, ShardLayout

__all__ = ["lower_local", "lower_reshard", "store_global"]


def lower_reshard(to: KernelWriter, bind: Bind, call: Call) -> None:
    """Bring a value to where ``bind`` wants it."""
    type_, source_atom = bind.target.type, call.args[0]
    assert isinstance(type_, TensorType) and isinstance(source_atom, Var)
    name = bind.target.name
    wanted = storage_of(type_)
    if wanted == "none":
        wanted = "gmem"
    held = to.value(source_atom.name, name)
    if isinstance(held, Lazy):
        held = _computed(to, held, type_, wanted, name)
        if wanted == "rmem":
            to.values[name] = held
            return
    if isinstance(held.layout, Instances) or isinstance(_layout_of(source_atom), Instances):
        held = _folded(to, held, type_, name)
    if _partials(held):
        held = _joined(to, held, type_, name)
    to.values[name] = _MOVES[held.space, wanted](to, held, type_, name)


def lower_local(to: KernelWriter, bind: Bind, call: Call) -> None:
    """What one instance holds: the same storage, its own part as a value of its own."""
    type_ = bind.target.type
    assert isinstance(type_, TensorType)
    held = as_held(to, call.args[0], bind.target.name)
    layout, scope = held.layout, held.scope
    if layout is None or scope is None:
        raise NotFollowed(f"{to.name}.{bind.target.name}: tf.local needs a distributed value")
    if held.space == "gmem":
        held = _to_registers(to, held, replace_type(call.args[0].type, held), bind.target.name)
    part = to.own_part(held, Space.of(layout, scope))
    own = (None,) * len(part.shape)
    to.values[bind.target.name] = Held(
        held.buffer, held.space, type_.shape, type_.shape, part.strides, part.offset, own, None, scope
    )


def replace_type(type_: object, held: Held) -> TensorType:
    """The type of a value that is brought to registers as it is distributed."""
    assert isinstance(type_, TensorType)
    return type_


def store_global(to: KernelWriter, held: Held, target: Held, name: str) -> None:
    """Write a distributed value to global memory; one of the instances that hold equal values writes."""
    space = _space_of(held)
    place = target.under(held.extents, name)
    to.hazards.before_write(place, name, to.owner_of(place, held.layout, held.scope))
    stmt = TileCopy(to.own_part(held, space), to.own_part(place, space))
    to.guarded(to.only_one(held.layout, held.scope, "gmem"), stmt)


def _layout_of(atom: Var) -> object:
    return atom.type.layout if isinstance(atom.type, TensorType) else None


def _space_of(held: Held) -> Space:
    if held.layout is not None and held.scope is not None:
        return Space.of(held.layout, held.scope)
    return Space.whole(held.extents)


def _computed(to: KernelWriter, lazy: Lazy, type_: TensorType, wanted: str, name: str) -> Held:
    """A value without a place, computed where it is brought to."""
    space, layout, scope = to.space_of(type_, name)
    if wanted == "gmem" and layout is None:
        raise NotFollowed(
            f"{to.name}.{lazy.bind.target.name} = tf.{lazy.call.op.name}(...) has no place in its scope; bring its "
            'operands to registers with tf.reshard(x, ..., "rmem") first'
        )
    groups = tuple((k,) for k in range(len(type_.shape))) if layout is None else None
    return materialised(to, lazy, name, type_.shape, space, layout, scope, groups)


def _folded(to: KernelWriter, held: Held, type_: TensorType, name: str) -> Held:
    """What instances hold, seen as one distributed value again."""
    layout = type_.layout
    assert isinstance(layout, ShardLayout)
    scope = to.scope_of(layout, name)
    space = Space.of(layout, scope)
    strides = tuple(0 if p is not None else s for p, s in zip(space.places, held.strides, strict=True))
    if held.space != "rmem":
        raise NotFollowed(f"{to.name}.{name}: what instances hold is folded back from registers")
    return Held(
        held.buffer, "rmem", type_.shape, layout.shape, strides, held.offset, space.places, layout, scope
    )


def _partials(held: Held) -> bool:
    return held.layout is not None and bool(held.layout.partials)


def _joined(to: KernelWriter, held: Held, type_: TensorType, name: str) -> Held:
    """Partial values that the target does not keep, joined."""
    assert held.layout is not None
    after = type_.layout
    kept = after.partials if isinstance(after, ShardLayout) and after.mesh == held.layout.mesh else {}
    gone = {axis: op for axis, op in held.layout.partials.items() if axis not in kept}
    return join_partials(to, held, gone, name) if gone else held


def _same_ownership(held: Held, type_: TensorType, to: KernelWriter, name: str) -> bool:
    layout = type_.layout
    if not isinstance(layout, ShardLayout):
        return held.layout is None or not held.layout.splits
    if held.layout is None or held.scope is None:
        return False
    scope = to.scope_of(layout, name)
    return scope is held.scope and layout.shape == held.layout.shape and layout.splits == held.layout.splits


def _load(to: KernelWriter, held: Held, type_: TensorType, name: str) -> Held:
    """From memory that an instance can reach to its registers."""
    return _to_registers(to, held, type_, name)


def _to_registers(to: KernelWriter, held: Held, type_: TensorType, name: str) -> Held:
    space, layout, scope = to.space_of(type_, name)
    source = held.under(space.extents, name)
    to.hazards.before_read(source, name, to.owner_of(source, layout, scope))
    target = to.registers(name, type_)
    to.out.append(TileCopy(to.own_part(source, space), to.own_part(target, space)))
    if held.space == "smem":
        to.origins[target.buffer.name] = held
    return target


def _registers_anew(to: KernelWriter, held: Held, type_: TensorType, name: str) -> Held:
    """Between registers: the same ones, or through memory that both owners reach."""
    if _same_ownership(held, type_, to, name):
        layout = type_.layout if isinstance(type_.layout, ShardLayout) else held.layout
        return replace(held, layout=layout)
    if held.layout is None or not held.layout.splits:
        return _selected(to, held, type_, name)
    if _block_splits(to, held) == _target_block_splits(to, type_, name):
        between = _to_shared(to, held, replace_layout(type_, held), f"{name}_shared")
    else:
        between = to.workspace(f"{name}_exchange", held.dtype, held.shape)
        store_global(to, held, between, name)
    return _to_registers(to, between, type_, name)


def replace_layout(type_: TensorType, held: Held) -> TensorType:
    """``type_`` under the distribution that the value has."""
    return TensorType(type_.shape, type_.dtype, held.layout, type_.storage)


def _selected(to: KernelWriter, held: Held, type_: TensorType, name: str) -> Held:
    """From a value that every instance holds whole to the part that each shall hold."""
    target = to.registers(name, type_)
    space = _space_of(target)
    part = aligned_part(to, held, space, target.shape, None, name)
    to.out.append(TileCopy(part, to.own_part(target, space)))
    return target


def _block_splits(to: KernelWriter, held: Held) -> list[tuple[object, object]]:
    places = to.block_places(held.layout, held.scope, len(held.extents))
    return [(n, p) for n, p in zip(held.extents, places, strict=True) if p is not None]


def _target_block_splits(to: KernelWriter, type_: TensorType, name: str) -> list[tuple[object, object]]:
    space, layout, scope = to.space_of(type_, name)
    if layout is None:
        return []
    places = to.block_places(layout, scope, len(space.extents))
    return [(n, p) for n, p in zip(space.extents, places, strict=True) if p is not None]


def _to_shared(to: KernelWriter, held: Held, type_: TensorType, name: str) -> Held:
    """From registers to the block's shared memory, written by those who hold the value."""
    if isinstance(type_.layout, ShardLayout) and held.layout is not None:
        mine = _block_splits(to, held)
        if mine and mine != _target_block_splits(to, type_, name):
            raise NotFollowed(
                f"{to.name}.{name} moves to shared memory and to other CTAs at once; reshard it to gmem in between"
            )
    target = to.shared(name, type_)
    space = _space_of(held)
    place = target.under(held.extents, name) if held.layout is not None else target
    to.hazards.before_write(place, name)
    part = to.own_part(place, space)
    to.guarded(to.only_one(held.layout, held.scope, "smem"), TileCopy(to.own_part(held, space), part))
    return target


def _stage(to: KernelWriter, held: Held, type_: TensorType, name: str) -> Held:
    """From global to shared memory, without waiting: the copies are waited for before the first read."""
    target = to.shared(name, type_)
    space = _space_of(target)
    if target.layout is None or not target.layout.splits:
        space = spread(to, target.shape) or space
    source = held.under(space.extents, name)
    target_seen = target.under(space.extents, name)
    to.hazards.before_read(source, name, to.owner_of(source, target.layout, target.scope))
    to.hazards.before_write(target, name)
    if space.limits:
        stmt: TileAsync | TileCopy = TileCopy(to.own_part(source, space), to.own_part(target_seen, space))
    else:
        stmt = TileAsync(to.own_part(source, space), to.own_part(target_seen, space))
        to.hazards.staged.add(target.buffer.name)
    shares = any(place is not None for place in space.places) and space.extents != target.extents
    to.guarded(() if shares else to.only_one(target.layout, target.scope, "smem"), stmt)
    return target


def _store(to: KernelWriter, held: Held, type_: TensorType, name: str) -> Held:
    """To global memory: the output that the value is, its window of another value, or a workspace."""
    if held.space == "smem":
        to.hazards.before_read(held, name)
    target = _global_home(to, name, type_)
    store_global(to, held, target, name)
    layout = type_.layout if isinstance(type_.layout, ShardLayout) else None
    return replace(target, layout=layout, scope=None if layout is None else held.scope)


def _global_home(to: KernelWriter, name: str, type_: TensorType) -> Held:
    home = to.homes.get(name)
    if home is not None:
        to.covered.add(name)
        return Held.viewed(home)
    if name in to.windows:
        return window_home(to, name, type_)
    return to.workspace(name, type_.dtype, type_.shape)


def _alias(to: KernelWriter, held: Held, type_: TensorType, name: str) -> Held:
    """Global memory under another distribution is the same memory; a result is copied to its output."""
    home = to.homes.get(name)
    layout = type_.layout if isinstance(type_.layout, ShardLayout) else None
    if home is None and name not in to.windows:
        scope = None if layout is None else to.scope_of(layout, name)
        return replace(held, layout=layout, scope=scope)
    if layout is None:
        raise NotFollowed(
            f"{to.name}.{name} is a copy inside global memory that no instance is said to do; bring it to registers "
            "first"
        )
    moved = _to_registers(to, held, type_, name)
    return _store(to, moved, type_, name)


def _between_shared(to: KernelWriter, held: Held, type_: TensorType, name: str) -> Held:
    layout = type_.layout if isinstance(type_.layout, ShardLayout) else None
    if _block_splits(to, held) == _target_block_splits(to, type_, name):
        scope = held.scope if layout is None else to.scope_of(layout, name)
        seen = held.under(type_.shape if layout is None else layout.shape, name)
        return replace(seen, layout=layout, scope=scope)
    raise NotFollowed(
        f"{to.name}.{name} moves from the shared memory of one CTA to that of another; reshard it to gmem in between"
    )


_MOVES = {
    ("gmem", "gmem"): _alias,
    ("gmem", "smem"): _stage,
    ("gmem", "rmem"): _load,
    ("smem", "gmem"): _store,
    ("smem", "smem"): _between_shared,
    ("smem", "rmem"): _load,
    ("rmem", "gmem"): _store,
    ("rmem", "smem"): _to_shared,
    ("rmem", "rmem"): _registers_anew,
}
