"""Dims and layouts as JSON values, and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilefoundry.ir.layout import Swizzle
from tilefoundry.ir.types import Dim, DimVar
from tilefoundry.ir.types.dim import FloorDiv, floordiv
from tilefoundry.ir.types.shard import (
    Broadcast,
    ComposedLayout,
    Dynamic,
    Layout,
    Mesh,
    Partial,
    ShardAttr,
    ShardLayout,
    Split,
    Topology,
)

__all__ = ["decode_dim", "decode_layout", "encode_dim", "encode_layout"]


def encode_layout(layout: Any) -> Any:
    """``layout`` (None, a Layout, ComposedLayout or ShardLayout) as JSON values; TypeError for anything else."""
    if layout is None:
        return None
    for kind, (name, encode, _) in _KINDS.items():
        if isinstance(layout, kind):
            return {"kind": name, **encode(layout)}
    raise TypeError(f"a saved parameter's layout is one of the IR's records, got {layout!r}")


def decode_layout(value: Any) -> Any:
    """What ``encode_layout`` wrote; KeyError, TypeError or ValueError for anything else."""
    if value is None:
        return None
    for name, _, decode in _KINDS.values():
        if value["kind"] == name:
            return decode(value)
    raise ValueError(f"unknown kind of layout {value['kind']!r}")


def _encode_plain(layout: Layout) -> dict[str, Any]:
    return {"shape": _encode_dims(layout.shape), "strides": _encode_dims(layout.strides)}


def _decode_plain(row: dict[str, Any]) -> Layout:
    return Layout(_decode_dims(row["shape"]) or (), _decode_dims(row["strides"]))


def _encode_composed(layout: ComposedLayout) -> dict[str, Any]:
    outer = layout.outer
    swizzle = None if outer is None else [outer.bits, outer.base, outer.shift]
    return {"outer": swizzle, "offset": encode_dim(layout.offset), "inner": encode_layout(layout.inner)}


def _decode_composed(row: dict[str, Any]) -> ComposedLayout:
    outer = None if row["outer"] is None else Swizzle(*row["outer"])
    return ComposedLayout(outer, decode_dim(row["offset"]), decode_layout(row["inner"]))


def _encode_shard(layout: ShardLayout) -> dict[str, Any]:
    return {
        "layout": encode_layout(layout.layout),
        "attrs": [_encode_attr(attr) for attr in layout.attrs],
        "mesh": _encode_mesh(layout.mesh),
    }


def _decode_shard(row: dict[str, Any]) -> ShardLayout:
    attrs = tuple(_decode_attr(attr) for attr in row["attrs"])
    return ShardLayout(decode_layout(row["layout"]), attrs, _decode_mesh(row["mesh"]))


_KINDS: dict[type, tuple[str, Callable[[Any], dict[str, Any]], Callable[[dict[str, Any]], Any]]] = {
    Layout: ("plain", _encode_plain, _decode_plain),
    ComposedLayout: ("composed", _encode_composed, _decode_composed),
    ShardLayout: ("shard", _encode_shard, _decode_shard),
}


def _encode_attr(attr: ShardAttr) -> list[Any]:
    if isinstance(attr, Split):
        return ["split", attr.axis]
    if isinstance(attr, Partial):
        return ["partial", attr.reduction]
    return ["dynamic"] if isinstance(attr, Dynamic) else ["broadcast"]


def _decode_attr(row: list[Any]) -> ShardAttr:
    kind, *rest = row
    kinds = {"split": Split, "partial": Partial, "dynamic": Dynamic, "broadcast": Broadcast}
    return kinds[kind](*rest)


def _encode_mesh(mesh: Mesh) -> dict[str, Any]:
    return {
        "levels": [_encode_level(level) for level in mesh.topologies],
        "layout": _encode_plain(mesh.layout),
        "names": list(mesh.names),
        "window": None if mesh.window is None else [list(pair) for pair in mesh.window],
    }


def _decode_mesh(row: dict[str, Any]) -> Mesh:
    window = None if row["window"] is None else tuple((start, stop) for start, stop in row["window"])
    levels = tuple(_decode_level(level) for level in row["levels"])
    return Mesh(levels, _decode_plain(row["layout"]), tuple(row["names"]), window)


def _encode_level(level: str | Topology) -> Any:
    return level if isinstance(level, str) else {"name": level.name, "extent": encode_dim(level.extent)}


def _decode_level(value: Any) -> str | Topology:
    return value if isinstance(value, str) else Topology(value["name"], decode_dim(value["extent"]))


def _encode_dims(dims: tuple[Dim, ...] | None) -> list[Any] | None:
    return None if dims is None else [encode_dim(dim) for dim in dims]


def _decode_dims(values: list[Any] | None) -> tuple[Dim, ...] | None:
    return None if values is None else tuple(decode_dim(value) for value in values)


def encode_dim(dim: Dim) -> Any:
    """``dim`` as JSON values."""
    if isinstance(dim, int):
        return dim
    if isinstance(dim, DimVar):
        return {"var": dim.name, "lo": dim.lo, "hi": dim.hi}
    return {"sum": [[factor, [_encode_atom(atom) for atom in monomial]] for monomial, factor in dim.terms]}


def _encode_atom(atom: DimVar | FloorDiv) -> Any:
    if isinstance(atom, DimVar):
        return encode_dim(atom)
    return {"floordiv": [encode_dim(atom.numerator), atom.divisor]}


def decode_dim(value: Any) -> Dim:
    """What ``encode_dim`` wrote; KeyError, TypeError or ValueError for anything else."""
    if type(value) is int:
        return value
    if "var" in value:
        return DimVar(value["var"], value["lo"], value["hi"])
    if "floordiv" in value:
        numerator, divisor = value["floordiv"]
        return floordiv(decode_dim(numerator), divisor)
    total: Dim = 0
    for factor, atoms in value["sum"]:
        term: Dim = factor
        for atom in atoms:
            term = term * decode_dim(atom)
        total = total + term
    return total
