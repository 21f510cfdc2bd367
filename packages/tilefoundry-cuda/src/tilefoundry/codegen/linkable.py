"""What code generation hands to the linker."""

from __future__ import annotations

from dataclasses import dataclass

from tilefoundry.ir.tir import PrimFunction
from tilefoundry.runtime import EntryABI, KernelRecord
from tilefoundry.target import Target

__all__ = ["LinkableModule"]


@dataclass(frozen=True, slots=True)
class LinkableModule:
    """Functions of one target as source.

    Attributes:
        target: what it is for.
        language: ``"c++"`` or ``"cuda"``.
        source: the text.
        functions: the TIR that it was written from.
        entry: ABI of the exported entry.
        kernels: its launches in order, as far as they are known before anything is compiled.
    """

    target: Target
    language: str
    source: str
    functions: tuple[PrimFunction, ...]
    entry: EntryABI
    kernels: tuple[KernelRecord, ...] = ()
