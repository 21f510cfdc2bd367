"""A node as an aligned text: tree, weights, ops, shapes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from tilefoundry.inspection.groups import child_groups, child_runs
from tilefoundry.ir.core.expr import Bind, Call, For, FunctionCall
from tilefoundry.ir.core.module import Module
from tilefoundry.ir.hir.function import Function
from tilefoundry.ir.tir import (
    Allocate,
    Evaluate,
    Launch,
    PrimFunction,
    TileAttention,
    TileContraction,
    walk_tir,
)
from tilefoundry.ir.types import TensorType, type_dim_vars

__all__ = ["WEIGHT_COLUMNS", "every_module", "op_counts", "signature", "summary", "table", "weight_rows"]


WEIGHT_COLUMNS = ("path", "type", "converter", "alike", "bytes")


def summary(node: Any, *, collapse: bool = True) -> str:
    """What ``tilefoundry show`` prints of a Module or a function.

    Args:
        node: a Module, Function or PrimFunction.
        collapse: write a run of children that differ in their names alone once.
    """
    parts = ["\n".join(_tree(node, "", collapse)) if isinstance(node, Module) else signature(node)]
    if isinstance(node, Module):
        rows = weight_rows(node, collapse=collapse)
        parts.append(_section("weights", WEIGHT_COLUMNS, rows) + _total(node))
    ops = op_counts(node)
    if ops:
        parts.append(
            _section("ops", ("op", "uses"), [(name, str(count)) for name, count in ops.most_common()])
        )
    dims = _dims(node)
    if dims:
        parts.append(_section("extents", ("name", "from", "below"), dims))
    return "\n\n".join(parts)


def signature(function: Any) -> str:
    """``name(params) -> result`` with types; weights are marked with a star."""
    params = ", ".join(f"{'*' if p.is_const else ''}{p.name}: {p.type}" for p in function.params)
    result = f" -> {function.result}" if isinstance(function, Function) else ""
    return f"{function.name}({params}){result}"


def _brief(function: Any) -> str:
    """The signature without weights, and how many there are."""
    given = [p for p in function.params if not p.is_const]
    params = ", ".join(f"{p.name}: {p.type}" for p in given)
    result = f" -> {function.result}" if isinstance(function, Function) else ""
    count = len(function.params) - len(given)
    return f"{function.name}({params}){result}" + (f"  {count} weight{'s' * (count > 1)}" if count else "")


def every_module(module: Module) -> Iterator[Module]:
    """``module`` and everything below it, owners first."""
    yield module
    for child in module.modules:
        yield from every_module(child)


def weight_rows(module: Module, *, collapse: bool = False) -> list[tuple[str, str, str, str, str]]:
    """(dotted path, type, converter's parameters, how many alike, bytes of one) of the subtree's weights.

    With ``collapse``, children that differ in their names alone count under the first of them.
    """
    return list(_weights(module, "", 1, collapse))


def _weights(
    module: Module, prefix: str, times: int, collapse: bool
) -> Iterator[tuple[str, str, str, str, str]]:
    converters = {
        name: f"from {', '.join(p.name for p in converter.params)}"
        for function in module.functions
        if isinstance(function, Function)
        for name, converter in function.converters.items()
    }
    for name, type_ in module.weights.items():
        yield prefix + name, str(type_), converters.get(name, ""), str(times), str(_bytes(type_))
    runs = child_runs(module) if collapse else [[child] for child in module.modules]
    for run in runs:
        yield from _weights(run[0], f"{prefix}{run[0].name}.", times * len(run), collapse)


def _bytes(type_: TensorType) -> Any:
    return type_.size * type_.dtype.bits // 8 if type_.is_static else "dynamic"


def _total(module: Module) -> str:
    sizes = [_bytes(type_) for node in every_module(module) for type_ in node.weights.values()]
    static = [size for size in sizes if isinstance(size, int)]
    return f"\n{len(sizes)} weights, {sum(static) / 1e6:.1f} MB" if sizes else ""


def op_counts(node: Any) -> Counter[str]:
    """How often each op, call and loop stands in the text of ``node``."""
    functions = [f for m in every_module(node) for f in m.functions] if isinstance(node, Module) else [node]
    counts: Counter[str] = Counter()
    for function in functions:
        if isinstance(function, Function):
            for part in (function, *(v.function for v in function.variants)):
                counts.update(_uses(part))
        else:
            counts.update(_tile_uses(function))
    return counts


def _tile_uses(function: PrimFunction) -> Iterator[str]:
    """Tile-level ops, products and launches; scalars between them do not count."""
    for stmt in walk_tir(function.body):
        if isinstance(stmt, Evaluate):
            yield f"T.{stmt.op}"
        elif type(stmt) in _TILE_NAMES:
            yield _TILE_NAMES[type(stmt)]


_TILE_NAMES = {
    TileContraction: "T.contract",
    TileAttention: "T.attention",
    Launch: "T.launch",
    Allocate: "T.alloc_tensor",
}


def _uses(function: Function) -> Iterator[str]:
    for stmt in function.stmts():
        if isinstance(stmt, For):
            yield f"loop over {stmt.kind}"
        elif isinstance(stmt, Bind) and isinstance(stmt.value, Call):
            yield stmt.value.op.name
        elif isinstance(stmt, Bind) and isinstance(stmt.value, FunctionCall):
            yield "call"


def _dims(node: Any) -> list[tuple[str, str, str]]:
    functions = [f for m in every_module(node) for f in m.functions] if isinstance(node, Module) else [node]
    found = {var: None for f in functions for p in f.params for var in type_dim_vars(p.type)}
    return sorted((var.name, str(var.lo), str(var.hi)) for var in found)


def _tree(module: Module, indent: str, collapse: bool, label: str | None = None) -> Iterator[str]:
    facts = (
        [f"topologies {' '.join(map(str, module.topologies)) or 'none'}"]
        if module.topologies is not None
        else []
    )
    facts += [f"target {module.target}"] if module.target is not None else []
    yield f"{indent}{label or module.name}" + (f"  [{'; '.join(facts)}]" if facts else "")
    inner = indent + "  "
    for function in module.functions:
        mark = ">" if function.name == module.entry else "-"
        yield f"{inner}{mark} {_brief(function)}"
        for variant in getattr(function, "variants", ()):
            yield f"{inner}    for {variant.pattern.name} in [{variant.pattern.lo}, {variant.pattern.hi})"
    for name in module.methods:
        yield f"{inner}= {name}(...)  method"
    groups = child_groups(module) if collapse else [(child, child.name) for child in module.modules]
    for child, name in groups:
        yield from _tree(child, inner, collapse, name)


def _section(title: str, head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    if not rows:
        return f"{title}: none"
    return f"{title}\n{table(head, rows)}"


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Rows under a heading, columns aligned; columns of numbers to the right."""
    every = [head, *rows]
    widths = [max(len(row[i]) for row in every) for i in range(len(head))]
    right = [all(row[i].isdigit() for row in rows) for i in range(len(head))]
    lines = []
    for row in every:
        cells = [t.rjust(w) if r else t.ljust(w) for t, w, r in zip(row, widths, right, strict=True)]
        lines.append("  " + "  ".join(cells).rstrip())
    return "\n".join(lines)
