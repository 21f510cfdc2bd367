"""Statements of a statement-level program."""

from __future__ import annotations

import ast
from typing import Any

from tilefoundry.dsl.context import describe, is_value
from tilefoundry.dsl.extents import is_extent
from tilefoundry.dsl.literals import constant, is_number
from tilefoundry.dsl.meshes import read_scope
from tilefoundry.dsl.operators import apply_binary
from tilefoundry.dsl.prim.blocks import indexed_block, read_block
from tilefoundry.dsl.prim.buffers import Buffer, element_index
from tilefoundry.dsl.prim.calls import Allocation, Joining, LoopOver
from tilefoundry.dsl.prim.context import PrimContext
from tilefoundry.dsl.prim.scalars import scalar_of
from tilefoundry.dsl.prim.tiles import read_tiles
from tilefoundry.dsl.ranges import LoopRange
from tilefoundry.dsl.unrolling import static_items
from tilefoundry.ir.core.expr import Expr, Var, tensor_type
from tilefoundry.ir.tir.expr import Apply, BufferView, Load, compute_dtype
from tilefoundry.ir.tir.stmt import (
    Abort,
    Accumulate,
    Accumulator,
    Allocate,
    Evaluate,
    For,
    If,
    Launch,
    Let,
    MeshScope,
    Parallel,
    Return,
    Store,
    While,
    walk_tir,
)
from tilefoundry.ir.tir.tiles import Prologue, TileAttention, TileContraction
from tilefoundry.ir.types import TensorType, bounds, scalar
from tilefoundry.ir.types.dim import product

__all__ = ["PRIM_STATEMENTS"]


def _read_assign(ctx: PrimContext, node: ast.Assign) -> None:
    if len(node.targets) != 1:
        raise ctx.error(node, "one target per assignment")
    target = node.targets[0]
    if isinstance(target, ast.Subscript):
        buffer = ctx.read(target.value)
        _store(ctx, node, target, buffer, ctx.read(node.value))
        return
    if not isinstance(target, ast.Name):
        raise ctx.error(target, "a name or an element of a buffer is assigned to")
    if target.id in ctx.around:
        # In Python the new value would outlive the block and reach the next round of a loop; a name here is one value.
        raise ctx.error(
            node,
            f"{target.id} is bound outside this block and keeps its value there; "
            "take another name, or keep what changes in a T.accumulator or a T.alloc_tensor",
        )
    ctx.locals[target.id] = _named(ctx, node, target.id, ctx.read(node.value))


def _named(ctx: PrimContext, node: ast.Assign, name: str, value: Any) -> Any:
    if isinstance(value, (Abort, Evaluate, Launch)):
        raise ctx.error(node, "this call is a statement; it has no value to name")
    if isinstance(value, Allocation):
        buffer = Var(value.type, ctx.names.take(name))
        ctx.stmts.append(Allocate(buffer, product(value.type.shape)))
        return Buffer(buffer)
    if isinstance(value, Joining):
        accumulator = Accumulator(Var(scalar(value.dtype), ctx.names.take(name)), value.kind)
        ctx.stmts.append(accumulator)
        ctx.accumulators[accumulator.target.name] = value.kind
        return accumulator.target
    if not is_value(value) or isinstance(value, (BufferView, Prologue)):
        return value
    target = Var(value.type, ctx.names.take(name))
    ctx.stmts.append(Let(target, value))
    return target


def _store(ctx: PrimContext, node: ast.AST, target: ast.Subscript, buffer: Any, value: Any) -> None:
    if not isinstance(buffer, Buffer):
        raise ctx.error(target, f"a buffer is stored to, got {describe(buffer)}")
    index = element_index(ctx, target, buffer)
    ctx.written.add(buffer.var.name)
    ctx.stmts.append(Store(buffer.var, index, _stored(ctx, node, buffer, value)))


def _stored(ctx: PrimContext, node: ast.AST, buffer: Buffer, value: Any) -> Expr:
    wanted = compute_dtype(buffer.type.dtype)
    if is_number(value):
        with ctx.pointing_at(node):
            return constant(value, buffer.type.dtype)
    scalar_value = _scalar(ctx, node, value)
    assert isinstance(scalar_value.type, TensorType)
    if scalar_value.type.dtype is not wanted:
        raise ctx.error(node, f"{buffer!r} takes {wanted}, got {scalar_value.type.dtype}; use T.cast")
    return scalar_value


