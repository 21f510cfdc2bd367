"""Elementwise ops: one runtime call per op on what an instance holds."""

from __future__ import annotations

import math

from tilefoundry.codegen.cuda.authored.refusal import NotFollowed
from tilefoundry.codegen.cuda.authored.writer import KernelWriter
from tilefoundry.codegen.cuda.tiles import Part, TileMap
from tilefoundry.ir.core.expr import Call, Constant
from tilefoundry.ir.types import DType, TensorType

__all__ = ["apply_map", "is_map"]

_UNARY = frozenset(
    [
        "neg",
        "abs",
        "logical_not",
        "rsqrt",
        "sqrt",
        "exp",
        "exp2",
        "log",
        "log2",
        "square",
        "ceil",
        "floor",
        "round",
        "sin",
        "cos",
        "erf",
        "relu",
        "sigmoid",
        "silu",
        "tanh",
        "softplus",
    ]
)
_BINARY = frozenset(
    [
        "add",
        "sub",
        "mul",
        "div",
        "floor_div",
        "mod",
        "minimum",
        "maximum",
        "cmp_eq",
        "cmp_ne",
        "cmp_lt",
        "cmp_le",
        "cmp_gt",
        "cmp_ge",
        "logical_and",
        "logical_or",
    ]
)
_OTHER = frozenset(["cast", "clamp", "gelu", "where"])


def is_map(call: Call) -> bool:
    """Whether the op computes each element from its operands' elements at the same place."""
    return call.op.name in _UNARY | _BINARY | _OTHER


def apply_map(to: KernelWriter, call: Call, operands: list[Part | Constant], target: Part, name: str) -> None:
    """Emit the op.

    Raises NotFollowed for operands that are all literals.
    """
    if all(isinstance(operand, Constant) for operand in operands):
        raise NotFollowed(
            f"{to.name}.{name}: tf.{call.op.name} has literals alone as operands; write the number"
        )
    op, given = call.op.name, tuple(operands)
    if op in _UNARY:
        stmt = TileMap("unary", op, given, target)
    elif op in _BINARY:
        stmt = TileMap("binary", op, given, target)
    elif op == "gelu":
        tag = "gelu_tanh" if call.attr("approximate") == "tanh" else "gelu"
        stmt = TileMap("unary", tag, given, target)
    elif op == "clamp":
        stmt = TileMap("clamp", "", given, target, _bounds(call))
    else:
        stmt = TileMap("select" if op == "where" else "cast", "", given, target)
    to.out.append(stmt)


def _bounds(call: Call) -> tuple[float | int, float | int]:
    """Both bounds of a clamp; an open one is the end of the type's range."""
    assert isinstance(call.type, TensorType)
    low, high = call.attr("min_val"), call.attr("max_val")
    least, most = _range(call.type.dtype)
    return (least if low is None else low, most if high is None else high)


def _range(dtype: DType) -> tuple[float | int, float | int]:
    if dtype.is_float:
        return -math.inf, math.inf
    if dtype.kind == "uint":
        return 0, 2**dtype.bits - 1
    return -(2 ** (dtype.bits - 1)), 2 ** (dtype.bits - 1) - 1
