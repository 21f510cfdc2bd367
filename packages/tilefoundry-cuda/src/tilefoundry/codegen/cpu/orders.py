"""Who reads the values of a host's body, and in which order of axes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tilefoundry.ir.core.expr import Atom, Bind, Block, Call, For, FunctionCall, Var
from tilefoundry.ir.hir.function import Function
from tilefoundry.ir.types import TupleType

__all__ = ["atoms_of", "item_names", "result_names", "wanted_orders"]


def wanted_orders(block: Block) -> dict[str, tuple[int, ...]]:
    """Value -> axis order in which its one reader, a transpose, would find it dense; the last axis stays last."""
    readers: dict[str, list[Call | None]] = {}
    for atom, reader in _reads(block):
        if isinstance(atom, Var):
            readers.setdefault(atom.name, []).append(reader)
    orders: dict[str, tuple[int, ...]] = {}
    for name, calls in readers.items():
        call = calls[0]
        if len(calls) == 1 and call is not None and call.op.name == "transpose":
            perm = call.attr("perm")
            if perm and perm[-1] == len(perm) - 1:
                orders[name] = perm
    return orders


def _reads(block: Block) -> Iterator[tuple[Atom, Call | None]]:
    """Every operand with the op that reads it; None for calls, results, and what loops carry."""
    for stmt in block.stmts:
        if isinstance(stmt, For):
            # A carried value lies as its type says, turn after turn.
            for carry in stmt.carries:
                yield carry.initial, None
                yield carry.inner, None
                yield carry.result, None
            yield from _reads(stmt.body)
        else:
            assert isinstance(stmt, Bind)
            reader = stmt.value if isinstance(stmt.value, Call) else None
            for arg in stmt.value.args:
                yield arg, reader
    for atom in block.results:
        yield atom, None


def item_names(block: Block) -> dict[str, dict[int, str]]:
    """Name of a tuple -> index -> what the body, nested ones included, calls that element."""
    found: dict[str, dict[int, str]] = {}
    for stmt in block.stmts:
        if isinstance(stmt, For):
            found |= item_names(stmt.body)
        elif (
            isinstance(stmt, Bind) and isinstance(stmt.value, Call) and stmt.value.op.name == "tuple_get_item"
        ):
            group = stmt.value.args[0]
            if isinstance(group, Var):
                found.setdefault(group.name, {}).setdefault(stmt.value.attr("index"), stmt.target.name)
    return found


def result_names(bind: Bind, items: Mapping[str, Mapping[int, str]]) -> list[str]:
    """What the host calls the results of a kernel; an element that it takes no notice of, as the kernel does."""
    if not isinstance(bind.target.type, TupleType):
        return [bind.target.name]
    callee = bind.value.callee if isinstance(bind.value, FunctionCall) else None
    results = callee.body.results if isinstance(callee, Function) and callee.body is not None else ()
    own = [atom.name if isinstance(atom, Var) else f"result{i}" for i, atom in enumerate(results)]
    taken = items.get(bind.target.name, {})
    return [taken.get(i, name) for i, name in enumerate(own)]


def atoms_of(block: Block) -> Iterator[Atom]:
    """Every operand and result of a body, nested ones included."""
    return (atom for atom, _ in _reads(block))
