"""Types of values: tensors and tuples of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Union

from tilefoundry.ir.types.dim import Dim, DimExpr, DimVar, bounds, dim_vars, evaluate_dim, product
from tilefoundry.ir.types.dtype import DType
from tilefoundry.ir.types.storage import StorageKind
from tilefoundry.ir.types.written import as_entries

__all__ = ["TensorType", "TupleType", "Type", "scalar", "type_dim_vars"]


@dataclass(frozen=True, slots=True)
class TensorType:
    """A tensor's shape, element type, layout and storage; rank 0 is a scalar.

    Args:
        shape: extents, each an int >= 0, a ``DimVar`` or an expression of them that cannot be negative.
        dtype: a ``DType`` or its name.
        layout: a ``ShardLayout`` or ``Layout`` record; None is dense row-major and not distributed.
        storage: a ``StorageKind`` or its name.

    Raises:
        TypeError, ValueError: an extent, dtype or storage that is none; the message says which.
    """

    shape: tuple[Dim, ...]
    dtype: DType
    layout: Any | None = None
    storage: StorageKind = StorageKind.UNDECIDED

    def __post_init__(self) -> None:
        object.__setattr__(
            self,
            "shape",
            tuple(_checked_extent(dim) for dim in as_entries("a shape is a tuple of extents", self.shape)),
        )
        object.__setattr__(self, "dtype", DType.from_name(self.dtype))
        object.__setattr__(self, "storage", StorageKind.from_name(self.storage))

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> Dim:
        """Number of elements."""
        return product(self.shape)

    @property
    def is_static(self) -> bool:
        """True where every extent is an integer."""
        return all(isinstance(dim, int) for dim in self.shape)

    def with_shape(self, shape: tuple[Dim, ...]) -> TensorType:
        """The same dtype and storage under another shape, with no layout."""
        return TensorType(shape, self.dtype, None, self.storage)

    def with_dtype(self, dtype: DType | str) -> TensorType:
        """The same shape, layout and storage in another dtype."""
        return replace(self, dtype=DType.from_name(dtype))

    def concrete_shape(self, env: Mapping[str, int]) -> tuple[int, ...]:
        """The shape as integers; ``env`` maps each DimVar's name to its value."""
        return tuple(evaluate_dim(dim, env) for dim in self.shape)

    def same_value_type(self, other: object) -> bool:
        """True where shape and dtype agree; layout and storage do not count."""
        return isinstance(other, TensorType) and (self.shape, self.dtype) == (other.shape, other.dtype)

    def __str__(self) -> str:
        text = f"{self.dtype}[{', '.join(map(str, self.shape))}]"
        if self.layout is not None:
            text += f" @ {self.layout}"
        return text


@dataclass(frozen=True, slots=True)
class TupleType:
    """An ordered group of values, such as the results of ``split`` or of a function with two outputs."""

    elements: tuple[Type, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "elements", tuple(self.elements))
        for element in self.elements:
            if not isinstance(element, (TensorType, TupleType)):
                raise TypeError(f"a TupleType holds types, got {element!r}")

    def same_value_type(self, other: object) -> bool:
        """True where both have as many elements and these agree in shape and dtype."""
        return (
            isinstance(other, TupleType)
            and len(self.elements) == len(other.elements)
            and all(a.same_value_type(b) for a, b in zip(self.elements, other.elements, strict=True))
        )

    def __str__(self) -> str:
        return f"tuple[{', '.join(map(str, self.elements))}]"


Type = Union[TensorType, TupleType]


def scalar(dtype: DType | str) -> TensorType:
    """The rank-0 tensor type of ``dtype``."""
    return TensorType((), DType.from_name(dtype))


def type_dim_vars(type_: Type) -> tuple[DimVar, ...]:
    """Every DimVar that a type's shapes mention, each once, in order."""
    if isinstance(type_, TupleType):
        parts = [var for element in type_.elements for var in type_dim_vars(element)]
    else:
        parts = [var for dim in type_.shape for var in dim_vars(dim)]
    return tuple(dict.fromkeys(parts))


def _checked_extent(dim: object) -> Dim:
    if isinstance(dim, (DimVar, DimExpr)):
        if bounds(dim)[1] < 0:
            raise ValueError(f"the extent {dim} is negative for every value of its variables")
        return dim
    if isinstance(dim, bool) or not hasattr(dim, "__index__"):
        raise TypeError(f"an extent is an int, a DimVar or an expression of them, got {dim!r}")
    value = dim.__index__()  # type: ignore[attr-defined]  # checked on the line above
    if value < 0:
        raise ValueError(f"an extent cannot be negative, got {value}")
    return value