def _read_aug_assign(ctx: PrimContext, node: ast.AugAssign) -> None:
    value = ctx.read(node.value)
    if isinstance(node.target, ast.Subscript):
        buffer = ctx.read(node.target.value)
        if not isinstance(buffer, Buffer):
            raise ctx.error(node.target, f"a buffer is stored to, got {describe(buffer)}")
        current = Load.of(buffer.var, element_index(ctx, node.target, buffer))
        _store(ctx, node, node.target, buffer, apply_binary(ctx, node, node.op, current, value, None))
        return
    if not isinstance(node.target, ast.Name):
        raise ctx.error(node.target, "a name or an element of a buffer is assigned to")
    target = ctx.read(ast.copy_location(ast.Name(node.target.id, ast.Load()), node.target))
    kind = ctx.accumulators.get(target.name) if isinstance(target, Var) else None
    if kind is None or not isinstance(node.op, ast.Add):
        raise ctx.error(node, "only acc += value on a T.accumulator, and stores to elements, change anything")
    wanted = tensor_type(target)
    with ctx.pointing_at(node):
        joined = constant(value, wanted.dtype) if is_number(value) else _scalar(ctx, node, value)
    if joined.type != wanted:
        raise ctx.error(node, f"the accumulator is {wanted.dtype}, got {describe(joined)}; use T.cast")
    ctx.stmts.append(Accumulate(target, kind, joined))


def _scalar(ctx: PrimContext, node: ast.AST, value: Any) -> Expr:
    found = scalar_of(ctx, node, value)
    if not is_value(found):
        raise ctx.error(node, f"the number {value!r} has no scalar beside it that gives it a dtype")
    return found


def _read_for(ctx: PrimContext, node: ast.For) -> None:
    if node.orelse:
        raise ctx.error(node.orelse[0], "for ... else is not part of the DSL")
    over = ctx.read(node.iter)
    if isinstance(over, LoopRange) and over.kind == "range":
        _counted(ctx, node, over, "serial")
    elif isinstance(over, LoopOver) and over.kind == "vector":
        _counted(ctx, node, LoopRange("range", 0, over.extent, 1), "vector")
    elif isinstance(over, (TileContraction, TileAttention)):
        read_tiles(ctx, node, over)
    elif isinstance(over, LoopOver):
        _parallel(ctx, node, over)
    else:
        for item in static_items(ctx, node.iter, over):
            if not isinstance(node.target, ast.Name):
                raise ctx.error(node.target, "name the items with one name")
            ctx.locals[node.target.id] = item
            ctx.run(node.body)


def _counted(ctx: PrimContext, node: ast.For, loop: LoopRange, kind: str) -> None:
    if not isinstance(node.target, ast.Name):
        raise ctx.error(node.target, "a counted loop has one index; name it with one name")
    for extent in (loop.start, loop.stop, loop.step):
        ctx.check_dim(extent, node.iter)
    low, high = bounds(loop.start)[0], bounds(loop.stop)[1]
    if low < 0:
        raise ctx.error(node.iter, f"{loop} starts below 0; an index counts elements")
    (index,), _, body = indexed_block(ctx, node.body, [(node.target.id, low, high)])
    # In Python the name would now hold the last index, also where it meant something else before the loop.
    ctx.locals.pop(node.target.id, None)
    ctx.stmts.append(For(index, loop.start, loop.stop, body, kind, loop.step))


def _parallel(ctx: PrimContext, node: ast.For, over: LoopOver) -> None:
    parts = node.target.elts if isinstance(node.target, ast.Tuple) else []
    names = [part.id for part in parts if isinstance(part, ast.Name)]
    if len(names) != 2 or len(parts) != 2:
        raise ctx.error(
            node.target, "T.parallel gives the two ends of a piece: for begin, end in T.parallel(n)"
        )
    high = bounds(over.extent)[1] + 1
    (begin, end), _, body = indexed_block(ctx, node.body, [(name, 0, high) for name in names])
    for name in names:
        ctx.locals.pop(name, None)
    ctx.stmts.append(Parallel(begin, end, over.extent, over.cost, body))


