"""What becomes of values: how often they are read, which memory they end up in, which are windows of others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from tilefoundry.codegen.cpu.views import View
from tilefoundry.ir.core.expr import Atom, Bind, Block, Call, For, MeshScope, Stmt, Var
from tilefoundry.ir.types import Dim, StorageKind, TensorType

__all__ = ["changed_values", "homes_of", "placed_windows", "use_counts"]


def use_counts(block: Block) -> dict[str, int]:
    """How many statements and results read each value."""
    found: Counter[str] = Counter(_names(block.results))
    for stmt in _walk(block.stmts):
        if isinstance(stmt, Bind):
            found.update(_names(stmt.value.args))
        elif isinstance(stmt, For):
            found.update(_names(tuple(carry.initial for carry in stmt.carries)))
            found.update(_names(stmt.body.results))
    return dict(found)


def _names(atoms: tuple[Atom, ...]) -> Iterator[str]:
    return (atom.name for atom in atoms if isinstance(atom, Var))


def _walk(stmts: tuple[Stmt, ...]) -> Iterator[Stmt]:
    for stmt in stmts:
        yield stmt
        if isinstance(stmt, MeshScope):
            yield from _walk(stmt.stmts)
        elif isinstance(stmt, For):
            yield from _walk(stmt.body.stmts)


def homes_of(
    block: Block, results: Mapping[str, View], uses: Mapping[str, int]
) -> tuple[dict[str, View], set[str]]:
    """The output that each value is written to, for results and for what they are made of in place.

    Also the values whose first contents need not be there, since a loop replaces every window of them.
    """
    homes = dict(results)
    filled: set[str] = set()

    def follow(source: Atom, target: str) -> None:
        if isinstance(source, Var) and target in homes and uses.get(source.name, 0) <= 1:
            homes.setdefault(source.name, homes[target])

    for stmt in reversed(list(_walk(block.stmts))):
        if isinstance(stmt, For):
            _follow_loop(stmt, homes, uses)
            filled |= {
                c.initial.name
                for c, r in zip(stmt.carries, stmt.body.results, strict=True)
                if isinstance(c.initial, Var) and _covers(stmt, c.inner, r)
            }
        elif isinstance(stmt, Bind) and (_inserts(stmt) or _stays_in_memory(stmt)):
            follow(stmt.value.args[0], stmt.target.name)
    return homes, filled


def _follow_loop(loop: For, homes: dict[str, View], uses: Mapping[str, int]) -> None:
    for carry, result in zip(loop.carries, loop.body.results, strict=True):
        home = homes.get(carry.result.name)
        if home is None:
            continue
        if isinstance(carry.initial, Var) and uses.get(carry.initial.name, 0) <= 1:
            homes.setdefault(carry.initial.name, home)
            homes.setdefault(carry.inner.name, home)
            if isinstance(result, Var):
                homes.setdefault(result.name, home)
                _follow_body(loop, homes, uses)


def _follow_body(loop: For, homes: dict[str, View], uses: Mapping[str, int]) -> None:
    for stmt in reversed(list(_walk(loop.body.stmts))):
        if isinstance(stmt, For):
            _follow_loop(stmt, homes, uses)


def _inserts(stmt: Stmt) -> bool:
    return isinstance(stmt, Bind) and isinstance(stmt.value, Call) and stmt.value.op.name == "insert_slice"


def _stays_in_memory(stmt: Stmt) -> bool:
    """A reshard from gmem to gmem names the same memory."""
    if not isinstance(stmt, Bind) or not isinstance(stmt.value, Call) or stmt.value.op.name != "reshard":
        return False
    source = stmt.value.args[0].type
    kinds = (StorageKind.GMEM, StorageKind.UNDECIDED)
    return (
        isinstance(source, TensorType)
        and source.storage in kinds
        and isinstance(stmt.target.type, TensorType)
        and stmt.target.type.storage is StorageKind.GMEM
    )


def _covers(loop: For, inner: Var, result: Atom) -> bool:
    """Whether the loop's turns together replace every element of a carried value, each by its own window."""
    if loop.kind != "tile" or loop.start != 0 or not isinstance(inner.type, TensorType):
        return False
    for stmt in loop.body.stmts:
        if (
            not isinstance(stmt, Bind)
            or not isinstance(stmt.value, Call)
            or stmt.value.op.name != "insert_slice"
        ):
            continue
        if stmt.target == result and stmt.value.args[0] == inner:
            return _one_axis(loop, inner.type, stmt.value)
    return False


def _one_axis(loop: For, whole: TensorType, insert: Call) -> bool:
    update = insert.args[1].type
    assert isinstance(update, TensorType)
    windows: list[Dim] = [loop.step] if loop.window is None else [loop.window]
    along = 0
    for extent, size, start in zip(whole.shape, update.shape, insert.attr("offsets"), strict=True):
        if start == 0 and size == extent:
            continue
        named = (
            start is not None and not isinstance(start, int) and getattr(start, "name", "") == loop.index.name
        )
        if not named or size not in windows or extent != loop.stop:
            return False
        along += 1
    return along == 1


def placed_windows(block: Block, uses: Mapping[str, int]) -> dict[str, Bind]:
    """Value -> the insert_slice that takes it: both once used, so that the window is written where it belongs."""
    made = {
        stmt.target.name
        for stmt in _walk(block.stmts)
        if isinstance(stmt, Bind) and isinstance(stmt.value, Call) and stmt.value.op.name == "reshard"
    }
    found: dict[str, Bind] = {}
    for stmt in _walk(block.stmts):
        if (
            not isinstance(stmt, Bind)
            or not isinstance(stmt.value, Call)
            or stmt.value.op.name != "insert_slice"
        ):
            continue
        update = stmt.value.args[1]
        if isinstance(update, Var) and update.name in made and uses.get(update.name) == 1:
            found[update.name] = stmt
    return found


def changed_values(block: Block) -> set[str]:
    """Values of which a window is replaced, followed through loops."""
    found: set[str] = set()
    for _ in range(2):
        for stmt in reversed(list(_walk(block.stmts))):
            if isinstance(stmt, For):
                for carry, result in zip(stmt.carries, stmt.body.results, strict=True):
                    if carry.inner.name in found or (isinstance(result, Var) and result.name in found):
                        found |= {carry.inner.name, carry.result.name}
                        found |= set(_names((carry.initial, result)))
            elif (
                isinstance(stmt, Bind)
                and isinstance(stmt.value, Call)
                and stmt.value.op.name == "insert_slice"
            ):
                found |= {stmt.target.name, *_names((stmt.value.args[0],))}
    return found
