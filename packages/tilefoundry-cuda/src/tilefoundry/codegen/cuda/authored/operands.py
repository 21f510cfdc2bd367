"""Operands of ops: placed values as they lie, others computed for the elements that are needed."""

from __future__ import annotations

from tilefoundry.codegen.cuda.authored.gathers import gather
from tilefoundry.codegen.cuda.authored.maps import apply_map, is_map
from tilefoundry.codegen.cuda.authored.refusal import NotFollowed
from tilefoundry.codegen.cuda.authored.scope import Scope
from tilefoundry.codegen.cuda.authored.space import Held, Space, axis_groups_of, mapped_part
from tilefoundry.codegen.cuda.authored.writer import KernelWriter, Lazy
from tilefoundry.codegen.cuda.tiles import Part, TileFill, element
from tilefoundry.ir.core.expr import Atom, Call, Constant, Var
from tilefoundry.ir.types import Dim, TensorType
from tilefoundry.ir.types.dim import product
from tilefoundry.ir.types.shard import ShardLayout

__all__ = ["aligned_part", "as_held", "materialised", "operand_part", "result_groups"]

Groups = tuple[tuple[int, ...], ...]


def as_held(to: KernelWriter, atom: Atom, name: str) -> Held:
    """A value that has a place.

    Raises NotFollowed for one without.
    """
    value = to.value(atom.name, name) if isinstance(atom, Var) else None
    if isinstance(value, Held):
        return value
    shown = atom.name if isinstance(atom, Var) else atom.value
    raise NotFollowed(
        f'{to.name}.{name} reads {shown}, which has no place; bring it to registers with tf.reshard(x, ..., "rmem")'
    )


def result_groups(shape: tuple[Dim, ...], space: Space, name: str) -> Groups:
    """The axes of ``space`` that make up each axis of a value of ``shape``."""
    return axis_groups_of(shape, space.extents, name)


def aligned_part(
    to: KernelWriter,
    held: Held,
    space: Space,
    shape: tuple[Dim, ...],
    groups: Groups | None,
    name: str,
) -> Part:
    """The elements of ``held`` that meet those of a value of ``shape`` under numpy's broadcasting."""
    mine: Groups = groups or result_groups(shape, space, name)
    shift = len(shape) - len(held.shape)
    axes = [None if extent == 1 else mine[axis + shift] for axis, extent in enumerate(held.shape)]
    return mapped_part(held, space, axes, f"{to.name}.{name}")


def operand_part(
    to: KernelWriter,
    atom: Atom,
    space: Space,
    shape: tuple[Dim, ...],
    groups: Groups,
    place: tuple[ShardLayout | None, Scope | None],
    name: str,
) -> Part | Constant:
    """An operand of an op over ``space`` whose result has ``shape``: a literal, or the elements that it meets."""
    if isinstance(atom, Constant):
        return atom
    value = to.value(atom.name, name)
    if isinstance(value, Lazy):
        return _lazy_part(to, value, space, shape, groups, place, name)
    layout, scope = place
    if value.layout is not None and value.layout.shape == space.extents and value.shape == shape:
        to.hazards.before_read(
            value, name, to.owner_of(value, layout, scope)
        ) if value.space != "rmem" else None
        return to.own_part(value, space)
    if value.space != "rmem":
        to.hazards.before_read(value, name, to.owner_of(value, None, None))
    return aligned_part(to, value, space, shape, groups, name)


def _lazy_part(
    to: KernelWriter,
    lazy: Lazy,
    space: Space,
    shape: tuple[Dim, ...],
    groups: Groups,
    place: tuple[ShardLayout | None, Scope | None],
    name: str,
) -> Part:
    """Compute the elements of a value without a place that an instance needs, in registers."""
    type_ = lazy.bind.target.type
    assert isinstance(type_, TensorType)
    shift = len(shape) - type_.rank
    kept = [k for axis in range(type_.rank) if type_.shape[axis] != 1 for k in groups[axis + shift]]
    small = Space(tuple(space.extents[k] for k in kept), tuple(space.places[k] for k in kept))
    own: list[tuple[int, ...]] = []
    at = 0
    for axis in range(type_.rank):
        count = 0 if type_.shape[axis] == 1 else len(groups[axis + shift])
        own.append(tuple(range(at, at + count)))
        at += count
    held = materialised(to, lazy, lazy.bind.target.name, type_.shape, small, None, None, tuple(own))
    strides: list[Dim] = [0] * len(space.extents)
    for axis, step in zip(kept, held.strides, strict=True):
        strides[axis] = step
    return Part(held.buffer, "rmem", 0, space.local, tuple(strides), space.limits)


def materialised(
    to: KernelWriter,
    lazy: Lazy,
    name: str,
    shape: tuple[Dim, ...],
    space: Space,
    layout: ShardLayout | None,
    scope: Scope | None,
    groups: Groups | None,
) -> Held:
    """A value without a place, computed in fresh registers over ``space``.

    Raises NotFollowed for an op that is not computed element by element.
    """
    call = lazy.call
    type_ = lazy.bind.target.type
    assert isinstance(type_, TensorType)
    axes = result_groups(shape, space, name) if groups is None else groups
    if is_map(call):
        operands = [operand_part(to, arg, space, shape, axes, (layout, scope), name) for arg in call.args]
        held = to.registers_over(name, type_.dtype, shape, space, layout, scope)
        apply_map(to, call, operands, to.own_part(held, space), name)
        return held
    held = to.registers_over(name, type_.dtype, shape, space, layout, scope)
    part = to.own_part(held, space)
    if call.op.name in ("zeros", "workspace"):
        to.out.append(TileFill(part, Constant(TensorType((), type_.dtype), 0)))
    elif call.op.name == "full_like":
        to.out.append(TileFill(part, Constant(TensorType((), type_.dtype), call.attr("value"))))
    elif call.op.name == "arange":
        to.out.append(TileFill(part, _arange(call, space)))
    elif call.op.name == "index_select":
        index = operand_part(to, call.args[1], *_along(call, space, axes), (layout, scope), name)
        gather(to, call, space, axes, index, part, name)
    else:
        raise NotFollowed(
            f"{to.name}.{lazy.bind.target.name} = tf.{call.op.name}(...) is not computed in a hand-placed scope; "
            "call it outside of the scope, or write it with elementwise ops, reductions and products"
        )
    return held


def _along(call: Call, space: Space, groups: Groups) -> tuple[Space, tuple[Dim, ...], Groups]:
    """The space, the shape and the axes under which the row numbers of an index_select broadcast along its axis."""
    assert isinstance(call.type, TensorType)
    axis, shape = call.attr("dim"), call.type.shape
    return space, (shape[axis],), (groups[axis],)


def _arange(call: Call, space: Space) -> Dim:
    """The value of an element as a dim over its index."""
    index: Dim = 0
    step: Dim = 1
    for axis in reversed(range(len(space.extents))):
        place = space.places[axis]
        index = index + product((element(axis) if place is None else place, step))
        step = product((step, space.extents[axis]))
    return call.attr("start") + product((index, call.attr("step")))
