"""Shape and type rules that several operations share."""

from __future__ import annotations

from collections.abc import Sequence

from tilefoundry.ir.layout import IntTuple, congruent, flatten, unflatten

from ..dtypes import BFloat16, DType, Float16, Float32, Int32, Int64, Scalar
from ..tensor import Tensor
from .operation import Attributes, Operand, Result

ARITHMETIC = (Float32, Float16, BFloat16, Int32, Int64)


def promoted(name: str, operands: Sequence[Operand]) -> DType:
    """The type that arithmetic on ``operands`` gives.

    Two integers give the wider, checked for overflow; a float with an integer that float; two different
    16-bit floats Float32. A Python int keeps the tensor's type; a Python float or bool keeps a float
    tensor's type and makes an integer tensor Float32.

    Raises:
        TypeError: a type that takes part in no arithmetic.
    """
    types = [o.dtype() for o in operands if isinstance(o, Tensor)]
    for dtype in types:
        if dtype not in ARITHMETIC:
            raise TypeError(f"{name}: {dtype} takes part in no arithmetic; cast it to {_home(dtype)} first")
    out = types[0]
    for dtype in types[1:]:
        out = _pair(out, dtype)
    weak = [o for o in operands if not isinstance(o, Tensor)]
    if not out.is_float and any(isinstance(o, (bool, float)) for o in weak):
        return Float32
    return out


def _home(dtype: DType) -> DType:
    return BFloat16 if dtype.is_float else Int32


def _pair(a: DType, b: DType) -> DType:
    if a is b:
        return a
    if a.is_float != b.is_float:
        return a if a.is_float else b
    return Float32 if a.is_float else Int64


def float_only(name: str, tensor: Tensor) -> DType:
    """The type of a tensor of floats.

    Raises:
        TypeError: integers, booleans or 8-bit floats.
    """
    dtype = tensor.dtype()
    if dtype.kind != "float":
        raise TypeError(f"{name}: expected Float32, Float16 or BFloat16, got {dtype}; cast it first")
    return dtype


def broadcast(name: str, shapes: Sequence[IntTuple]) -> IntTuple:
    """The shape of an elementwise result: the same tree everywhere, each leaf equal or 1.

    Raises:
        ValueError: trees of different form, or leaves that neither agree nor are 1.
    """
    first = shapes[0]
    leaves = list(flatten(first))
    for shape in shapes[1:]:
        if not congruent(_modes(first), _modes(shape)):
            raise ValueError(f"{name}: shapes {first} and {shape} are trees of different form; reshape one")
        for k, extent in enumerate(flatten(shape)):
            if extent != leaves[k] and 1 not in (extent, leaves[k]):
                raise ValueError(
                    f"{name}: shapes {first} and {shape} differ in leaf {k}: {leaves[k]} and {extent}"
                )
            leaves[k] = max(leaves[k], extent)
    return unflatten(tuple(leaves), first)


def _modes(shape: IntTuple) -> IntTuple:
    # A single extent and a tuple of one mode have the same coordinates.
    return shape if isinstance(shape, tuple) else (shape,)


def elementwise(name: str):
    """The rule of an arithmetic operation that broadcasts."""

    def infer(operands: Sequence[Operand], _: Attributes) -> Result:
        dtype = promoted(name, operands)
        shapes = [o.shape.extents for o in operands if isinstance(o, Tensor)]
        for scalar in (o for o in operands if not isinstance(o, Tensor)):
            _check_weak(name, scalar, dtype)
        return Result(broadcast(name, shapes), dtype)

    return infer


def _check_weak(name: str, scalar: Scalar, dtype: DType) -> None:
    if dtype.kind == "int" and not dtype.range()[0] <= scalar <= dtype.range()[1]:
        raise OverflowError(f"{name}: the scalar {scalar} is outside the range of {dtype}")


def mode_axis(name: str, tensor: Tensor, mode: int) -> int:
    """``mode`` as a position counted from 0.

    Raises:
        TypeError: no integer.
        ValueError: outside the rank.
    """
    if isinstance(mode, bool) or not isinstance(mode, int):
        raise TypeError(f"{name}: mode must be an integer, got {mode!r}")
    rank = tensor.shape.rank
    if not -rank <= mode < rank:
        raise ValueError(f"{name}: mode {mode} is outside a tensor of {rank} modes")
    return mode % rank


def around(tensor: Tensor, mode: int) -> tuple[int, int, int]:
    """Sizes before, in and after a mode; in the order of coordinates the one before is fastest."""
    sizes = [1, 1, 1]
    for k, extents in enumerate(tensor.shape.modes()):
        for extent in flatten(extents):
            sizes[(k > mode) + (k >= mode)] *= extent
    return sizes[0], sizes[1], sizes[2]


def replace_mode(tensor: Tensor, mode: int, extents: IntTuple) -> IntTuple:
    """The tensor's shape with one mode replaced."""
    modes = tensor.shape.modes()
    if not isinstance(tensor.shape.extents, tuple):
        return extents
    return (*modes[:mode], extents, *modes[mode + 1 :])
