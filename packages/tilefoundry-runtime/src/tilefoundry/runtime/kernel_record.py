"""What is known of one kernel of a built library, for people and tools to read."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["KernelRecord"]


@dataclass(frozen=True, slots=True)
class KernelRecord:
    """One kernel as its code generator describes it. Immutable.

    Nothing launches by it: the library's entry holds its own geometry. A count is None where the code
    generator does not know it.

    Attributes:
        name: the kernel.
        grid: blocks of a launch, as text; an expression where the call decides, such as ``"ceildiv(M, 4)"``.
        block: threads of a block.
        registers: of a thread.
        shared_bytes: shared memory of a block, static and dynamic, in bytes.

    Raises:
        TypeError, ValueError: a field of another kind, or a negative count.
    """

    name: str
    grid: str = ""
    block: int | None = None
    registers: int | None = None
    shared_bytes: int | None = None

    def __post_init__(self) -> None:
        for field in ("name", "grid"):
            if not isinstance(getattr(self, field), str):
                raise TypeError(f"KernelRecord: {field} is text, got {getattr(self, field)!r}")
        for field in ("block", "registers", "shared_bytes"):
            count = getattr(self, field)
            if count is None:
                continue
            if isinstance(count, bool) or not isinstance(count, int):
                raise TypeError(f"KernelRecord {self.name}: {field} is a count or None, got {count!r}")
            if count < 0:
                raise ValueError(f"KernelRecord {self.name}: {field} is at least 0, got {count}")
