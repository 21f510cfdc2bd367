"""The header of a safetensors file, read and written with the standard library alone.

The file is: 8 bytes little-endian length, that many bytes of JSON, then the data. Everything that the JSON
says is checked against the file before any tensor is looked at.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from types import MappingProxyType
from typing import BinaryIO

from .errors import CheckpointError

MAX_HEADER = 100_000_000
LFS_MARK = b"version https://git-lfs"

BITS = MappingProxyType(
    {
        "BOOL": 8, "U8": 8, "I8": 8, "U16": 16, "I16": 16, "U32": 32, "I32": 32, "U64": 64, "I64": 64,
        "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8,
        "F16": 16, "BF16": 16, "F32": 32, "F64": 64, "C64": 64,
    }
)  # fmt: skip
"""Bits of one element, by the format's dtype names."""


class HeaderError(CheckpointError):
    """The file is no readable safetensors file; the subclasses tell why."""


class NotSafetensors(HeaderError):
    """The file holds something else: a Git-LFS pointer, or bytes that are no header."""


class TruncatedFile(HeaderError):
    """The file ends before what its header promises."""


class DuplicateKey(HeaderError):
    """A name occurs twice in the header."""


class BadOffsets(HeaderError):
    """A tensor's byte range overlaps another's, leaves the data, or disagrees with its dtype and shape."""


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """One tensor: dtype name, shape, and its bytes ``[begin, end)`` counted from ``Header.data_offset``."""

    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int

    @property
    def nbytes(self) -> int:
        """Length of the tensor's bytes."""
        return self.end - self.begin


@dataclass(frozen=True, slots=True)
class Header:
    """All tensors by name in file order of the header, where the data begins, and the free-form metadata."""

    tensors: Mapping[str, TensorEntry]
    data_offset: int
    metadata: Mapping[str, str]

    def span(self, name: str) -> tuple[int, int]:
        """Absolute byte range of a tensor in the file.

        Raises:
            KeyError: there is none of that name.
        """
        entry = self.tensors[name]
        return self.data_offset + entry.begin, self.data_offset + entry.end


def read_header(path: str | os.PathLike[str]) -> Header:
    """The checked header of the file at ``path``.

    Raises:
        FileNotFoundError, IsADirectoryError: no such file, or a folder.
        OSError: the file cannot be opened for another reason.
        NotSafetensors, TruncatedFile, DuplicateKey, BadOffsets: see the classes; each message names the file.
    """
    where = os.fspath(path)
    with _opened(where) as file:
        size = os.fstat(file.fileno()).st_size
        start = file.read(len(LFS_MARK) + 8)
        length = _header_length(where, start, size)
        file.seek(8)
        text = file.read(length)
    if len(text) < length:
        raise TruncatedFile(f"{where}: truncated: the header has {length} bytes, {len(text)} are there")
    raw = _parse(where, text)
    metadata = _metadata(where, raw.pop("__metadata__", {}))
    tensors = {name: _entry(where, name, value) for name, value in raw.items()}
    _check_ranges(where, tensors, size - 8 - length)
    return Header(MappingProxyType(tensors), 8 + length, MappingProxyType(metadata))


def _opened(where: str) -> BinaryIO:
    try:
        return open(where, "rb")
    except FileNotFoundError:
        raise FileNotFoundError(f"{where} does not exist; give the path of a safetensors file") from None
    except IsADirectoryError:
        raise IsADirectoryError(f"{where} is a folder; give the path of a safetensors file in it") from None


def _header_length(where: str, start: bytes, size: int) -> int:
    if start.startswith(LFS_MARK):
        raise NotSafetensors(f"{where}: is a Git-LFS pointer, not the checkpoint; fetch it with git lfs pull")
    if size < 8:
        raise TruncatedFile(f"{where}: truncated: {size} bytes, a safetensors file has at least 8")
    length = int.from_bytes(start[:8], "little")
    if length > MAX_HEADER:
        raise NotSafetensors(
            f"{where}: not a safetensors file: a header of {length} bytes is beyond {MAX_HEADER}"
        )
    if 8 + length > size:
        if start[8:9] == b"{":
            raise TruncatedFile(
                f"{where}: truncated: the header ends at byte {8 + length}, the file at {size}"
            )
        raise NotSafetensors(f"{where}: not a safetensors file: its first bytes are {start[:8]!r}")
    return length


