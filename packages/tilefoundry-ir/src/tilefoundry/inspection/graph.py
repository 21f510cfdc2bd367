"""A function's data flow as nodes and edges, loops and mesh scopes as nodes that hold a graph of their own."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tilefoundry.ir.core.expr import (
    Atom,
    Bind,
    Block,
    Call,
    Constant,
    For,
    FunctionCall,
    MeshScope,
    Stmt,
    Var,
)
from tilefoundry.ir.hir.function import Function

__all__ = ["Graph", "Node", "function_graph"]


@dataclass(slots=True)
class Node:
    """One box.

    Attributes:
        key: its name in the graph.
        title: what it does.
        detail: what it gives: a type.
        kind: ``param``, ``weight``, ``op``, ``call``, ``loop``, ``scope`` or ``result``.
        inputs: keys of the nodes whose values it reads, in order, each once.
        inner: the graph inside a loop or scope.
    """

    key: str
    title: str
    detail: str
    kind: str
    inputs: tuple[str, ...] = ()
    inner: Graph | None = None


@dataclass(slots=True)
class Graph:
    """Nodes in program order, so that every input stands before its reader."""

    nodes: list[Node] = field(default_factory=list)


def function_graph(function: Function) -> Graph:
    """The graph of ``function``: parameters, statements, results. A base without body shows its variants."""
    builder = _Builder()
    for param in function.params:
        builder.source(param, "weight" if param.is_const else "param")
    if function.body is None:
        keys = [p.name for p in function.params]
        for variant in function.variants:
            title = f"{variant.pattern.name} in [{variant.pattern.lo}, {variant.pattern.hi})"
            inner = function_graph(variant.function)
            builder.add(Node(title, title, str(function.result), "scope", tuple(keys), inner))
    else:
        builder.block(function.body)
        builder.result(function.body.results, str(function.result))
    return builder.graph


class _Builder:
    """Fills one graph; knows which node of it gives each value."""

    def __init__(self) -> None:
        self.graph = Graph()
        self.outside: dict[str, None] = {}
        self._gives: dict[str, str] = {}

    def add(self, node: Node, *names: str) -> None:
        self.graph.nodes.append(node)
        self._gives.update(dict.fromkeys((node.key, *names), node.key))

    def source(self, var: Var, kind: str) -> None:
        self.add(Node(var.name, var.name, str(var.type), kind))

    def result(self, atoms: Iterable[Atom], detail: str) -> None:
        self.add(Node("return", "return", detail, "result", self._keys(_names(atoms))))

    def block(self, block: Block) -> None:
        for stmt in block.stmts:
            self._stmt(stmt)

    def _stmt(self, stmt: Stmt) -> None:
        if isinstance(stmt, Bind):
            self.add(_bind_node(stmt, self._keys(_names(stmt.value.args))))
        elif isinstance(stmt, MeshScope):
            self._scope(stmt)
        else:
            self._loop(stmt)

    def _scope(self, scope: MeshScope) -> None:
        inner = _Builder()
        inner.block(Block(scope.stmts))
        title = f"with {scope.mesh} as {scope.name}"
        node = Node(
            f"with {len(self.graph.nodes)}", title, "", "scope", self._keys(inner.outside), inner.graph
        )
        self.add(node, *inner._gives)

    def _loop(self, loop: For) -> None:
        inner = _Builder()
        inner.source(loop.index, "param")
        for carry in loop.carries:
            inner.source(carry.inner, "param")
        inner.block(loop.body)
        if loop.carries:
            inner.result(loop.body.results, "next turn")
        reads = [*_names(carry.initial for carry in loop.carries), *inner.outside]
        title = f"for {loop.index.name} in {loop.kind}({loop.start}, {loop.stop}, {loop.step})"
        detail = ", ".join(str(carry.result.type) for carry in loop.carries)
        node = Node(f"for {len(self.graph.nodes)}", title, detail, "loop", self._keys(reads), inner.graph)
        self.add(node, *(carry.result.name for carry in loop.carries))

    def _keys(self, names: Iterable[str]) -> tuple[str, ...]:
        found: dict[str, None] = {}
        for name in names:
            if name in self._gives:
                found[self._gives[name]] = None
            else:
                self.outside[name] = None
        return tuple(found)


def _names(atoms: Iterable[Atom]) -> list[str]:
    return [atom.name for atom in atoms if isinstance(atom, Var)]


def _bind_node(stmt: Bind, inputs: tuple[str, ...]) -> Node:
    value = stmt.value
    literals = [repr(arg.value) for arg in value.args if isinstance(arg, Constant)]
    if isinstance(value, FunctionCall):
        title, kind = ".".join(value.path), "call"
    else:
        assert isinstance(value, Call)
        title, kind = " ".join([value.op.name, *literals]), "op"
    return Node(stmt.target.name, title, f"{stmt.target.name}: {value.type}", kind, inputs)
