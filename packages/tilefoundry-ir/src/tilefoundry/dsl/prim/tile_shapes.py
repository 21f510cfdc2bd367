"""Extents of the operands of tile-level ops."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tilefoundry.ir.types import Dim, TensorType
from tilefoundry.ir.types.dim import product, proven_equal

__all__ = ["check_tile_shapes"]

Operands = Mapping[str, Any]


def check_tile_shapes(name: str, operands: Operands, attrs: Mapping[str, Any]) -> None:
    """TypeError where the extents of a tile op's operands do not fit.

    Args:
        name: the op.
        operands: operand -> its type.
        attrs: the op's attributes.
    """
    check = _CHECKS.get(name)
    if check is not None:
        check(name, operands, attrs)


def _one_size(name: str, operands: Operands, attrs: Mapping[str, Any]) -> None:
    src, dst = operands["src"], operands["dst"]
    if not proven_equal(product(src.shape), product(dst.shape)):
        raise TypeError(f"T.{name} moves every element: src is {src}, dst {dst}; their sizes must be equal")


def _one_shape(name: str, operands: Operands, attrs: Mapping[str, Any]) -> None:
    src, dst = operands["src"], operands["dst"]
    if not _alike(src.shape, dst.shape):
        raise TypeError(f"T.{name}: src is {src}, dst {dst}; they must have one shape")


def _norm(name: str, operands: Operands, attrs: Mapping[str, Any]) -> None:
    _one_shape(name, operands, attrs)
    src, weight = operands["src"], operands["weight"]
    if not src.rank or not _alike(weight.shape, src.shape[-1:]):
        raise TypeError(
            f"T.{name}: src is {src}, weight {weight}; one weight per element of the last axis is needed"
        )


def _broadcast(name: str, operands: Operands, attrs: Mapping[str, Any]) -> None:
    dst = operands["dst"]
    for key in ("lhs", "rhs"):
        given = operands[key]
        pairs = zip(reversed(given.shape), reversed(dst.shape), strict=False)
        if given.rank > dst.rank or not all(a == 1 or proven_equal(a, b) for a, b in pairs):
            raise TypeError(f"T.{name}: {key} is {given}, dst {dst}; extents must be equal or 1")


def _reduced(name: str, operands: Operands, attrs: Mapping[str, Any]) -> None:
    src, dst = operands["src"], operands["dst"]
    assert isinstance(src, TensorType)
    for axis in attrs["axes"]:
        if not -src.rank <= axis < src.rank:
            raise TypeError(f"T.{name}: src is {src}, there is no axis {axis}")
    axes = {axis % src.rank for axis in attrs["axes"]}
    kept = tuple(1 if axis in axes else extent for axis, extent in enumerate(src.shape))
    dropped = tuple(extent for axis, extent in enumerate(src.shape) if axis not in axes)
    if not (_alike(dst.shape, kept) or _alike(dst.shape, dropped)):
        listed = ", ".join(map(str, dropped))
        raise TypeError(
            f"T.{name}: src is {src}, dst {dst}; without the axes {attrs['axes']} dst is [{listed}]"
        )


def _alike(left: tuple[Dim, ...], right: tuple[Dim, ...]) -> bool:
    return len(left) == len(right) and all(proven_equal(a, b) for a, b in zip(left, right, strict=True))


_CHECKS: dict[str, Callable[[str, Operands, Mapping[str, Any]], None]] = {
    "copy": _one_size,
    "copy_async": _one_size,
    "unary": _one_shape,
    "clamp": _one_shape,
    "relu": _one_shape,
    "rms_norm": _norm,
    "binary": _broadcast,
    "reduce": _reduced,
}
