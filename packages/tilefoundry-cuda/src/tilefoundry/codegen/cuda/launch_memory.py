"""Which memory a host's launches read and write, where buffers share it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from tilefoundry.codegen.cpu.emit.source import written_buffers
from tilefoundry.codegen.cuda.statements import inner_statements
from tilefoundry.ir.core.expr import Var
from tilefoundry.ir.tir import BufferView, Launch, Load, PrimFunction, Slab, TirStmt

__all__ = ["Places", "buffer_of", "loads_in", "shared_places", "touched", "with_slots"]

Places = Mapping[str, object]
"""Buffers that may be one memory under several names -> what they share."""


def shared_places(entry: PrimFunction, inplace: Iterable[tuple[int, int]]) -> Places:
    """Outputs that a caller may pass as the input that they replace a window of."""
    first = len(entry.params) - entry.output_count
    return {entry.params[first + output].name: entry.params[given].name for output, given in inplace}


def with_slots(stmts: Sequence[TirStmt], places: Places) -> Places:
    """``places`` with the buffers of a slab, whose slots serve one after the other."""
    slab = next((stmt for stmt in stmts if isinstance(stmt, Slab)), None)
    return places if slab is None else {**places, **{buffer.name: slot for buffer, slot in slab.buffers}}


def touched(kernel: PrimFunction, launch: Launch, places: Places) -> tuple[set[object], set[object]]:
    """Memory that a launch of ``kernel`` reads, and that it writes."""
    targets = written_buffers(tuple(inner_statements(kernel.body)))
    read: set[object] = set()
    written: set[object] = set()
    for param, arg in zip(kernel.params, launch.args, strict=True):
        name = buffer_of(arg).name
        (written if param.name in targets else read).add(places.get(name, name))
    return read, written


def buffer_of(arg: Any) -> Var:
    """The buffer that an argument of a launch is, or lies in."""
    return arg.buffer if isinstance(arg, BufferView) else arg


def loads_in(value: object) -> Iterator[Load]:
    """Every read of an element in statements, however deep."""
    if isinstance(value, Load):
        yield value
    inner: list[object] = []
    if isinstance(value, (tuple, list)):
        inner = list(value)
    elif is_dataclass(value) and not isinstance(value, type):
        inner = [getattr(value, field.name) for field in fields(value)]
    for one in inner:
        yield from loads_in(one)
