"""Coordinates and indices: nested coordinate <-> linear index, first mode fastest."""

from __future__ import annotations

from .inttuple import IntTuple, as_int, compact_strides, product


def crd2idx(crd: IntTuple, shape: IntTuple, stride: IntTuple | None = None) -> int:
    """The index of ``crd``: ``sum(crd[k] * stride[k])``.

    An integer where ``shape`` has a tree counts that tree's coordinates, first mode fastest. Without
    ``stride`` the dense one is meant, so that the result counts coordinates.

    Raises:
        TypeError: ``crd`` has a leaf that is no integer, or a tuple where ``shape`` has an extent.
        ValueError: the ranks differ or a coordinate lies outside its extent.
    """
    return _index(crd, shape, compact_strides(shape) if stride is None else stride)


def _index(crd: IntTuple, shape: IntTuple, stride: IntTuple) -> int:
    if isinstance(crd, (tuple, list)):
        if not isinstance(shape, tuple):
            raise TypeError(f"coordinate: got the tuple {crd} for the extent {shape}; pass an integer")
        if len(crd) != len(shape):
            raise ValueError(f"coordinate: {crd} has {len(crd)} modes, shape {shape} has {len(shape)}")
        return sum(map(_index, crd, shape, stride))
    position = as_int(crd, "coordinate")
    if not 0 <= position < product(shape):
        raise ValueError(f"coordinate: {position} is outside [0, {product(shape)}) of shape {shape}")
    return _count(position, shape, stride)


def _count(position: int, shape: IntTuple, stride: IntTuple) -> int:
    if not isinstance(shape, tuple):
        return position * stride
    total = 0
    for extent, step in zip(shape, stride, strict=True):
        position, digit = divmod(position, product(extent))
        total += _count(digit, extent, step)
    return total


def idx2crd(index: int, shape: IntTuple) -> IntTuple:
    """The coordinate number ``index`` of ``shape``, first mode fastest, as a tree congruent to it.

    Raises:
        TypeError: ``index`` is no integer.
        ValueError: ``index`` is outside ``[0, size(shape))``.
    """
    position = as_int(index, "index")
    if not 0 <= position < product(shape):
        raise ValueError(f"index: {position} is outside [0, {product(shape)}) of shape {shape}")
    return _coordinate(position, shape)


def _coordinate(position: int, shape: IntTuple) -> IntTuple:
    if not isinstance(shape, tuple):
        return position
    out = []
    for extent in shape:
        position, digit = divmod(position, product(extent))
        out.append(_coordinate(digit, extent))
    return tuple(out)
