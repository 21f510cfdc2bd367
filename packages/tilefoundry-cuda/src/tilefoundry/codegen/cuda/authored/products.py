"""matmul in a scope: every instance contracts what it holds."""

from __future__ import annotations

from dataclasses import replace

from tilefoundry.codegen.cuda.authored.mma import atom_for, lower_mma
from tilefoundry.codegen.cuda.authored.operands import as_held
from tilefoundry.codegen.cuda.authored.refusal import NotFollowed
from tilefoundry.codegen.cuda.authored.space import Held, Space, axis_groups_of, mapped_part
from tilefoundry.codegen.cuda.authored.writer import KernelWriter
from tilefoundry.codegen.cuda.tiles import TileContract, TileFill, TileMap
from tilefoundry.ir.core.expr import Bind, Call, Constant
from tilefoundry.ir.types import DType, TensorType

__all__ = ["lower_matmul"]


def lower_matmul(to: KernelWriter, bind: Bind, call: Call) -> None:
    """Registers of the result; an axis of the contraction that a mesh splits leaves partial sums."""
    name, type_ = bind.target.name, bind.target.type
    assert isinstance(type_, TensorType)
    lhs, rhs = (as_held(to, arg, name) for arg in call.args)
    if lhs.shape[-1:] == () or rhs.shape[-1:] == () or len(rhs.shape) < 2 or len(lhs.shape) < 2:
        raise NotFollowed(
            f"{to.name}.{name}: a hand-placed matmul takes operands of rank 2 or more; use tf.reshape"
        )
    space, layout, scope = to.space_of(type_, name)
    depth = _depth(to, lhs, rhs, name)
    if depth.limits:
        raise NotFollowed(
            f"{to.name}.{name} contracts an axis of {depth.limits[0].bound} elements, known at run time only; go "
            "through it in tiles that divide, or call matmul outside of the scope"
        )
    for held in (lhs, rhs):
        if held.space != "rmem":
            to.hazards.before_read(held, name, to.owner_of(held, None, None))
    if _by_instructions(to, lhs, rhs, type_, name):
        return
    result = to.registers_over(name, type_.dtype, type_.shape, space, layout, scope)
    every = space.joined(depth)
    groups = axis_groups_of(type_.shape, space.extents, f"{to.name}.{name}")
    k = tuple(range(len(space.extents), len(every.extents)))
    left = _part(to, lhs, every, (*groups[:-2], groups[-2]), k, -1, name)
    right = _part(to, rhs, every, (*groups[:-2], groups[-1]), k, -2, name)
    to.out.append(TileContract(left, right, to.own_part(result, space), depth.local))
    to.values[name] = result


def _by_instructions(to: KernelWriter, lhs: Held, rhs: Held, type_: TensorType, name: str) -> bool:
    """Whether the result lies as matrix instructions leave their sums; then they compute it."""
    space, layout, scope = to.space_of(type_, name)
    lhs, rhs = (to.origins.get(held.buffer.name, held) for held in (lhs, rhs))
    with to.nested() as stmts:
        sums = to.registers_over(f"{name}_sums", DType.f32, type_.shape, space, layout, scope)
        atom = atom_for(sums, lhs, rhs)
        to.out.append(TileFill(to.own_part(sums, space), Constant(TensorType((), DType.f32), 0.0)))
        try:
            if atom is None:
                return False
            lower_mma(to, atom, sums, lhs, rhs)
        except NotFollowed:
            return False
        result = sums
        if type_.dtype is not DType.f32:
            result = to.registers_over(name, type_.dtype, type_.shape, space, layout, scope)
            to.out.append(TileMap("cast", "", (to.own_part(sums, space),), to.own_part(result, space)))
    for held in (lhs, rhs):
        if held.space == "smem":
            to.hazards.before_read(held, name)
    to.out.extend(stmts)
    to.values[name] = result
    return True


def _part(to: KernelWriter, held: Held, every: Space, groups: tuple, k: tuple[int, ...], at: int, name: str):
    """The operand over the result's axes and then those of the contraction, which is its axis ``at``."""
    axes = list(groups[len(groups) - (len(held.shape) - 1) :])
    axes.insert(len(axes) + 1 + at, k)
    found = [None if n == 1 and g is not k else g for n, g in zip(held.shape, axes, strict=True)]
    return replace(mapped_part(held, every, found, f"{to.name}.{name}"), limits=())


def _depth(to: KernelWriter, lhs: Held, rhs: Held, name: str) -> Space:
    """The contracted axis as an instance runs along it: the factors of the operand that is distributed along it."""
    for held, axis in ((lhs, -1), (rhs, -2)):
        if held.layout is None or held.scope is None:
            continue
        group = axis_groups_of(held.shape, held.extents, f"{to.name}.{name}")[axis]
        if any(k in held.layout.splits for k in group):
            whole = Space.of(held.layout, held.scope)
            return Space(tuple(whole.extents[k] for k in group), tuple(whole.places[k] for k in group))
    return Space.whole((lhs.shape[-1],))
