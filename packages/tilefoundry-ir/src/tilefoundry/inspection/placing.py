"""Where the boxes of a graph stand: layers from inputs to results, crossings kept few."""

from __future__ import annotations

from dataclasses import dataclass, field

from tilefoundry.inspection.graph import Graph, Node

__all__ = ["Box", "Placed", "place"]

CHARACTER = 6.6
ROW = 16
PAD = 10
GAP_X = 18
GAP_Y = 30
TEXT_LIMIT = 64


@dataclass(slots=True)
class Box:
    """A node with its rectangle; ``inner`` is placed relative to the box's own corner."""

    node: Node
    width: float
    height: float
    x: float = 0.0
    y: float = 0.0
    inner: Placed | None = None


@dataclass(slots=True)
class Placed:
    """A graph with positions and its outer size."""

    boxes: dict[str, Box] = field(default_factory=dict)
    width: float = 0.0
    height: float = 0.0


def place(graph: Graph) -> Placed:
    """Give every node of ``graph`` a rectangle.

    A node's layer is one below the lowest of its inputs. In a layer, nodes stand in the order of the mean
    position of their inputs.
    """
    placed = Placed()
    layers: dict[int, list[Box]] = {}
    depth: dict[str, int] = {}
    for node in graph.nodes:
        depth[node.key] = 1 + max((depth[key] for key in node.inputs), default=-1)
        box = _box(node)
        placed.boxes[node.key] = box
        layers.setdefault(depth[node.key], []).append(box)
    y = float(PAD)
    for level in sorted(layers):
        row = layers[level]
        row.sort(key=lambda box: _wanted(box, placed))
        _spread(row, y, placed)
        y += max(box.height for box in row) + GAP_Y
    left = min((box.x for box in placed.boxes.values()), default=0.0) - PAD
    for box in placed.boxes.values():
        box.x -= left
    placed.width = max((box.x + box.width for box in placed.boxes.values()), default=0.0) + PAD
    placed.height = y - GAP_Y + PAD
    return placed


def short(text: str) -> str:
    """``text`` cut to what fits a box."""
    return text if len(text) <= TEXT_LIMIT else text[: TEXT_LIMIT - 1] + "…"


def _box(node: Node) -> Box:
    lines = [line for line in (node.title, node.detail) if line]
    width = max(len(short(line)) for line in lines) * CHARACTER + 2 * PAD
    height = len(lines) * ROW + PAD
    if node.inner is None:
        return Box(node, width, height)
    inner = place(node.inner)
    return Box(node, max(width, inner.width), height + inner.height, inner=inner)


def _wanted(box: Box, placed: Placed) -> float:
    """The x of the middle that would put a node below its inputs."""
    inputs = [placed.boxes[key] for key in box.node.inputs]
    if not inputs:
        return 0.0
    return sum(other.x + other.width / 2 for other in inputs) / len(inputs)


def _spread(row: list[Box], y: float, placed: Placed) -> None:
    """Put a layer's boxes side by side, each as near below its inputs as its left neighbour lets it."""
    x = float("-inf")
    for box in row:
        box.x = max(_wanted(box, placed) - box.width / 2, x)
        box.y = y
        x = box.x + box.width + GAP_X
