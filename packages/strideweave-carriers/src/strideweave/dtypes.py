"""Element types. Each is a process-wide singleton; torch is loaded where its own type is first asked for."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Literal

from .floats import BFLOAT16, FLOAT8_E4M3, FLOAT8_E5M2, FLOAT16, FloatFormat

if TYPE_CHECKING:
    import torch

Scalar = bool | int | float
Kind = Literal["float", "float8", "int", "bool"]


@dataclass(frozen=True, slots=True, eq=False)
class DType:
    """An element type: its name, size in bytes, kind and the name of torch's twin.

    ``float8`` types are stored, moved and cast; they take part in no arithmetic.
    """

    name: str
    itemsize: int
    kind: Kind
    torch_name: str
    code: str = ""
    format: FloatFormat | None = None

    @property
    def is_float(self) -> bool:
        """Whether values are floating point (8-bit formats included): these may carry gradients."""
        return self.kind in ("float", "float8")

    def torch(self) -> torch.dtype:
        """torch's twin of this type."""
        return _torch_dtype(self.torch_name)

    def check(self, value: object) -> Scalar:
        """``value`` if a slot of this type can hold it (floats are rounded when stored).

        Raises:
            TypeError: ``value`` is of another kind; a bool is no number.
            OverflowError: an integer outside the type's range.
        """
        if self.kind == "bool":
            if not isinstance(value, bool):
                raise TypeError(f"{self.name} slot: expected a bool, got {type(value).__name__} {value!r}")
            return value
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            if hasattr(value, "__index__") and not isinstance(value, bool):
                return self.check(int(value))  # type: ignore[call-overload] # __index__ was seen
            raise TypeError(f"{self.name} slot: expected a number, got {type(value).__name__} {value!r}")
        if self.kind == "int":
            return self._check_range(value)
        return value

    def _check_range(self, value: int | float) -> int:
        if not isinstance(value, int):
            raise TypeError(f"{self.name} slot: expected an integer, got {value!r}; cast or round it first")
        low, high = self.range()
        if not low <= value <= high:
            raise OverflowError(f"{self.name} slot: {value} is outside [{low}, {high}]")
        return value

    def range(self) -> tuple[int, int]:
        """Smallest and largest value of an integer type."""
        bits = 8 * self.itemsize
        return (0, 2**bits - 1) if self.name == "UInt8" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)

    def pack(self, value: Scalar) -> bytes:
        """The little-endian bytes of ``value``, rounded to this type."""
        if self.format is not None:
            return self.format.encode(float(value)).to_bytes(self.itemsize, "little")
        try:
            return struct.pack("<" + self.code, value)
        except OverflowError:
            return struct.pack("<" + self.code, math.copysign(math.inf, value))

    def unpack(self, data: bytes | bytearray | memoryview) -> Scalar:
        """The value of ``itemsize`` little-endian bytes."""
        if self.format is not None:
            return self.format.decode(int.from_bytes(data, "little"))
        return struct.unpack("<" + self.code, data)[0]

    def round(self, value: Scalar) -> Scalar:
        """``value`` as a slot of this type would hold it."""
        return self.unpack(self.pack(value))

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Callable[[object], DType], tuple[str]]:
        # Pickled and copied by name, so that it stays a singleton.
        return as_dtype, (self.name,)


@cache
def _torch_dtype(name: str) -> torch.dtype:
    import torch

    return getattr(torch, name)


Float32 = DType("Float32", 4, "float", "float32", "f")
Float16 = DType("Float16", 2, "float", "float16", format=FLOAT16)
BFloat16 = DType("BFloat16", 2, "float", "bfloat16", format=BFLOAT16)
Float8E4M3 = DType("Float8E4M3", 1, "float8", "float8_e4m3fn", format=FLOAT8_E4M3)
Float8E5M2 = DType("Float8E5M2", 1, "float8", "float8_e5m2", format=FLOAT8_E5M2)
Int64 = DType("Int64", 8, "int", "int64", "q")
Int32 = DType("Int32", 4, "int", "int32", "i")
Int8 = DType("Int8", 1, "int", "int8", "b")
UInt8 = DType("UInt8", 1, "int", "uint8", "B")
Bool = DType("Bool", 1, "bool", "bool", "?")

ALL = (Float32, Float16, BFloat16, Float8E4M3, Float8E5M2, Int64, Int32, Int8, UInt8, Bool)
SAFETENSORS = {
    "F32": Float32,
    "F16": Float16,
    "BF16": BFloat16,
    "F8_E4M3": Float8E4M3,
    "F8_E5M2": Float8E5M2,
    "I64": Int64,
    "I32": Int32,
    "I8": Int8,
    "U8": UInt8,
    "BOOL": Bool,
}
"""The element types by the names that safetensors headers use."""


def as_dtype(value: object, what: str = "dtype") -> DType:
    """``value`` itself if it is an element type, or the one of that name.

    Raises:
        TypeError: neither; the message lists the names.
    """
    if isinstance(value, DType):
        return value
    for dtype in ALL:
        if value == dtype.name:
            return dtype
    names = ", ".join(d.name for d in ALL)
    raise TypeError(f"{what}: got {value!r}, expected one of {names}")


def from_torch_dtype(value: torch.dtype) -> DType:
    """The element type whose torch twin is ``value``.

    Raises:
        TypeError: there is none; the message lists those there are.
    """
    name = str(value).removeprefix("torch.")
    for dtype in ALL:
        if dtype.torch_name == name:
            return dtype
    raise TypeError(
        f"dtype: torch's {name} has no twin here; expected {', '.join(d.torch_name for d in ALL)}"
    )
