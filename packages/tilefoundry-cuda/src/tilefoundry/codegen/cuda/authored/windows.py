"""Views and windows: slice, reshape, transpose, and values of which one window after the other is replaced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tilefoundry.codegen.cuda.authored.refusal import NotFollowed
from tilefoundry.codegen.cuda.authored.space import Held, axis_groups_of
from tilefoundry.codegen.cuda.authored.writer import KernelWriter, Lazy
from tilefoundry.codegen.cuda.tiles import Part, TileCopy, TileFill, TileLoop
from tilefoundry.ir.core.expr import Atom, Bind, Call, Constant, Var
from tilefoundry.ir.types import Dim, DimVar, DType, TensorType, scalar
from tilefoundry.ir.types.dim import product
from tilefoundry.ir.types.shard import ShardLayout

__all__ = [
    "VIEWS",
    "lower_insert",
    "lower_view",
    "owned_value",
    "starts_of",
    "window_home",
]


def starts_of(to: KernelWriter, call: Call, key: str, operands: Sequence[Atom], name: str) -> tuple[Dim, ...]:
    """Where a window starts on each axis.

    Raises NotFollowed for a start that is a value and no loop index.
    """
    given = iter(operands)
    return tuple(_start(to, next(given), name) if s is None else s for s in call.attr(key))


def _start(to: KernelWriter, atom: Atom, name: str) -> Dim:
    if isinstance(atom, Constant):
        return int(atom.value)
    if atom.name in to.indices:
        return to.indices[atom.name]
    raise NotFollowed(
        f"{to.name}.{name}: its window starts at the value {atom.name}; in a hand-placed scope a window starts at a "
        "number, an extent or a loop index; take the window outside of the scope"
    )


def lower_view(to: KernelWriter, bind: Bind, call: Call) -> None:
    """The same storage under another shape."""
    name, type_ = bind.target.name, bind.target.type
    source = call.args[0]
    held = to.value(source.name, name) if isinstance(source, Var) else None
    if not isinstance(held, Held):
        raise NotFollowed(
            f"{to.name}.{name} = tf.{call.op.name}(...) is a view of a value without a place; bring it to registers "
            "or to gmem first"
        )
    assert isinstance(type_, TensorType)
    seen = VIEWS[call.op.name](to, held, call, type_, name)
    layout = type_.layout if isinstance(type_.layout, ShardLayout) else None
    to.values[name] = replace(seen, layout=layout) if held.space != "gmem" else seen


def _slice(to: KernelWriter, held: Held, call: Call, type_: TensorType, name: str) -> Held:
    starts = starts_of(to, call, "starts", call.args[1:], name)
    if held.space == "gmem" and not any(held.own):
        view = held.under(held.shape, f"{to.name}.{name}").view
        return Held.viewed(view.slice(starts, call.attr("sizes"), call.attr("strides")))
    return _slice_held(to, held, starts, call, type_, name)


def _slice_held(
    to: KernelWriter, held: Held, starts: Sequence[Dim], call: Call, type_: TensorType, name: str
) -> Held:
    """A window of registers or shared memory, along axes that one canonical axis is."""
    groups = axis_groups_of(held.shape, held.extents, f"{to.name}.{name}")
    offset, extents, strides = held.offset, list(held.extents), list(held.strides)
    sizes, steps = call.attr("sizes"), call.attr("strides")
    for axis, group in enumerate(groups):
        if starts[axis] == 0 and sizes[axis] == held.shape[axis] and steps[axis] == 1:
            continue
        if len(group) != 1 or held.own[group[0]] is not None:
            raise NotFollowed(
                f"{to.name}.{name} takes a window of axis {axis}, which a mesh splits; use tf.reshard to make it whole"
            )
        if held.space == "rmem" and not isinstance(starts[axis], int):
            raise NotFollowed(
                f"{to.name}.{name} takes a window of registers at {starts[axis]}; registers have no run-time index: "
                "keep the value in smem, or unroll the loop with a list comprehension"
            )
        (k,) = group
        offset = offset + product((starts[axis], strides[k]))
        extents[k], strides[k] = sizes[axis], product((steps[axis], strides[k]))
    return replace(held, shape=type_.shape, offset=offset, extents=tuple(extents), strides=tuple(strides))


def _reshape(to: KernelWriter, held: Held, call: Call, type_: TensorType, name: str) -> Held:
    if held.space == "gmem" and not any(held.own):
        return Held.viewed(held.under(type_.shape, f"{to.name}.{name}").view)
    layout = type_.layout
    wanted = layout.shape if isinstance(layout, ShardLayout) else type_.shape
    kept = [n for n in held.extents if n != 1]
    if kept != [n for n in wanted if n != 1]:
        return replace(held.under(wanted, f"{to.name}.{name}"), shape=type_.shape)
    moving = iter(k for k, n in enumerate(held.extents) if n != 1)
    source = [next(moving) if n != 1 else None for n in wanted]
    return replace(
        held,
        shape=type_.shape,
        extents=tuple(wanted),
        strides=tuple(0 if k is None else held.strides[k] for k in source),
        own=tuple(None if k is None else held.own[k] for k in source),
    )


def _transpose(to: KernelWriter, held: Held, call: Call, type_: TensorType, name: str) -> Held:
    groups = axis_groups_of(held.shape, held.extents, f"{to.name}.{name}")
    order = [k for axis in call.attr("perm") for k in groups[axis]]
    return replace(
        held,
        shape=type_.shape,
        extents=tuple(held.extents[k] for k in order),
        strides=tuple(held.strides[k] for k in order),
        own=tuple(held.own[k] for k in order),
    )


VIEWS = {"slice": _slice, "reshape": _reshape, "transpose": _transpose}
"""Ops that give another view of the same storage."""


def window_home(to: KernelWriter, name: str, type_: TensorType) -> Held:
    """The window of another value that ``name`` becomes: it is written in its place at once."""
    bind = to.windows[name]
    assert isinstance(bind.value, Call)
    dst = bind.value.args[0]
    assert isinstance(dst, Var)
    held = owned_value(to, dst, bind.target.name)
    starts = starts_of(to, bind.value, "offsets", bind.value.args[2:], bind.target.name)
    to.overwrite(held)
    return Held.viewed(held.view.slice(starts, type_.shape, (1,) * len(type_.shape)))


def lower_insert(to: KernelWriter, bind: Bind, call: Call) -> None:
    """``insert_slice`` of a window that was written in its place already."""
    dst, update = call.args[0], call.args[1]
    name = bind.target.name
    if not isinstance(update, Var) or to.windows.get(update.name) is not bind:
        raise NotFollowed(
            f"{to.name}.{name}: tf.insert_slice takes a window in a hand-placed scope where it comes straight from "
            'tf.reshard(x, shape, "gmem") and is used once, and where the value that it changes is not used again'
        )
    assert isinstance(dst, Var)
    to.values[name] = owned_value(to, dst, name)


def owned_value(to: KernelWriter, atom: Var, name: str) -> Held:
    """A value in memory that the kernel may change: an output or a workspace, brought about where it is not yet."""
    value = to.values[atom.name]
    if isinstance(value, Held) and value.buffer.name in to.owned:
        return value
    type_ = atom.type
    assert isinstance(type_, TensorType)
    if to.uses.get(atom.name, 0) > 1:
        raise NotFollowed(
            f"{to.name}.{name} changes {atom.name}, which is used again; copy it before the scope, or use the changed "
            "value"
        )
    home = to.homes.get(atom.name)
    held = Held.viewed(home) if home is not None else to.workspace(atom.name, type_.dtype, type_.shape)
    to.owned.add(held.buffer.name)
    to.values[atom.name] = held
    if atom.name not in to.filled:
        _begin(to, value, held, name)
    return held


def _begin(to: KernelWriter, value: Held | Lazy, target: Held, name: str) -> None:
    """Give memory its first contents: all threads of all blocks share the elements, and then meet."""
    if isinstance(value, Lazy) and value.call.op.name == "workspace" and not value.call.attr("zero"):
        return
    if isinstance(value, Lazy) and value.call.op.name not in ("zeros", "workspace", "full_like"):
        raise NotFollowed(
            f"{to.name}.{name} changes {value.bind.target.name}, which has no place; reshard it to gmem first"
        )
    if isinstance(value, Held) and not value.view.is_packed:
        raise NotFollowed(
            f"{to.name}.{name} changes a strided window; copy it to dense memory before the scope"
        )
    index = DimVar(to.names.fresh("at"), 0, 2**62)
    size = product(target.shape)
    place = Part(target.buffer, "gmem", target.offset + index, (1,), (1,))
    if isinstance(value, Held):
        to.hazards.before_read(value, name, object())
        body = TileCopy(Part(value.buffer, value.space, value.offset + index, (1,), (1,)), place)
    else:
        number = value.call.attr("value") if value.call.op.name == "full_like" else 0
        body = TileFill(place, Constant(TensorType((), target.dtype), number))
    to.hazards.before_write(target, name, object())
    first = to.block * to.hazards.threads + to.lane
    step = product((to.hazards.blocks, to.hazards.threads))
    to.out.append(TileLoop(Var(scalar(DType.i64), index.name), first, size, step, (body,)))
    to.hazards.meet(name)
