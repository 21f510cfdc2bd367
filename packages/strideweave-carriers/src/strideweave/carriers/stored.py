"""Tensors inside safetensors files: where one lies, and what it holds."""

from __future__ import annotations

import os
from typing import NamedTuple

from tilefoundry.ir.safetensors_header import Header, read_header

from ..dtypes import SAFETENSORS, DType


class Stored(NamedTuple):
    """A tensor of a safetensors file, and the bytes ``[begin, end)`` of it there."""

    path: str
    begin: int
    end: int
    dtype: DType
    shape: tuple[int, ...]


def stored(path: str | os.PathLike[str], name: str, headers: dict[str, Header] | None = None) -> Stored:
    """The tensor ``name`` of a file; ``headers`` are those that were read already, by path.

    Raises:
        KeyError: the file has no such tensor; the message lists some that it has.
        TypeError: the tensor's type has no twin here.
        tilefoundry.ir.safetensors_header.HeaderError: the file is damaged or something else.
    """
    where, known = os.fspath(path), {} if headers is None else headers
    header = known.get(where)
    if header is None:
        header = known[where] = read_header(where)
    if name not in header.tensors:
        names = sorted(header.tensors)
        more = f" and {len(names) - 8} more" if len(names) > 8 else ""
        raise KeyError(f"{where}: has no tensor {name!r}; it has {', '.join(names[:8])}{more}")
    entry = header.tensors[name]
    if entry.dtype not in SAFETENSORS:
        raise TypeError(f"{name}: {entry.dtype} has no twin here; expected one of {', '.join(SAFETENSORS)}")
    return Stored(where, *header.span(name), SAFETENSORS[entry.dtype], tuple(entry.shape))
