"""Loops: ``range`` and ``tile``, all turns or those that a mesh axis hands an instance, with carried values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tilefoundry.codegen.cpu.views import View, contiguous_strides
from tilefoundry.codegen.cuda.authored.memory import Uniform
from tilefoundry.codegen.cuda.authored.operands import operand_part, result_groups
from tilefoundry.codegen.cuda.authored.refusal import NotFollowed
from tilefoundry.codegen.cuda.authored.scope import Scope
from tilefoundry.codegen.cuda.authored.space import Held, Space
from tilefoundry.codegen.cuda.authored.windows import owned_value
from tilefoundry.codegen.cuda.authored.writer import KernelWriter, Lazy
from tilefoundry.codegen.cuda.tiles import TileCopy, TileFill, TileLoop, TileRotate
from tilefoundry.ir.core.expr import Atom, Carry, Constant, For, Stmt, Var
from tilefoundry.ir.types import Dim, DimVar, DType, StorageKind, TensorType, bounds, scalar
from tilefoundry.ir.types.dim import product

__all__ = ["lower_loop"]


def lower_loop(to: KernelWriter, loop: For, body: Callable[[tuple[Stmt, ...]], None]) -> None:
    """Emit ``loop``; ``body`` lowers its statements."""
    start, step, taken, uniform = _turns(to, loop)
    kept = [_begin(to, carry, loop) for carry in loop.carries]
    for carry, held in zip(loop.carries, kept, strict=True):
        to.values[carry.inner.name] = held
    before = to.hazards.uniform
    to.indices[loop.index.name] = DimVar(loop.index.name, 0, max(bounds(loop.stop)[1], 1))
    to.hazards.uniform = uniform
    added = taken - to.taken
    to.taken |= added
    with to.nested() as stmts:
        touched, to.hazards.touched = to.hazards.touched, set()
        body(loop.body.stmts)
        _carry_on(to, loop, kept)
        _close(to, loop)
        to.hazards.touched |= touched
    to.taken -= added
    to.hazards.uniform = before
    to.out.extend(to.pointers)
    to.pointers.clear()
    window = None
    if loop.window is not None:
        window = (Var(scalar(DType.i64), loop.window.name), loop.step)
    to.out.append(
        TileLoop(Var(scalar(DType.i64), loop.index.name), start, loop.stop, step, tuple(stmts), window)
    )
    for carry, held in zip(loop.carries, kept, strict=True):
        to.values[carry.result.name] = held


def _turns(to: KernelWriter, loop: For) -> tuple[Dim, Dim, set, Uniform]:
    """First index, step, the mesh axis that tiles go to, and who stays together."""
    uniform = to.hazards.uniform
    if loop.over is None:
        return loop.start, loop.step, set(), uniform
    scope, axis = _axis(to, loop.over)
    count = scope.mesh.layout.shape[axis]
    turn = product((count, loop.step))
    even = isinstance(loop.stop, int) and isinstance(turn, int) and loop.stop % turn == 0
    if not even and scope.mesh.layout.shape[axis] != 1:
        level = "thread" if axis in scope.axes_of("thread") else "cta"
        uniform = Uniform(
            uniform.threads and level != "thread", uniform.blocks and level != "cta", loop.index.name
        )
    first = loop.start + product((scope.split_coordinate(axis), loop.step))
    return first, turn, {(scope.mesh, axis)}, uniform


def _axis(to: KernelWriter, over: str) -> tuple[Scope, int]:
    name, _, axis = over.rpartition(".")
    for scope in reversed(to.scopes):
        if scope.name == name:
            names = scope.mesh.names or tuple(map(str, range(scope.mesh.rank)))
            return scope, names.index(axis)
    raise NotFollowed(f"{to.name}: the loop over {over} is outside of the scope {name}; move it inside")


def _begin(to: KernelWriter, carry: Carry, loop: For) -> Held:
    """Where a carried value lives: memory stays, registers are copied."""
    type_ = carry.inner.type
    assert isinstance(type_, TensorType)
    value = to.values.get(carry.initial.name) if isinstance(carry.initial, Var) else None
    in_memory = isinstance(value, Held) and value.space == "gmem"
    if in_memory and carry.inner.name not in to.changed:
        assert isinstance(value, Held)
        return _pointed(to, value, carry.inner.name)
    if in_memory or (isinstance(value, Lazy) and _goes_to_memory(to, type_, carry)):
        assert isinstance(carry.initial, Var)
        return owned_value(to, carry.initial, carry.inner.name)
    name = carry.inner.name
    space, layout, scope = to.space_of(type_, name)
    held = to.registers_over(name, type_.dtype, type_.shape, space, layout, scope)
    _assign(to, carry.initial, held, name)
    return held


def _pointed(to: KernelWriter, value: Held, name: str) -> Held:
    """A value in memory that is other memory each turn, behind a pointer of its own."""
    if not value.view.is_packed:
        raise NotFollowed(
            f"{to.name}.{name} carries a strided window; copy it to dense memory before the loop"
        )
    pointer = to.numbered("p", name)
    to.out.append(TileRotate(Var(TensorType((), value.dtype), pointer), value.buffer, value.offset))
    dense = View(pointer, value.dtype, value.shape, contiguous_strides(value.shape))
    return replace(Held.viewed(dense), layout=value.layout, scope=value.scope)


def _rotated(to: KernelWriter, loop: For, carry: Carry, held: Held, value: object) -> None:
    """The turn's result becomes the carried memory, and the next turn writes to the other of two workspaces.

    Everybody meets in between: nobody still reads what the next turn writes, all see what this one wrote.
    """
    name = carry.inner.name
    spaces = {space.name: space for space in to.workspaces}
    fresh = isinstance(value, Held) and value.space == "gmem" and value.buffer.name in spaces
    if not fresh or not isinstance(value, Held) or value.view.offset != 0 or not value.view.is_packed:
        raise NotFollowed(
            f"{to.name}: the loop over {loop.index.name} carries {name} in gmem, and a turn gives it memory that is "
            'not its own; end the turn with tf.reshard(x, shape, "gmem"), or replace windows of it with tf.insert_slice'
        )
    to.hazards.meet(name)
    pair = to.twice(value.buffer.name)
    to.out.append(TileRotate(held.buffer, value.buffer, 0, pair))
    to.pointers.append(TileRotate(value.buffer, pair[0], 0, writes=True))


def _goes_to_memory(to: KernelWriter, type_: TensorType, carry: Carry) -> bool:
    """A value that nothing distributes is memory where windows of it are replaced, or where it is large."""
    if type_.layout is not None or type_.storage is StorageKind.RMEM:
        return False
    size = product(type_.shape)
    return carry.inner.name in to.changed or not isinstance(size, int) or size > 64


def _assign(to: KernelWriter, atom: Atom, held: Held, name: str) -> None:
    """Copy a value into the registers of a carried one."""
    space = Space(held.extents, held.own)
    target = to.own_part(held, space)
    if isinstance(atom, Constant):
        to.out.append(TileFill(target, atom))
        return
    groups = result_groups(held.shape, space, name)
    part = operand_part(to, atom, space, held.shape, groups, (held.layout, held.scope), name)
    assert not isinstance(part, Constant)
    to.out.append(TileCopy(replace(part, limits=()), replace(target, limits=())))


def _carry_on(to: KernelWriter, loop: For, kept: list[Held]) -> None:
    """The body's results become the carried values; all are read before one is replaced."""
    moves: list[tuple[Atom, Held, str]] = []
    own = {held.buffer.name for held in kept}
    for carry, result, held in zip(loop.carries, loop.body.results, kept, strict=True):
        value = to.values.get(result.name) if isinstance(result, Var) else None
        if held.space == "gmem":
            if not isinstance(value, Held) or value.view != held.view:
                _rotated(to, loop, carry, held, value)
            continue
        if isinstance(value, Held) and _place(value) == _place(held):
            continue
        if isinstance(value, Held) and value.buffer.name in own:
            copy = to.registers_over(
                f"{carry.inner.name}_next",
                held.dtype,
                held.shape,
                Space(held.extents, held.own),
                held.layout,
                held.scope,
            )
            _assign(to, result, copy, carry.inner.name)
            to.values[copy.buffer.name] = copy
            result = Var(carry.inner.type, copy.buffer.name)
        moves.append((result, held, carry.inner.name))
    for result, held, name in moves:
        _assign(to, result, held, name)


def _place(held: Held) -> tuple[object, ...]:
    """Where a value's elements lie."""
    return held.buffer.name, held.offset, held.extents, held.strides


def _close(to: KernelWriter, loop: For) -> None:
    """Between turns: what one turn left in shared memory is read before the next one overwrites it."""
    hazards = to.hazards
    again = {b for b in hazards.touched if b in hazards.written or b in hazards.read}
    if not again:
        return
    shared = again & to.shared_names
    if shared:
        hazards.block(loop.index.name)
    both = {b for b in again - shared if b in hazards.written and b in hazards.read}
    if both:
        hazards.meet(loop.index.name)
