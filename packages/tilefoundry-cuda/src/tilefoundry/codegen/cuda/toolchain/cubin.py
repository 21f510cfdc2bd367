"""What a compiled image says of its kernels: registers and memories, read from its ELF sections.

Names and codes are those of NVIDIA's image format: ``.nv.info`` holds records of (kind, symbol, value) for the whole
image, ``.text.<kernel>``, ``.nv.shared.<kernel>`` and ``.nv.constant0.<kernel>`` are a kernel's own.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from tilefoundry.codegen.toolchain import ToolchainError

__all__ = ["Image", "KernelResources", "read_image"]

_HEADER = struct.Struct("<4s5B7xHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RECORD = struct.Struct("<BBH")
_PAIR = struct.Struct("<II")

_CUDA_MACHINE = 190
_SYMBOLS = 2
_OBJECT = 1
# Forms of a record: without value, a byte, two bytes, a run of bytes whose length follows.
_SHORT_FORMS = (1, 2, 3)
# From compute capability 9.0 on the system keeps the first KiB of a block's memory, and images count it in.
_KEPT_SECTION = ".nv.shared.reserved.0"
_KEPT = 1024
_REGISTERS = 0x2F
_STACK = 0x12


@dataclass(frozen=True, slots=True)
class KernelResources:
    """What one kernel takes.

    Attributes:
        registers: of a thread.
        shared_bytes: static shared memory of a block, as the driver counts it; what a launch adds is not in the
            image's tables.
        local_bytes: of a thread, for spilled registers, arrays and the frames of called functions.
        constant_bytes: of the bank that holds its parameters.
    """

    registers: int
    shared_bytes: int
    local_bytes: int
    constant_bytes: int


@dataclass(frozen=True, slots=True)
class Image:
    """Kernels by symbol, and the bytes of every global object by symbol."""

    kernels: dict[str, KernelResources]
    objects: dict[str, int]


@dataclass(frozen=True, slots=True)
class _Section:
    name: str
    kind: int
    offset: int
    size: int
    link: int


@dataclass(frozen=True, slots=True)
class _Symbol:
    name: str
    kind: int
    size: int


def read_image(cubin: bytes) -> Image:
    """The tables of a cubin.

    Raises:
        ToolchainError: bytes that are no image of a CUDA compiler, or whose tables are cut.
    """
    try:
        sections = _sections(cubin)
        table = next((one for one in sections if one.kind == _SYMBOLS), None)
        symbols = [] if table is None else list(_symbols(cubin, table, sections[table.link]))
        return _image(cubin, sections, symbols)
    except (struct.error, IndexError, ValueError) as error:
        raise ToolchainError(f"a compiled image of {len(cubin)} bytes is damaged: {error}") from error


def _image(cubin: bytes, sections: list[_Section], symbols: list[_Symbol]) -> Image:
    sizes = {section.name: section.size for section in sections}
    info = next((section for section in sections if section.name == ".nv.info"), None)
    registers: dict[str, int] = {}
    stacks: dict[str, int] = {}
    for kind, symbol, value in () if info is None else _records(cubin, info):
        if kind in (_REGISTERS, _STACK):
            (registers if kind == _REGISTERS else stacks)[symbols[symbol].name] = value
    kept = _KEPT if _KEPT_SECTION in sizes else 0
    names = [s.name.removeprefix(".text.") for s in sections if s.name.startswith(".text.")]
    kernels = {
        name: KernelResources(
            registers[name],
            max(sizes.get(f".nv.shared.{name}", 0) - kept, 0),
            stacks.get(name, 0),
            sizes.get(f".nv.constant0.{name}", 0),
        )
        for name in names
        if name in registers
    }
    return Image(kernels, {one.name: one.size for one in symbols if one.kind == _OBJECT})


def _sections(cubin: bytes) -> list[_Section]:
    header = _HEADER.unpack_from(cubin)
    if header[0] != b"\x7fELF" or header[1:3] != (2, 1) or header[7] != _CUDA_MACHINE:
        raise ToolchainError(
            f"a compiled image of {len(cubin)} bytes begins with {cubin[:4]!r} and is no 64-bit ELF file for CUDA"
        )
    start, count, names_at = header[11], header[17], header[18]
    rows = [_SECTION.unpack_from(cubin, start + i * _SECTION.size) for i in range(count)]
    names = rows[names_at][4]
    return [_Section(_text(cubin, names + row[0]), row[1], row[4], row[5], row[6]) for row in rows]


def _symbols(cubin: bytes, table: _Section, names: _Section) -> Iterator[_Symbol]:
    for i in range(table.size // _SYMBOL.size):
        name, info, _, _, _, size = _SYMBOL.unpack_from(cubin, table.offset + i * _SYMBOL.size)
        yield _Symbol(_text(cubin, names.offset + name), info & 15, size)


def _records(cubin: bytes, info: _Section) -> Iterator[tuple[int, int, int]]:
    """(kind, symbol's number, value) of every record that is a pair."""
    at, end = info.offset, info.offset + info.size
    while at < end:
        form, kind, length = _RECORD.unpack_from(cubin, at)
        at += _RECORD.size
        if form in _SHORT_FORMS:
            continue
        if length == _PAIR.size:
            yield kind, *_PAIR.unpack_from(cubin, at)
        at += length


def _text(cubin: bytes, at: int) -> str:
    return cubin[at : cubin.index(b"\0", at)].decode()
