"""What is known of one kernel launch of a built library, for people and tools to read."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["KernelRecord"]

_TEXTS = ("name", "grid", "path", "symbol")
_COUNTS = (
    "block",
    "registers",
    "shared_bytes",
    "dynamic_shared_bytes",
    "local_bytes",
    "constant_bytes",
)


@dataclass(frozen=True, slots=True, repr=False)
class KernelRecord:
    """One launch of a kernel as its code generator describes it. Immutable.

    Nothing launches by it: the library's entry holds its own geometry. A count is None where the code
    generator does not know it, as for every kernel of a CPU library.

    Attributes:
        name: the kernel.
        grid: blocks of the launch, as text; an expression where the call decides, such as ``"ceildiv(M, 4)"``.
        block: threads of a block.
        registers: of a thread.
        shared_bytes: shared memory of a block, static and dynamic, in bytes.
        path: where it comes from in the program, ``module.function.kernel``.
        symbol: the code that the launch runs, as profilers name it; equal kernels share one.
        dynamic_shared_bytes: the part of ``shared_bytes`` that the launch asks for.
        local_bytes: of a thread, for spilled registers and arrays.
        constant_bytes: of the bank that holds its parameters.

    Raises:
        TypeError, ValueError: a field of another kind, or a negative count.
    """

    name: str
    grid: str = ""
    block: int | None = None
    registers: int | None = None
    shared_bytes: int | None = None
    path: str = ""
    symbol: str = ""
    dynamic_shared_bytes: int | None = None
    local_bytes: int | None = None
    constant_bytes: int | None = None

    def __post_init__(self) -> None:
        for field in _TEXTS:
            if not isinstance(getattr(self, field), str):
                raise TypeError(f"KernelRecord: {field} is text, got {getattr(self, field)!r}")
        for field in _COUNTS:
            count = getattr(self, field)
            if count is None:
                continue
            if isinstance(count, bool) or not isinstance(count, int):
                raise TypeError(f"KernelRecord {self.name}: {field} is a count or None, got {count!r}")
            if count < 0:
                raise ValueError(f"KernelRecord {self.name}: {field} is at least 0, got {count}")

    def __str__(self) -> str:
        """One line: path, geometry and what is known of its resources."""
        return ", ".join([self.path or self.name or "a kernel", *self._known()])

    def __repr__(self) -> str:
        return f"KernelRecord<{self}>"

    def _known(self) -> list[str]:
        parts = [f"grid {self.grid}"] if self.grid else []
        if self.block is not None:
            parts.append(f"block {self.block}")
        if self.registers is not None:
            parts.append(f"{self.registers} registers")
        if self.shared_bytes is not None:
            dynamic = f" ({self.dynamic_shared_bytes} dynamic)" if self.dynamic_shared_bytes else ""
            parts.append(f"{self.shared_bytes} B shared{dynamic}")
        if self.local_bytes is not None:
            parts.append(f"{self.local_bytes} B local")
        if self.constant_bytes is not None:
            parts.append(f"{self.constant_bytes} B constant")
        return parts
