"""``for`` statements: one loop node over ``range`` and ``tile``, unrolled over anything known while reading."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tilefoundry.dsl.context import BodyContext, describe, is_value
from tilefoundry.dsl.expressions import bind_target
from tilefoundry.dsl.literals import constant, is_number
from tilefoundry.dsl.ranges import LoopRange, TileWindow
from tilefoundry.dsl.unrolling import static_items
from tilefoundry.ir.core.expr import Atom, Bind, Block, Carry, For, Stmt, Var, walk_stmts
from tilefoundry.ir.types import DimVar, StorageKind, TensorType, Type, bounds, scalar
from tilefoundry.ir.types.shard import MeshAxis

__all__ = ["LOOPS", "assigned_names"]


def _read_for(ctx: BodyContext, node: ast.For) -> None:
    if node.orelse:
        raise ctx.error(node.orelse[0], "for ... else is not part of the DSL")
    iterated = ctx.read(node.iter)
    if isinstance(iterated, LoopRange):
        _read_loop(ctx, node, iterated)
        return
    items = static_items(ctx, node.iter, iterated)
    ctx.loop_depth += 1
    for item in items:
        bind_target(ctx, node.target, item)
        ctx.run(node.body)
    ctx.loop_depth -= 1


def _read_loop(ctx: BodyContext, node: ast.For, loop: LoopRange) -> None:
    if not isinstance(node.target, ast.Name):
        raise ctx.error(node.target, f"{loop} gives one index; name it with one name")
    for extent in (loop.start, loop.stop, loop.step):
        ctx.check_dim(extent, node.iter)
    before = dict(ctx.locals)
    gone = dict(ctx.gone)
    index, window = _index(ctx, node, loop)
    carried = _carried_names(node, before)
    inner = {name: Var(before[name].type, ctx.names.take(name)) for name in carried}
    ctx.locals.update(inner)
    with ctx.collecting() as stmts:
        ctx.loop_depth += 1
        ctx.run(node.body)
        ctx.loop_depth -= 1
    ctx.dims -= {index, window}
    index_var = ctx.indices.pop(index.name)
    _check_static_names(ctx, node, before, carried)
    kept = [name for name in carried if _is_carry(ctx, node, name, inner[name], stmts)]
    carries = tuple(_carry(ctx, before[name], inner[name], name) for name in kept)
    results = tuple(_result(ctx, node, name, inner[name]) for name in kept)
    body = Block(tuple(stmts), results)
    ctx.stmts.append(
        For(
            loop.kind,
            index_var,
            loop.start,
            loop.stop,
            loop.step,
            carries,
            body,
            _over(ctx, node, loop),
            window,
        )
    )
    _leave(ctx, node, before, gone, dict(zip(kept, carries, strict=True)), carried)


def _index(ctx: BodyContext, node: ast.For, loop: LoopRange) -> tuple[DimVar, DimVar | None]:
    """Bind the loop's variable; the index, and the extent of a window that may be cut."""
    assert isinstance(node.target, ast.Name)
    low, high = bounds(loop.start)[0], bounds(loop.stop)[1]
    if low < 0:
        raise ctx.error(node.iter, f"{loop} starts below 0; an index counts elements")
    index = DimVar(ctx.names.take(node.target.id), low, max(high, low + 1))
    window = _cut_window(ctx, index, loop)
    ctx.dims.add(index)
    ctx.indices[index.name] = Var(scalar("i64"), index.name)
    if window is not None:
        ctx.dims.add(window)
    tile = TileWindow(index, loop.step if window is None else window, loop)
    ctx.locals[node.target.id] = tile if loop.kind == "tile" else index
    return index, window


def _cut_window(ctx: BodyContext, index: DimVar, loop: LoopRange) -> DimVar | None:
    """A DimVar for the extent of a tile, where nothing proves that the step divides the whole."""
    if loop.kind != "tile":
        return None
    if isinstance(loop.step, int) and loop.stop % loop.step == 0:
        return None
    known = isinstance(loop.step, int)
    return DimVar(ctx.names.take(f"{index.name}_extent"), 1, bounds(loop.step)[1] + 1, known)


def _carried_names(node: ast.For, before: dict[str, Any]) -> list[str]:
    names = dict.fromkeys(name for stmt in node.body for name in assigned_names(stmt))
    return [name for name in names if is_value(before.get(name))]


def _check_static_names(ctx: BodyContext, node: ast.For, before: dict[str, Any], carried: list[str]) -> None:
    for name, value in before.items():
        now = ctx.locals.get(name)
        if name in carried or now is value or (isinstance(node.target, ast.Name) and name == node.target.id):
            continue
        if is_value(now) and is_number(value):
            raise ctx.error(
                node,
                f"{name} starts as the Python number {value!r} and the loop makes it a tensor; "
                'start from a tensor, such as tf.zeros(Tensor[(), "f32"])',
            )
        with ctx.pointing_at(node):
            changed = not is_value(now) and bool(now != value)
        if changed:
            raise ctx.error(
                node,
                f"the loop changes {name} from {describe(value)} to {describe(now)} while the program is read; "
                "only tensors change from one iteration to the next",
            )


