"""Tile-level ops as statements: which arguments are views, which are attributes."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilefoundry.dsl.context import BodyContext
from tilefoundry.dsl.literals import constant, is_number
from tilefoundry.dsl.prim.buffers import view
from tilefoundry.dsl.prim.scalars import check_clamp, scalar_of
from tilefoundry.dsl.prim.tile_shapes import check_tile_shapes
from tilefoundry.ir.core.expr import Expr
from tilefoundry.ir.core.kinds import BinaryKind, ReduceKind, UnaryKind, kind_from_name
from tilefoundry.ir.tir import MmaAtom, atom_named, classify_sync
from tilefoundry.ir.tir.expr import BufferView
from tilefoundry.ir.tir.stmt import Evaluate
from tilefoundry.ir.types import TensorType
from tilefoundry.ir.types.shard import Mesh, Topology

__all__ = ["TILE_SIGNATURES", "evaluate_tile_op"]


def _name_of(kinds: Any) -> Callable[[Any], str]:
    return lambda value: kind_from_name(kinds, value).value


def _mesh(value: Any) -> Mesh:
    if not isinstance(value, Mesh):
        raise TypeError(f"a Mesh is needed, got {value!r}")
    return value


def _axes(value: Any) -> tuple[int, ...]:
    axes = value if isinstance(value, (tuple, list)) else (value,)
    if not all(isinstance(axis, int) and not isinstance(axis, bool) for axis in axes):
        raise TypeError(f"axes are ints, got {value!r}")
    return tuple(axes)


def _atom(value: Any) -> str:
    return atom_named(value).name


def _plain(value: Any) -> Any:
    return value


@dataclass(frozen=True, slots=True)
class TileSignature:
    """How a tile op is called.

    Attributes:
        operands: names in call order; one that ends in ``?`` may be left out.
        written: the operand that the op writes; it comes last in the statement.
        scalars: operands that are scalars, not views.
        attrs: name -> what checks the value; after the operands or by keyword.
        defaults: attributes that may be left out.
        alike: operands that have one dtype.
    """

    operands: tuple[str, ...]
    written: str | None = None
    scalars: tuple[str, ...] = ()
    attrs: tuple[tuple[str, Callable[[Any], Any]], ...] = ()
    defaults: tuple[tuple[str, Any], ...] = ()
    alike: tuple[str, ...] = ()


TILE_SIGNATURES: dict[str, TileSignature] = {
    "ptr_of": TileSignature(("src", "dst"), "dst"),
    "memory_span": TileSignature(("src", "dst"), "dst"),
    "copy": TileSignature(("src", "dst"), "dst"),
    "fill": TileSignature(("dst", "value"), "dst", ("value",)),
    "copy_async": TileSignature(("src", "dst"), "dst", alike=("src", "dst")),
    "cp_async_commit": TileSignature(()),
    "cp_async_wait": TileSignature((), attrs=(("pending", int),), defaults=(("pending", 0),)),
    "binary": TileSignature(
        ("lhs", "rhs", "dst"), "dst", attrs=(("kind", _name_of(BinaryKind)),), alike=("lhs", "rhs")
    ),
    "unary": TileSignature(("src", "dst"), "dst", attrs=(("kind", _name_of(UnaryKind)),)),
    "clamp": TileSignature(
        ("src", "dst"), "dst", attrs=(("min_val", _plain), ("max_val", _plain)), alike=("src", "dst")
    ),
    "reduce": TileSignature(
        ("src", "dst", "ws?"),
        "dst",
        attrs=(("axes", _axes), ("kind", _name_of(ReduceKind))),
        alike=("src", "dst"),
    ),
    "relu": TileSignature(("src", "dst"), "dst", alike=("src", "dst")),
    "rms_norm": TileSignature(("src", "weight", "dst"), "dst", attrs=(("eps", float),)),
    "mma": TileSignature(("acc", "a", "b"), "acc", attrs=(("atom", _atom),), alike=("a", "b")),
    "sync": TileSignature((), attrs=(("mesh", _mesh),)),
}


def evaluate_tile_op(
    ctx: BodyContext, node: ast.AST, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Evaluate:
    """The statement that a call of the tile op stands for.

    Raises DslError at ``node`` for arguments that its signature does not take.
    """
    signature = TILE_SIGNATURES[name]
    with ctx.pointing_at(node):
        operands, attrs = _bind(name, signature, list(args), dict(kwargs))
        values = {key: _operand(ctx, node, signature, key, operands) for key in operands}
        _check_alike(name, signature, values)
        check_tile_shapes(name, {key: values[key].type for key in values}, attrs)
        if name == "sync":
            _check_sync(ctx, attrs["mesh"])
        elif name == "clamp":
            check_clamp(attrs["min_val"], attrs["max_val"])
        elif name == "mma":
            _check_mma(atom_named(attrs["atom"]), values)
        order = sorted(values, key=lambda key: key == signature.written)
        return Evaluate(name, tuple(values[key] for key in order), tuple(attrs.items()))


def _bind(
    name: str, signature: TileSignature, args: list[Any], kwargs: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    names = [operand.rstrip("?") for operand in signature.operands]
    attr_names = [attr for attr, _ in signature.attrs]
    usage = f"T.{name}({', '.join([*signature.operands, *attr_names])})"
    if len(args) > len(names) + len(attr_names):
        raise TypeError(f"{usage}: {len(args)} arguments are too many")
    given = dict(zip([*names, *attr_names], args, strict=False))
    for key, value in kwargs.items():
        if key in given or key not in (*names, *attr_names):
            raise TypeError(f"{usage}: {key} is unknown, or given twice")
        given[key] = value
    given = {**dict(signature.defaults), **given}
    optional = {operand.rstrip("?") for operand in signature.operands if operand.endswith("?")}
    missing = [key for key in (*names, *attr_names) if key not in given and key not in optional]
    if missing:
        raise TypeError(f"{usage}: {', '.join(missing)} missing")
    attrs = {key: check(given[key]) for key, check in signature.attrs}
    return {key: given[key] for key in names if key in given}, attrs


def _operand(
    ctx: BodyContext, node: ast.AST, signature: TileSignature, key: str, operands: Mapping[str, Any]
) -> Expr:
    value = operands[key]
    if key not in signature.scalars:
        return view(ctx, node, value)
    if is_number(value):
        assert signature.written is not None
        written = view(ctx, node, operands[signature.written]).type
        assert isinstance(written, TensorType)
        return constant(value, written.dtype)
    return scalar_of(ctx, node, value)


def _check_alike(name: str, signature: TileSignature, values: Mapping[str, Expr]) -> None:
    found = {key: values[key].type for key in signature.alike if isinstance(values.get(key), BufferView)}
    dtypes = {type_.dtype for type_ in found.values() if isinstance(type_, TensorType)}
    if len(dtypes) > 1:
        listed = ", ".join(f"{key}: {type_}" for key, type_ in found.items())
        raise TypeError(f"T.{name} takes buffers of one dtype, got {listed}")


def _check_sync(ctx: BodyContext, mesh: Mesh) -> None:
    """Some barrier serves the mesh, where its levels are known here."""
    levels = ctx.topologies or ()
    known = {level.name for level in levels}
    if all(isinstance(level, Topology) or level in known for level in mesh.topologies):
        classify_sync(mesh, levels)


def _check_mma(atom: MmaAtom, values: Mapping[str, Expr]) -> None:
    """Dtypes and extents that the atom has: acc [m, n], a [m, k], b [k, n]."""
    wanted = {
        "acc": ((atom.sums,), atom.m, atom.n),
        "a": (atom.inputs, atom.m, atom.k),
        "b": (atom.inputs, atom.k, atom.n),
    }
    for key, (dtypes, rows, columns) in wanted.items():
        held = values[key].type
        assert isinstance(held, TensorType)
        fits = len(held.shape) == 2 and held.shape[0] % rows == 0 and held.shape[1] % columns == 0
        if held.dtype not in dtypes or not fits:
            raise TypeError(
                f"T.mma: {key} is {held}, the atom {atom.name} takes {' or '.join(map(str, dtypes))} in tiles of "
                f"[{rows}, {columns}]"
            )
