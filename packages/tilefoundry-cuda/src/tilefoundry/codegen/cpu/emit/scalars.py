"""C++ text of dims, literals and scalar expressions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from tilefoundry.codegen.identifiers import mangle
from tilefoundry.ir.core.expr import Constant, Expr, Var
from tilefoundry.ir.tir import Apply, BufferView, IndexValue, Load, PointerOf, Verbatim, compute_dtype
from tilefoundry.ir.types import Dim, DimVar, DType, TensorType
from tilefoundry.ir.types.dim import DimExpr, FloorDiv

__all__ = ["dim_text", "dtype_name", "expr_text", "literal", "view_text"]


def dtype_name(dtype: DType) -> str:
    """The runtime's name of an element type."""
    return "bool" if dtype.is_bool else dtype.name


def dim_text(dim: Dim, names: Mapping[str, str]) -> str:
    """``dim`` as a 64-bit expression; ``names`` maps variables to identifiers."""
    if isinstance(dim, int):
        return str(dim) if abs(dim) < 2**31 else f"INT64_C({dim})"
    if isinstance(dim, DimVar):
        return names.get(dim.name) or mangle(dim.name)
    assert isinstance(dim, DimExpr)
    text = ""
    for monomial, coefficient in dim.terms:
        factors = [_atom_text(atom, names) for atom in monomial]
        size = abs(coefficient)
        if size != 1 or not factors:
            factors.append(str(size) if size < 2**31 else f"INT64_C({size})")
        term = " * ".join(factors)
        text += (
            (" + " if coefficient > 0 else " - ") + term if text else term if coefficient > 0 else f"-{term}"
        )
    return text


def _atom_text(atom: DimVar | FloorDiv, names: Mapping[str, str]) -> str:
    if isinstance(atom, DimVar):
        return dim_text(atom, names)
    return f"(({dim_text(atom.numerator, names)}) / {atom.divisor})"


def _factor(dim: Dim, names: Mapping[str, str]) -> str:
    """``dim`` so that it can stand in a product or quotient."""
    text = dim_text(dim, names)
    return f"({text})" if " " in text or text.startswith("-") else text


def literal(value: int | float | bool, dtype: DType) -> str:
    """A constant of the compute type of ``dtype``."""
    kind = compute_dtype(dtype)
    if kind.is_bool:
        return "true" if value else "false"
    if not kind.is_float:
        return _integer(int(value), kind)
    number = float(value)
    if math.isnan(number):
        return f"std::numeric_limits<{kind.name}>::quiet_NaN()"
    if math.isinf(number):
        return f"{'-' if number < 0 else ''}std::numeric_limits<{kind.name}>::infinity()"
    if kind is DType.f32 and abs(number) > 3.4028235677973366e38:
        return f"{'-' if number < 0 else ''}std::numeric_limits<f32>::infinity()"
    return repr(number) + ("f" if kind is DType.f32 else "")


def _integer(value: int, dtype: DType) -> str:
    if dtype is DType.i64:
        return "INT64_MIN" if value == -(2**63) else f"INT64_C({value})"
    return f"{dtype.name}({value})"


def view_text(view: BufferView, names: Mapping[str, str]) -> str:
    """A ``make_view`` call."""
    assert isinstance(view.type, TensorType)
    base = names.get(view.buffer.name) or mangle(view.buffer.name)
    if view.offset != 0:
        base = f"{base} + {dim_text(view.offset, names)}"
    if not view.type.rank:
        return f"make_view({base})"
    shape = ", ".join(dim_text(dim, names) for dim in view.type.shape)
    strides = ", ".join(dim_text(dim, names) for dim in view.strides)
    return f"make_view<{view.type.rank}>({base}, {{{shape}}}, {{{strides}}})"


def expr_text(expr: Expr, names: Mapping[str, str]) -> str:
    """A scalar expression; operators come in parentheses where they stand inside another."""
    if isinstance(expr, Var):
        return names.get(expr.name) or mangle(expr.name)
    if isinstance(expr, Constant):
        assert isinstance(expr.type, TensorType)
        return literal(expr.value, expr.type.dtype)
    if isinstance(expr, IndexValue):
        return dim_text(expr.value, names)
    if isinstance(expr, Load):
        return _load(expr, names)
    if isinstance(expr, BufferView):
        return view_text(expr, names)
    if isinstance(expr, Verbatim):
        return expr.text
    if isinstance(expr, PointerOf):
        base = names.get(expr.buffer.name) or mangle(expr.buffer.name)
        return base if expr.offset == 0 else f"{base} + {dim_text(expr.offset, names)}"
    assert isinstance(expr, Apply)
    return _apply(expr, names)


