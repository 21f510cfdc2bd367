"""Element types: one process-wide object per name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

__all__ = ["DType"]


@dataclass(frozen=True, slots=True, eq=False)
class DType:
    """An element type. Instances are singletons, so identity is equality.

    Attributes:
        name: the spelling in programs, such as ``"bf16"``.
        bits: storage bits of one element (``f4e2m1`` has 4; every other type fills whole bytes).
        kind: ``"float"``, ``"int"``, ``"uint"`` or ``"bool"``.
        torch_name: the attribute of ``torch`` that stores it, or None where torch has none.
        safetensors: the code in a safetensors header, or None.
    """

    name: str
    bits: int
    kind: str
    torch_name: str | None
    safetensors: str | None

    f64: ClassVar[DType]
    f32: ClassVar[DType]
    f16: ClassVar[DType]
    bf16: ClassVar[DType]
    fp8e4m3: ClassVar[DType]
    fp8e5m2: ClassVar[DType]
    f8e8m0: ClassVar[DType]
    f4e2m1: ClassVar[DType]
    i64: ClassVar[DType]
    i32: ClassVar[DType]
    i16: ClassVar[DType]
    i8: ClassVar[DType]
    u8: ClassVar[DType]
    bool_: ClassVar[DType]

    @staticmethod
    def from_name(name: str | DType) -> DType:
        """The type called ``name``; a ``DType`` passes through.

        Raises:
            ValueError: no such type; the message lists the names there are.
            TypeError: ``name`` is neither a string nor a ``DType``.
        """
        if isinstance(name, DType):
            return name
        if not isinstance(name, str):
            raise TypeError(f"a dtype is a name or a DType, got {type(name).__name__}: {name!r}")
        found = _BY_NAME.get(name)
        if found is None:
            raise ValueError(f"unknown dtype {name!r}; the dtypes are {', '.join(_BY_NAME)}")
        return found

    @staticmethod
    def names() -> tuple[str, ...]:
        """Every valid name, floats first."""
        return tuple(_BY_NAME)

    @property
    def is_float(self) -> bool:
        """True for every floating-point type, the 8- and 4-bit ones included."""
        return self.kind == "float"

    @property
    def is_integer(self) -> bool:
        """True for signed and unsigned integers; bool is not one."""
        return self.kind in ("int", "uint")

    @property
    def is_bool(self) -> bool:
        """True for ``bool`` alone."""
        return self.kind == "bool"

    @property
    def itemsize(self) -> int:
        """Bytes of one element; a 4-bit element counts as one byte outside packed storage."""
        return max(1, self.bits // 8)

    def __repr__(self) -> str:
        return f"DType({self.name!r})"

    def __str__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[object, ...]:
        return (DType.from_name, (self.name,))

    def __copy__(self) -> DType:
        return self

    def __deepcopy__(self, memo: object) -> DType:
        return self


_BY_NAME: dict[str, DType] = {
    row[0]: DType(*row)
    for row in (
        ("f32", 32, "float", "float32", "F32"),
        ("f16", 16, "float", "float16", "F16"),
        ("bf16", 16, "float", "bfloat16", "BF16"),
        ("fp8e4m3", 8, "float", "float8_e4m3fn", "F8_E4M3"),
        ("fp8e5m2", 8, "float", "float8_e5m2", "F8_E5M2"),
        ("f8e8m0", 8, "float", "float8_e8m0fnu", "F8_E8M0"),
        ("f4e2m1", 4, "float", None, "F4"),
        ("f64", 64, "float", "float64", "F64"),
        ("i8", 8, "int", "int8", "I8"),
        ("u8", 8, "uint", "uint8", "U8"),
        ("i16", 16, "int", "int16", "I16"),
        ("i32", 32, "int", "int32", "I32"),
        ("i64", 64, "int", "int64", "I64"),
        ("bool", 8, "bool", "bool", "BOOL"),
    )
}
for _name, _dtype in _BY_NAME.items():
    setattr(DType, "bool_" if _name == "bool" else _name, _dtype)
