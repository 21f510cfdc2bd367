"""The product of code generation."""

from __future__ import annotations

from dataclasses import dataclass

from tilefoundry.runtime.abi import EntryABI
from tilefoundry.runtime.kernel_record import KernelRecord

__all__ = ["LinkedModule"]


@dataclass(frozen=True, slots=True)
class LinkedModule:
    """A shared library and what it exports. Immutable.

    Attributes:
        library_path: the library's file.
        source: host and device text that it was built from.
        entry: the ABI of the exported entry; its name is the symbol.
        target: the back end's name, ``"cpu"`` or ``"cuda"``.
        arch: what the code runs on, such as ``"sm_90a"`` or ``"x86-64-v3"``; empty where that is not known.
        kernels: what the code generator says of each kernel, in launch order; empty where it says nothing.
    """

    library_path: str
    source: str
    entry: EntryABI
    target: str = "cpu"
    arch: str = ""
    kernels: tuple[KernelRecord, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "kernels", tuple(self.kernels))
