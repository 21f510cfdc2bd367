"""arange, zeros, full_like, shape_of, rank, workspace, prefetch: values that need no operand's elements."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilefoundry.ir.core.op import Attr, Op
from tilefoundry.ir.errors import TypeRuleError
from tilefoundry.ir.hir import attributes
from tilefoundry.ir.hir.conversion import convert
from tilefoundry.ir.hir.placement import elementwise_type
from tilefoundry.ir.hir.rules import require_index, require_tensor
from tilefoundry.ir.hir.torch_dtypes import torch_dtype
from tilefoundry.ir.types import Dim, DType, StorageKind, TensorType, Type, bounds, ceildiv, scalar

# torch is imported where it is first needed: typing programs must not load it.

__all__ = ["OPS", "integer_limits"]


def integer_limits(dtype: DType) -> tuple[int, int]:
    """Least and greatest value of an integer type."""
    if dtype.kind == "uint":
        return 0, 2**dtype.bits - 1
    return -(2 ** (dtype.bits - 1)), 2 ** (dtype.bits - 1) - 1


def _type_attribute(value: Any) -> TensorType | tuple[Dim, ...]:
    if isinstance(value, TensorType):
        return value
    if isinstance(value, (tuple, list)):
        return attributes.dims(value)
    raise TypeError("a tensor type such as Tensor[(4, N), 'f32'], or a shape, is needed")


def _normalize_declared(op: str) -> Any:
    def normalize(types: tuple[Type, ...], attrs: Mapping[str, Any]) -> dict[str, Any]:
        """One tensor type, whether it was given whole or as shape, dtype and storage."""
        declared, dtype, storage = attrs["type"], attrs["dtype"], attrs["storage"]
        rest = {name: value for name, value in attrs.items() if name not in ("type", "dtype", "storage")}
        if isinstance(declared, TensorType):
            if dtype is not None or storage is not None:
                raise TypeRuleError(f"tf.{op}: {declared} already says dtype and storage; give them once")
            return {"type": declared, **rest}
        if dtype is None:
            raise TypeRuleError(f"tf.{op}: the shape alone does not say the dtype; give dtype=")
        kept = StorageKind.UNDECIDED if storage is None else storage
        return {"type": TensorType(declared, dtype, None, kept), **rest}

    return normalize


def _type_arange(types: tuple[Type, ...], attrs: Mapping[str, Any]) -> Type:
    start, end, dtype = attrs["start"], attrs["end"], attrs["dtype"]
    count = end - start
    if bounds(count)[0] < 0:
        raise TypeRuleError(
            f"tf.arange: from start {start} to end {end} is not upwards in every case; "
            "as in range, the arguments are (end), (start, end) or (start, end, step)"
        )
    result = TensorType((ceildiv(count, attrs["step"]),), dtype)
    require_index("arange", "the result", result)
    return result


def _evaluate_arange(ctx: Any, values: tuple[Any, ...], attrs: Mapping[str, Any]) -> Any:
    import torch

    start, end = ctx.dim(attrs["start"]), ctx.dim(attrs["end"])
    return torch.arange(start, end, attrs["step"], dtype=torch_dtype(attrs["dtype"]), device=ctx.device)


def _type_declared(types: tuple[Type, ...], attrs: Mapping[str, Any]) -> Type:
    return attrs["type"]


def _evaluate_zeros(ctx: Any, values: tuple[Any, ...], attrs: Mapping[str, Any]) -> Any:
    return _filled(ctx, attrs["type"], 0)


def _evaluate_workspace(ctx: Any, values: tuple[Any, ...], attrs: Mapping[str, Any]) -> Any:
    return _filled(ctx, attrs["type"], 0 if attrs["zero"] else _poison(attrs["type"].dtype))


def _poison(dtype: DType) -> float | int:
    """A value that shows in a result which reads memory that nothing wrote."""
    if dtype.is_float:
        return float("nan")
    return 1 if dtype.is_bool else integer_limits(dtype)[1]


def _filled(ctx: Any, type_: TensorType, value: float | int) -> Any:
    """A tensor of ``type_`` whose elements are ``value``; zeros of f8e8m0, which has none, are bytes of 0."""
    import torch

    if value == 0:
        return torch.zeros(ctx.shape(type_), dtype=torch_dtype(type_.dtype), device=ctx.device)
    return _full(ctx.shape(type_), value, type_.dtype, ctx.device)


def _full(shape: tuple[int, ...], value: float | int, dtype: DType, device: Any) -> Any:
    """Every element ``value``, rounded once to ``dtype``."""
    import torch

    if not dtype.is_float:
        return torch.full(shape, value, dtype=torch_dtype(dtype), device=device)
    one = torch.tensor(float(value), dtype=torch.float64, device=device)
    return convert(one, DType.f64, dtype).expand(shape).clone(memory_format=torch.contiguous_format)


def _type_full_like(types: tuple[Type, ...], attrs: Mapping[str, Any]) -> Type:
    x, value = require_tensor("full_like", "x", types[0]), attrs["value"]
    if x.dtype.is_bool != isinstance(value, bool) or (x.dtype.is_integer and isinstance(value, float)):
        raise TypeRuleError(f"tf.full_like: the value {value!r} does not fit x, which is {x}")
    if x.dtype.is_integer and not integer_limits(x.dtype)[0] <= value <= integer_limits(x.dtype)[1]:
        raise TypeRuleError(f"tf.full_like: {value} is outside {x.dtype}, the dtype of x")
    return elementwise_type("full_like", x.shape, x.dtype, (("x", x),))


def _evaluate_full_like(ctx: Any, values: tuple[Any, ...], attrs: Mapping[str, Any]) -> Any:
    return _full(tuple(values[0].shape), attrs["value"], ctx.result_type.dtype, ctx.device)


def _literal(value: Any) -> int | float | bool:
    if not isinstance(value, (bool, int, float)):
        raise TypeError(f"a number or a bool is needed, got {value!r}")
    return value


def _type_shape_of(types: tuple[Type, ...], attrs: Mapping[str, Any]) -> Type:
    return TensorType((require_tensor("shape_of", "x", types[0]).rank,), DType.i64)


def _evaluate_shape_of(ctx: Any, values: tuple[Any, ...], attrs: Mapping[str, Any]) -> Any:
    import torch

    return torch.tensor(tuple(values[0].shape), dtype=torch.int64, device=ctx.device)


def _type_rank(types: tuple[Type, ...], attrs: Mapping[str, Any]) -> Type:
    require_tensor("rank", "x", types[0])
    return scalar(DType.i64)


def _evaluate_rank(ctx: Any, values: tuple[Any, ...], attrs: Mapping[str, Any]) -> Any:
    import torch

    return torch.tensor(values[0].dim(), dtype=torch.int64, device=ctx.device)


def _type_prefetch(types: tuple[Type, ...], attrs: Mapping[str, Any]) -> Type:
    return require_tensor("prefetch", "x", types[0])


def _evaluate_prefetch(ctx: Any, values: tuple[Any, ...], attrs: Mapping[str, Any]) -> Any:
    return values[0]


_DECLARED = (
    Attr("type", convert=_type_attribute),
    Attr("dtype", None, attributes.optional(attributes.dtype)),
    Attr("storage", None, attributes.optional(StorageKind.from_name)),
)

OPS = (
    Op(
        "arange",
        (),
        _type_arange,
        _evaluate_arange,
        (
            Attr("end", convert=attributes.dim),
            Attr("start", 0, attributes.dim),
            Attr("step", 1, attributes.positive),
            Attr("dtype", DType.i64, attributes.dtype),
        ),
        doc="start, start + step, ... below end, as i32 or i64",
    ),
    Op(
        "zeros",
        (),
        _type_declared,
        _evaluate_zeros,
        _DECLARED,
        normalize=_normalize_declared("zeros"),
        doc="a tensor of the type, or of a shape, dtype and storage, every element 0",
    ),
    Op(
        "full_like",
        ("x",),
        _type_full_like,
        _evaluate_full_like,
        (Attr("value", convert=_literal),),
        doc="value at every place of x, rounded once to its dtype",
    ),
    Op("shape_of", ("x",), _type_shape_of, _evaluate_shape_of, doc="the extents of x as i64"),
    Op("rank", ("x",), _type_rank, _evaluate_rank, doc="the number of axes of x as an i64 scalar"),
    Op(
        "workspace",
        (),
        _type_declared,
        _evaluate_workspace,
        (*_DECLARED, Attr("zero", False, attributes.boolean)),
        normalize=_normalize_declared("workspace"),
        doc="scratch memory of the type, 0 where asked and undefined otherwise (the evaluator fills in NaN "
        "or the greatest integer)",
    ),
    Op(
        "prefetch",
        ("x",),
        _type_prefetch,
        _evaluate_prefetch,
        doc="x; asks for its bytes to be brought near before they are read",
    ),
)