def _is_carry(ctx: BodyContext, node: ast.For, name: str, inner: Var, stmts: list[Stmt]) -> bool:
    """False for a name that the body binds afresh, with another type or in an inner loop, before it reads it."""
    read = _reads(stmts, inner)
    if name not in ctx.locals:
        if read:
            raise ctx.error(
                node, f"{name} has no value after one iteration: {ctx.gone.get(name, 'it is not bound')}"
            )
        return False
    result = ctx.locals[name]
    return read or not is_value(result) or _keeps_type(inner, result)


def _keeps_type(inner: Var, result: Atom) -> bool:
    """True where a carried value has one type throughout; a storage may be settled inside the loop."""
    before, after = inner.type, result.type
    if not isinstance(before, TensorType) or not isinstance(after, TensorType):
        return before == after
    return before == replace(after, storage=before.storage) and (
        StorageKind.UNDECIDED in (before.storage, after.storage) or before.storage is after.storage
    )


def _reads(stmts: list[Stmt], var: Var) -> bool:
    return any(var == atom for stmt in walk_stmts(tuple(stmts)) for atom in _operands(stmt))


def _operands(stmt: Stmt) -> Iterator[Atom]:
    if isinstance(stmt, Bind):
        yield from stmt.value.args
    elif isinstance(stmt, For):
        yield from (carry.initial for carry in stmt.carries)
        yield from stmt.body.results


def _carry(ctx: BodyContext, initial: Any, inner: Var, name: str) -> Carry:
    return Carry(initial, inner, Var(inner.type, ctx.names.take(name)))


def _result(ctx: BodyContext, node: ast.For, name: str, inner: Var) -> Atom:
    value = ctx.locals[name]
    if not is_value(value):
        return _number_result(ctx, node, name, inner, value)
    if not _keeps_type(inner, value):
        raise ctx.error(
            node,
            f"{name} is {_placed(inner.type)} before the loop and {_placed(value.type)} after one iteration; "
            "a carried value keeps its type",
        )
    return value


def _placed(type_: Type) -> str:
    if not isinstance(type_, TensorType) or type_.storage is StorageKind.UNDECIDED:
        return str(type_)
    return f"{type_} in {type_.storage}"


def _number_result(ctx: BodyContext, node: ast.For, name: str, inner: Var, value: Any) -> Atom:
    if is_number(value) and isinstance(inner.type, TensorType) and inner.type.rank == 0:
        with ctx.pointing_at(node):
            return constant(value, inner.type.dtype)
    raise ctx.error(node, f"{name} is {inner.type} before the loop and {describe(value)} after one iteration")


def _over(ctx: BodyContext, node: ast.For, loop: LoopRange) -> str | None:
    """``"scope.axis"`` for the mesh axis that takes tiles in turn."""
    if loop.over is None:
        return None
    if not isinstance(loop.over, MeshAxis):
        raise ctx.error(node.iter, f"over takes an axis of a mesh, such as c.b, got {describe(loop.over)}")
    for name, mesh in reversed(ctx.scopes):
        if mesh == loop.over.mesh:
            return f"{name}.{loop.over.name}"
    raise ctx.error(node.iter, f"the axis {loop.over.name} belongs to no mesh whose scope is open here")


def _leave(
    ctx: BodyContext,
    node: ast.For,
    before: dict[str, Any],
    gone: dict[str, str],
    carries: dict[str, Carry],
    carried: list[str],
) -> None:
    inside = [name for name in ctx.locals if name not in before]
    ctx.locals = dict(before)
    ctx.gone = gone
    inside += [name for name in carried if name not in carries]
    assert isinstance(node.target, ast.Name)
    for name in (*inside, node.target.id):
        ctx.locals.pop(name, None)
        ctx.gone[name] = (
            f"{name} is bound inside the loop at line {node.lineno} only; bind it before the loop to carry it"
        )
    ctx.locals.update({name: carry.result for name, carry in carries.items()})


def assigned_names(stmt: ast.stmt) -> Iterator[str]:
    """Every name that a statement binds, nested statements included, in source order."""
    if isinstance(stmt, ast.Assign):
        for target in stmt.targets:
            yield from _target_names(target)
    elif isinstance(stmt, (ast.AugAssign, ast.AnnAssign, ast.For)):
        yield from _target_names(stmt.target)
    for block in ("body", "orelse"):
        for inner in getattr(stmt, block, ()):
            yield from assigned_names(inner)


def _target_names(target: ast.expr) -> Iterator[str]:
    if isinstance(target, ast.Name):
        yield target.id
    elif isinstance(target, (ast.Tuple, ast.List)):
        for part in target.elts:
            yield from _target_names(part)


LOOPS = {ast.For: _read_for}