def _load(load: Load, names: Mapping[str, str]) -> str:
    buffer = load.buffer
    assert isinstance(buffer.type, TensorType)
    element = f"{names.get(buffer.name) or mangle(buffer.name)}[{dim_text(load.index, names)}]"
    dtype = buffer.type.dtype
    return element if compute_dtype(dtype) is dtype else f"widen({element})"


def _inner(expr: Expr, names: Mapping[str, str]) -> str:
    """``expr`` as an operand."""
    text = expr_text(expr, names)
    if isinstance(expr, IndexValue):
        return _factor(expr.value, names)
    operator = isinstance(expr, Apply) and (expr.op in _INFIX or expr.op in ("select", "neg"))
    return f"({text})" if operator or text.startswith("-") else text


_INFIX = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "div": "/",
    "cmp_eq": "==",
    "cmp_ne": "!=",
    "cmp_lt": "<",
    "cmp_le": "<=",
    "cmp_gt": ">",
    "cmp_ge": ">=",
    "logical_and": "&&",
    "logical_or": "||",
}
_ON_INDICES = {"floor_div": "/", "mod": "%", **_INFIX}


def _apply(expr: Apply, names: Mapping[str, str]) -> str:
    special = _SPECIAL.get(expr.op)
    if special is not None:
        return special(expr, names)
    if all(_is_index(arg) for arg in expr.args) and expr.op in _ON_INDICES:
        left, right = (_inner(arg, names) for arg in expr.args)
        return f"{left} {_ON_INDICES[expr.op]} {right}"
    operand = expr.args[0].type
    assert isinstance(operand, TensorType)
    plain = operand.dtype.is_float or expr.op.startswith(("cmp", "logical"))
    if expr.op in _INFIX and plain:
        left, right = (_inner(arg, names) for arg in expr.args)
        return f"{left} {_INFIX[expr.op]} {right}"
    return f"ops::{expr.op}_op{{}}({', '.join(expr_text(arg, names) for arg in expr.args)})"


def _is_index(expr: Expr) -> bool:
    """True for a value that cannot be negative where it is divided, and cannot overflow."""
    return isinstance(expr, IndexValue)


def _cast(expr: Apply, names: Mapping[str, str]) -> str:
    dtype = _attr(expr, "dtype")
    converted = f"convert<{dtype_name(dtype)}>({expr_text(expr.args[0], names)})"
    return converted if compute_dtype(dtype) is dtype else f"widen({converted})"


def _select(expr: Apply, names: Mapping[str, str]) -> str:
    condition, a, b = (_inner(arg, names) for arg in expr.args)
    return f"{condition} ? {a} : {b}"


def _neg(expr: Apply, names: Mapping[str, str]) -> str:
    (arg,) = expr.args
    assert isinstance(arg.type, TensorType)
    return (
        f"-{_inner(arg, names)}" if arg.type.dtype.is_float else f"ops::neg_op{{}}({expr_text(arg, names)})"
    )


def _clamp(expr: Apply, names: Mapping[str, str]) -> str:
    assert isinstance(expr.type, TensorType)
    dtype = expr.type.dtype
    low, high = (_bound(_attr(expr, name), dtype, name == "min_val") for name in ("min_val", "max_val"))
    value = expr_text(expr.args[0], names)
    return f"ops::clamp_op<{dtype.name}>{{{literal(low, dtype)}, {literal(high, dtype)}}}({value})"


def _bound(value: int | float | None, dtype: DType, is_low: bool) -> int | float:
    """A bound inside the type's range; an open one is the range's end."""
    if dtype.is_float:
        return (-math.inf if is_low else math.inf) if value is None else float(value)
    bits = dtype.bits - (dtype.kind == "int")
    least, most = (-(2**bits) if dtype.kind == "int" else 0), 2**bits - 1
    if value is None:
        return least if is_low else most
    return min(max(int(value), least), most)


def _bounded(expr: Apply, names: Mapping[str, str]) -> str:
    fault = _attr(expr, "fault")
    index = expr_text(expr.args[0], names)
    return f"{names.get(fault.name) or mangle(fault.name)}.bounded({index}, {dim_text(_attr(expr, 'extent'), names)})"


def _minimum(expr: Apply, names: Mapping[str, str]) -> str:
    if all(isinstance(arg, IndexValue) for arg in expr.args):
        left, right = (_inner(arg, names) for arg in expr.args)
        return f"{left} < {right} ? {left} : {right}"
    return f"ops::minimum_op{{}}({', '.join(expr_text(arg, names) for arg in expr.args)})"


def _attr(expr: Apply, name: str) -> Any:
    return dict(expr.attrs)[name]


_SPECIAL: dict[str, Callable[[Apply, Mapping[str, str]], str]] = {
    "cast": _cast,
    "select": _select,
    "neg": _neg,
    "clamp": _clamp,
    "bounded": _bounded,
    "minimum": _minimum,
    "copy": lambda expr, names: expr_text(expr.args[0], names),
}
