"""Kinds that parametrise op families: the spelled names of reductions, unary and binary functions."""

from __future__ import annotations

from enum import Enum
from typing import TypeVar

__all__ = ["BinaryKind", "ReduceKind", "UnaryKind", "kind_from_name"]


class _Kind(Enum):
    """An enumeration whose look-up of an unknown name lists the names there are."""

    @classmethod
    def _missing_(cls, value: object) -> _Kind:
        raise ValueError(f"unknown {cls.__name__} {value!r}; there are {', '.join(k.value for k in cls)}")


class ReduceKind(_Kind):
    """How a reduction combines elements."""

    SUM = "sum"
    MEAN = "mean"
    MAX = "max"
    MIN = "min"
    ABSMAX = "absmax"


class UnaryKind(_Kind):
    """Elementwise functions of one operand."""

    NEG = "neg"
    ABS = "abs"
    LOGICAL_NOT = "logical_not"
    RSQRT = "rsqrt"
    SQRT = "sqrt"
    EXP = "exp"
    EXP2 = "exp2"
    LOG = "log"
    LOG2 = "log2"
    SQUARE = "square"
    CEIL = "ceil"
    FLOOR = "floor"
    ROUND = "round"
    SIN = "sin"
    COS = "cos"
    ERF = "erf"


class BinaryKind(_Kind):
    """Elementwise functions of two operands that broadcast."""

    ADD = "add"
    SUB = "sub"
    MUL = "mul"
    DIV = "div"
    FLOOR_DIV = "floor_div"
    MOD = "mod"
    MINIMUM = "minimum"
    MAXIMUM = "maximum"
    CMP_EQ = "cmp_eq"
    CMP_NE = "cmp_ne"
    CMP_LT = "cmp_lt"
    CMP_LE = "cmp_le"
    CMP_GT = "cmp_gt"
    CMP_GE = "cmp_ge"
    LOGICAL_AND = "logical_and"
    LOGICAL_OR = "logical_or"


K = TypeVar("K", bound=Enum)


def kind_from_name(kinds: type[K], name: str | K) -> K:
    """The member of ``kinds`` spelled ``name``; a member passes through.

    Raises ValueError listing the names there are.
    """
    return kinds(name)