def _parse(where: str, text: bytes) -> dict[str, object]:
    def unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
        out = dict(pairs)
        if len(out) != len(pairs):
            names = [name for name, _ in pairs]
            twice = sorted({name for name in names if names.count(name) > 1})
            raise DuplicateKey(f"{where}: the header lists {', '.join(map(repr, twice))} more than once")
        return out

    try:
        raw = json.loads(text.decode("utf-8"), object_pairs_hook=unique)
    except DuplicateKey:
        raise
    except (ValueError, RecursionError) as error:
        raise NotSafetensors(f"{where}: not a safetensors file: the header is no JSON ({error})") from None
    if not isinstance(raw, dict):
        raise NotSafetensors(f"{where}: not a safetensors file: the header is a JSON {type(raw).__name__}")
    return raw


def _metadata(where: str, value: object) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(v, str) for v in value.values()):
        raise NotSafetensors(f"{where}: __metadata__ must map strings to strings, got {value!r}")
    return value


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _entry(where: str, name: str, value: object) -> TensorEntry:
    if not isinstance(value, dict) or not {"dtype", "shape", "data_offsets"} <= value.keys():
        raise NotSafetensors(f"{where}: {name}: expected dtype, shape and data_offsets, got {value!r}")
    dtype, shape, offsets = value["dtype"], value["shape"], value["data_offsets"]
    if not isinstance(dtype, str) or dtype not in BITS:
        raise NotSafetensors(f"{where}: {name}: unknown dtype {dtype!r}; known: {', '.join(BITS)}")
    if not isinstance(shape, list) or not all(map(_is_count, shape)):
        raise NotSafetensors(f"{where}: {name}: shape must list extents, got {shape!r}")
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(map(_is_count, offsets)):
        raise BadOffsets(f"{where}: {name}: data_offsets must be two byte counts, got {offsets!r}")
    entry = TensorEntry(dtype, tuple(shape), offsets[0], offsets[1])
    wanted = tensor_nbytes(dtype, entry.shape)
    if entry.nbytes != wanted:
        raise BadOffsets(
            f"{where}: {name}: {dtype}{list(shape)} takes {wanted} bytes, "
            f"data_offsets {offsets} span {entry.nbytes}"
        )
    return entry


def _check_ranges(where: str, tensors: Mapping[str, TensorEntry], data: int) -> None:
    end, before = 0, ""
    for name, entry in sorted(tensors.items(), key=lambda item: (item[1].begin, item[1].end)):
        if entry.nbytes and entry.begin < end:
            raise BadOffsets(f"{where}: {name} begins at {entry.begin}, inside {before}, which ends at {end}")
        if entry.end > data:
            raise TruncatedFile(
                f"{where}: truncated: {name} ends at byte {entry.end} of the data, the file holds {data}"
            )
        if entry.nbytes:
            end, before = entry.end, name


def tensor_nbytes(dtype: str, shape: Sequence[int]) -> int:
    """Bytes of a tensor of the format's ``dtype`` name; packed types round up to whole bytes."""
    return -(-prod(shape) * BITS[dtype] // 8)


def encode_header(
    tensors: Mapping[str, tuple[str, Sequence[int]]],
    metadata: Mapping[str, str] | None = None,
    align: int = 8,
) -> tuple[bytes, Header]:
    """The leading bytes of a file that holds ``tensors`` (name: dtype, shape) back to back, and their Header.

    The data begins at a multiple of ``align`` bytes.

    Raises:
        ValueError: an unknown dtype name, a negative extent, or a tensor named ``__metadata__``.
    """
    entries: dict[str, TensorEntry] = {}
    position = 0
    for name, (dtype, shape) in tensors.items():
        if name == "__metadata__" or dtype not in BITS or not all(map(_is_count, shape)):
            raise ValueError(f"encode_header: {name}: cannot write {dtype}{list(shape)} under this name")
        end = position + tensor_nbytes(dtype, shape)
        entries[name] = TensorEntry(dtype, tuple(shape), position, end)
        position = end
    described: dict[str, object] = {"__metadata__": dict(metadata)} if metadata else {}
    for name, entry in entries.items():
        offsets = [entry.begin, entry.end]
        described[name] = {"dtype": entry.dtype, "shape": list(entry.shape), "data_offsets": offsets}
    text = json.dumps(described, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-(8 + len(text)) % align)
    header = Header(MappingProxyType(entries), 8 + len(text), MappingProxyType(dict(metadata or {})))
    return len(text).to_bytes(8, "little") + text, header
