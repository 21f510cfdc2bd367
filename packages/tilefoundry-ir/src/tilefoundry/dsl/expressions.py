"""Names, numbers, tuples, attributes, conditional expressions and list comprehensions."""

from __future__ import annotations

import ast
from difflib import get_close_matches
from types import ModuleType
from typing import Any

from tilefoundry.dsl.children import ChildRef, FunctionRef, child_of
from tilefoundry.dsl.context import BodyContext, describe, is_value
from tilefoundry.dsl.extents import truth
from tilefoundry.dsl.unrolling import static_items
from tilefoundry.ir.core.module import Module
from tilefoundry.ir.types import TupleType

__all__ = ["EXPRESSIONS"]


def _read_constant(ctx: BodyContext, node: ast.Constant, hint: str | None) -> Any:
    if isinstance(node.value, complex):
        raise ctx.error(node, "there are no complex tensors")
    return node.value


def _read_name(ctx: BodyContext, node: ast.Name, hint: str | None) -> Any:
    if node.id in ctx.locals:
        return ctx.locals[node.id]
    if node.id in ctx.gone:
        raise ctx.error(node, ctx.gone[node.id])
    members = ctx.enclosure.members
    if members is not None and isinstance(members.get(node.id), Module):
        return ChildRef(members[node.id], (node.id,))
    try:
        return ctx.enclosure.scope.lookup(node.id)
    except KeyError:
        raise ctx.error(
            node, f"{node.id} is not defined here; a body sees only what is defined above it"
        ) from None


def _read_tuple(ctx: BodyContext, node: ast.Tuple | ast.List, hint: str | None) -> Any:
    items: list[Any] = []
    for part in node.elts:
        if isinstance(part, ast.Starred):
            items.extend(static_items(ctx, part.value, ctx.read(part.value)))
        else:
            items.append(ctx.read(part))
    return items if isinstance(node, ast.List) else tuple(items)


def _read_attribute(ctx: BodyContext, node: ast.Attribute, hint: str | None) -> Any:
    base = ctx.read(node.value)
    if is_value(base):
        raise ctx.error(
            node,
            f"a tensor has no attributes here, and {describe(base)} is asked for .{node.attr}; "
            "write its extents by name, and tf.shape_of for what is known only at run time",
        )
    if isinstance(base, (Module, ChildRef, FunctionRef)):
        with ctx.pointing_at(node):
            return child_of(ctx, base, node.attr)
    with ctx.pointing_at(node):
        try:
            return getattr(base, node.attr)
        except AttributeError as error:
            raise TypeError(_no_attribute(base, node.attr, error)) from None


def _read_conditional(ctx: BodyContext, node: ast.IfExp, hint: str | None) -> Any:
    chosen = node.body if truth(ctx, node.test, ctx.read(node.test)) else node.orelse
    return ctx.read(chosen, hint)


def _no_attribute(base: Any, name: str, error: AttributeError) -> str:
    if not isinstance(base, ModuleType):
        return str(error) or f"{describe(base)} has no {name!r}"
    close = get_close_matches(name, [n for n in dir(base) if not n.startswith("_")])
    hint = f"; did you mean {', '.join(close)}?" if close else ""
    return f"{base.__name__} has no {name!r}{hint}"


def _read_comprehension(
    ctx: BodyContext, node: ast.ListComp | ast.GeneratorExp, hint: str | None
) -> list[Any]:
    saved = dict(ctx.locals)
    out: list[Any] = []
    _unroll(ctx, node, 0, out)
    ctx.locals = saved
    return out


def _unroll(ctx: BodyContext, node: ast.ListComp | ast.GeneratorExp, depth: int, out: list[Any]) -> None:
    if depth == len(node.generators):
        out.append(ctx.read(node.elt))
        return
    generator = node.generators[depth]
    if generator.is_async:
        raise ctx.error(node, "async comprehensions are not part of the DSL")
    for item in static_items(ctx, generator.iter, ctx.read(generator.iter)):
        bind_target(ctx, generator.target, item)
        if all(truth(ctx, test, ctx.read(test)) for test in generator.ifs):
            _unroll(ctx, node, depth + 1, out)


def bind_target(ctx: BodyContext, target: ast.expr, value: Any) -> None:
    """Bind ``value`` to a name, or its parts to a tuple of names; DslError where the counts differ."""
    if isinstance(target, ast.Name):
        ctx.locals[target.id] = value
        return
    if not isinstance(target, (ast.Tuple, ast.List)):
        raise ctx.error(
            target,
            "only names are assigned to: tensors are values, so write x = tf.insert_slice(x, update, offsets) "
            "instead of changing one in place",
        )
    parts = unpack(ctx, target, value, len(target.elts))
    for inner, part in zip(target.elts, parts, strict=True):
        bind_target(ctx, inner, part)


def unpack(ctx: BodyContext, node: ast.expr, value: Any, count: int) -> list[Any]:
    """The ``count`` parts of a tuple value or a Python sequence, for the targets that ``node`` lists."""
    for inner in getattr(node, "elts", []):
        if isinstance(inner, ast.Starred):
            raise ctx.error(inner, "a starred target is not part of the DSL; name every part")
    names = [inner.id if isinstance(inner, ast.Name) else None for inner in getattr(node, "elts", [])]
    parts = static_items(ctx, node, value, names if len(names) == count else None)
    if len(parts) != count:
        raise ctx.error(node, f"{count} names cannot take {len(parts)} values")
    return parts


def is_tuple_value(value: Any) -> bool:
    """True for an IR value that holds several tensors."""
    return is_value(value) and isinstance(value.type, TupleType)


EXPRESSIONS = {
    ast.Constant: _read_constant,
    ast.Name: _read_name,
    ast.Tuple: _read_tuple,
    ast.List: _read_tuple,
    ast.Attribute: _read_attribute,
    ast.IfExp: _read_conditional,
    ast.ListComp: _read_comprehension,
    ast.GeneratorExp: _read_comprehension,
}
