"""From the written form of a layout, such as ``(2 @ m.x, 12 @ m.y, 128)``, to its record."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tilefoundry.ir.types.dim import Dim, DimExpr, DimVar, lanes, product
from tilefoundry.ir.types.shard.attrs import Broadcast, ShardAttr, Split
from tilefoundry.ir.types.shard.axis import PartialOver, SplitExtent
from tilefoundry.ir.types.shard.divide import exact_quotient
from tilefoundry.ir.types.shard.layout import ComposedLayout, Layout
from tilefoundry.ir.types.shard.mesh import Mesh
from tilefoundry.ir.types.shard.shard_layout import ShardLayout
from tilefoundry.ir.types.written import as_entries

__all__ = ["AnyLayout", "layout_from_sugar"]

AnyLayout = Layout | ComposedLayout | ShardLayout


def layout_from_sugar(shape: Sequence[Dim], written: Any) -> AnyLayout | None:
    """The layout that ``written`` stands for, for a tensor of ``shape``.

    Args:
        shape: the tensor's shape; the layout's size must be its size, where a tile that the edge may cut counts by
            its extent or by all of its lanes.
        written: a tuple whose entries are extents or ``extent @ axis`` (each larger extent becomes the mesh
            extent and the remainder, in this order); a set of ``axis @ P(reduction)`` may follow the entries
            or such a tuple. A layout record or None passes through once its size was checked. Mesh axes that
            nothing names hold copies.

    Returns:
        A ``ShardLayout`` without strides where a mesh axis is named, else a ``Layout`` without strides.

    Raises:
        TypeError: something else was written.
        ValueError: an extent that the mesh axis does not divide, an axis used twice, axes of different
            meshes, or a size that is not the tensor's.
    """
    if written is None:
        return None
    if isinstance(written, (Layout, ComposedLayout, ShardLayout)):
        return _of_size(tuple(shape), written, str(written))
    entries, partials = _parts(written)
    text = "(" + ", ".join(map(str, entries)) + ")"
    meshes = [axis.mesh for entry in entries if isinstance(entry, SplitExtent) for axis in entry.axes]
    meshes += [partial.axis.mesh for partial in partials]
    if not meshes:
        return _of_size(tuple(shape), Layout(tuple(entries)), text)
    if any(mesh != meshes[0] for mesh in meshes):
        raise ValueError(f"the layout {text} names axes of different meshes")
    return _of_size(tuple(shape), _sharded(meshes[0], entries, partials, text), text)


def _sharded(mesh: Mesh, entries: Sequence[Any], partials: Iterable[PartialOver], text: str) -> ShardLayout:
    attrs: list[ShardAttr] = [Broadcast()] * mesh.rank
    used: set[int] = set()
    extents: list[Dim] = []
    for entry in entries:
        if not isinstance(entry, SplitExtent):
            extents.append(entry)
            continue
        rest = entry.extent
        for axis in entry.axes:
            _use(used, axis.position, axis.name, text)
            attrs[axis.position] = Split(len(extents))
            extents.append(axis.extent)
            rest = _remainder(entry, rest, axis.extent)
        if rest != 1:
            extents.append(rest)
    for partial in partials:
        _use(used, partial.axis.position, partial.axis.name, text)
        attrs[partial.axis.position] = partial.attr
    return ShardLayout(Layout(tuple(extents)), tuple(attrs), mesh)


def _remainder(entry: SplitExtent, extent: Dim, parts: Dim) -> Dim:
    rest = exact_quotient(extent, parts)
    if rest is None:
        raise ValueError(
            f"{entry}: the mesh extent {parts} does not divide {extent}; pad it or choose another axis"
        )
    return rest


def _use(used: set[int], position: int, name: str, text: str) -> None:
    if position in used:
        raise ValueError(f"the layout {text} uses the mesh axis {name} twice; an axis does one thing")
    used.add(position)


def _parts(written: Any) -> tuple[tuple[Any, ...], tuple[PartialOver, ...]]:
    if not isinstance(written, tuple):
        as_entries("a layout is a tuple of extents, or a layout record", written)
    if written and isinstance(written[-1], (set, frozenset)):
        entries = written[:-1]
        if len(entries) == 1 and isinstance(entries[0], tuple):
            entries = entries[0]
        partials = tuple(sorted(written[-1], key=_partial_position))
    else:
        entries, partials = written, ()
    for entry in entries:
        if isinstance(entry, bool) or not isinstance(entry, (int, DimVar, DimExpr, SplitExtent)):
            raise TypeError(f"a layout's entry is an extent or extent @ axis, got {entry!r}")
    return entries, partials


def _partial_position(held: Any) -> int:
    if not isinstance(held, PartialOver):
        raise TypeError(
            f'the set beside a layout holds axis @ P(reduction), such as m.t @ P("sum"), got {held!r}'
        )
    return held.axis.position


def _of_size(shape: tuple[Dim, ...], layout: AnyLayout, text: str) -> AnyLayout:
    size, whole = product(shape), product(map(lanes, shape))
    if product(layout.shape) not in (size, whole):
        tensor = ", ".join(map(str, shape))
        held = str(size) if size == whole else f"{size}, {whole} with a whole tile"
        raise ValueError(
            f"the layout {text} has {product(layout.shape)} elements, the tensor ({tensor}) has {held}"
        )
    return layout