def _condition(ctx: PrimContext, node: ast.expr) -> Any:
    value = ctx.read(node)
    if is_extent(value):
        raise ctx.error(node, f"compare the extent {value} with something")
    if is_value(value):
        value = scalar_of(ctx, node, value)
    if is_value(value) and not (isinstance(value.type, TensorType) and value.type.dtype.is_bool):
        raise ctx.error(node, f"a condition is a bool scalar, got {describe(value)}")
    return value


def _read_while(ctx: PrimContext, node: ast.While) -> None:
    if node.orelse:
        raise ctx.error(node.orelse[0], "while ... else is not part of the DSL")
    condition = _condition(ctx, node.test)
    if not (is_value(condition) and _may_change(ctx, condition)):
        got = "is one value" if is_value(condition) else f"is {describe(condition)}"
        raise ctx.error(
            node.test,
            f"the condition of while must change and {got}; compare an element of a buffer or an accumulator",
        )
    read = sorted(_read_names(ctx, condition))
    before, ctx.written = ctx.written, set()
    body = read_block(ctx, node.body)
    changed = ctx.written | {s.target.name for s in walk_tir(body) if isinstance(s, Accumulate)}
    ctx.written |= before
    ends = any(isinstance(stmt, (Return, Abort)) for stmt in walk_tir(body))
    if not ends and not changed.intersection(read):
        raise ctx.error(
            node.test,
            f"the condition of while reads {', '.join(read)}, and its body writes nothing of that, so that the loop "
            "never ends or never begins; write what the condition reads, or leave with return",
        )
    ctx.stmts.append(While(condition, body))


def _read_names(ctx: PrimContext, expr: Expr) -> set[str]:
    """Buffers and accumulators that the value of ``expr`` depends on."""
    if isinstance(expr, Apply):
        return {name for arg in expr.args for name in _read_names(ctx, arg)}
    if isinstance(expr, Load):
        return {expr.buffer.name}
    return {expr.name} if isinstance(expr, Var) and expr.name in ctx.accumulators else set()


def _may_change(ctx: PrimContext, expr: Expr) -> bool:
    """Whether a second reading can give another value: it loads an element or looks at an accumulator."""
    if isinstance(expr, Apply):
        return any(_may_change(ctx, arg) for arg in expr.args)
    return isinstance(expr, Load) or (isinstance(expr, Var) and expr.name in ctx.accumulators)


def _read_if(ctx: PrimContext, node: ast.If) -> None:
    condition = _condition(ctx, node.test)
    if is_value(condition):
        ctx.stmts.append(If(condition, read_block(ctx, node.body), read_block(ctx, node.orelse)))
        return
    with ctx.pointing_at(node.test):
        chosen = node.body if condition else node.orelse
    ctx.run(chosen)


def _read_with(ctx: PrimContext, node: ast.With) -> None:
    ctx.stmts.append(MeshScope(*read_scope(ctx, node)))


def _read_expression(ctx: PrimContext, node: ast.Expr) -> None:
    if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return
    value = ctx.read(node.value)
    if not isinstance(value, (Abort, Evaluate, Launch)):
        raise ctx.error(node, "the value of this statement is not used; name it or store it")
    _note_written(ctx, value)
    ctx.stmts.append(value)


def _note_written(ctx: PrimContext, stmt: Abort | Evaluate | Launch) -> None:
    if isinstance(stmt, Evaluate) and stmt.args and isinstance(stmt.args[-1], BufferView):
        ctx.written.add(stmt.args[-1].buffer.name)
    if isinstance(stmt, Launch):
        count = ctx.outputs[stmt.callee]
        buffers = [arg for arg in stmt.args if isinstance(arg, BufferView)]
        ctx.written.update(arg.buffer.name for arg in buffers[len(buffers) - count :])


def _read_return(ctx: PrimContext, node: ast.Return) -> None:
    if node.value is not None:
        raise ctx.error(node, "a @prim_func returns nothing: it stores to its last parameters")
    ctx.stmts.append(Return())


def _read_pass(ctx: PrimContext, node: ast.Pass) -> None:
    """``pass`` says nothing."""


PRIM_STATEMENTS = {
    ast.Assign: _read_assign,
    ast.AugAssign: _read_aug_assign,
    ast.For: _read_for,
    ast.While: _read_while,
    ast.If: _read_if,
    ast.With: _read_with,
    ast.Expr: _read_expression,
    ast.Return: _read_return,
    ast.Pass: _read_pass,
}
