"""The items of what is known while a program is read: Python sequences and the parts of a tuple value."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from typing import Any

from tilefoundry.dsl.context import BodyContext, describe, is_value
from tilefoundry.dsl.ops import call_op
from tilefoundry.dsl.ranges import LoopRange
from tilefoundry.ir.types import TupleType

__all__ = ["static_items"]

# A program that unrolls further would not be readable, nor compile in sensible time.
_MOST_ITEMS = 65536


def static_items(
    ctx: BodyContext, node: ast.AST, value: Any, names: Sequence[str | None] | None = None
) -> list[Any]:
    """The items of ``value`` in order; ``names`` are hints for the parts of a tuple value.

    Raises DslError for a tensor (which has no parts), a range whose length is not known, and what is no
    sequence.
    """
    if is_value(value):
        return _parts(ctx, node, value, names)
    if isinstance(value, LoopRange):
        with ctx.pointing_at(node):
            return list(value.unrolled())
    if not isinstance(value, Iterable) or isinstance(value, (str, bytes)):
        raise ctx.error(node, f"a tuple or a list is needed here, got {describe(value)}")
    items: list[Any] = []
    with ctx.pointing_at(node):
        for item in value:
            items.append(item)
            if len(items) > _MOST_ITEMS:
                raise ValueError(
                    f"more than {_MOST_ITEMS} items to unroll; use for ... in range(...) instead"
                )
    return items


def _parts(ctx: BodyContext, node: ast.AST, value: Any, names: Sequence[str | None] | None) -> list[Any]:
    if not isinstance(value.type, TupleType):
        raise ctx.error(
            node, f"a tensor does not fall into parts: {describe(value)}; slice it or use tf.split"
        )
    count = len(value.type.elements)
    hints = names if names is not None and len(names) == count else [None] * count
    return [call_op(ctx, node, "tuple_get_item", (value, i), {}, hint) for i, hint in enumerate(hints)]
