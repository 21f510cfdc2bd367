"""Memory that instances share: who wrote what since the last barrier, and the barriers that reads need."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tilefoundry.codegen.cuda.authored.refusal import NotFollowed
from tilefoundry.codegen.cuda.authored.space import Held
from tilefoundry.codegen.cuda.tiles import BARRIER, TileSync, TileText
from tilefoundry.ir.core.expr import Var
from tilefoundry.ir.types import Dim, DType, TensorType

__all__ = ["BARRIER_TYPE", "Hazards", "Uniform"]

BARRIER_TYPE = TensorType((2,), DType.i32)
"""The counter pair of a grid barrier."""

Owner = Any


@dataclass(frozen=True, slots=True)
class Uniform:
    """Whether all instances take the turns of the loops around a statement together."""

    threads: bool = True
    blocks: bool = True
    loop: str = ""


@dataclass(slots=True)
class Hazards:
    """Accesses since the last barrier. One per kernel.

    Attributes:
        emit: takes the barriers, in place.
        threads: of a block.
        blocks: of the grid; 1 where there is one.
        written, read: buffer -> the CTA ownerships under which it was accessed; shared memory has one.
        uniform: of the loops around what comes next.
        meets_grid: a grid barrier was needed.
        touched: every buffer that was accessed.
        staged: shared memory with asynchronous copies under way.
    """

    emit: Callable[[Any], None]
    threads: int
    blocks: Dim
    written: dict[str, set[Owner]] = field(default_factory=dict)
    read: dict[str, set[Owner]] = field(default_factory=dict)
    uniform: Uniform = field(default_factory=Uniform)
    meets_grid: bool = False
    touched: set[str] = field(default_factory=set)
    staged: set[str] = field(default_factory=set)

    def before_read(self, held: Held, name: str, owner: Owner = None) -> None:
        """Wait for writes of other instances, where there were any, and for copies under way."""
        if held.buffer.name in self.staged:
            self.emit(TileText("ops::cp_async_wait<0>();"))
            self.staged.clear()
        self._wait(self.written.get(held.buffer.name), owner, held, name)
        self.read.setdefault(held.buffer.name, set()).add(owner)
        self.touched.add(held.buffer.name)

    def before_write(self, held: Held, name: str, owner: Owner = None) -> None:
        """Wait for reads and for overlapping writes of other instances; then note the write."""
        self._wait(self.read.get(held.buffer.name), owner, held, name)
        self.written.setdefault(held.buffer.name, set()).add(owner)
        self.touched.add(held.buffer.name)

    def _wait(self, others: set[Owner] | None, owner: Owner, held: Held, name: str) -> None:
        if not others:
            return
        if held.space == "gmem" and self.blocks != 1 and others != {owner}:
            self.grid(name)
        else:
            self.block(name)

    def block(self, name: str) -> None:
        """All threads of the block meet."""
        if self.threads == 1:
            self._clear(False)
            return
        if not self.uniform.threads:
            raise NotFollowed(
                f"{name}: threads would have to meet inside the loop over {self.uniform.loop}, which hands its tiles "
                "to threads in turn, so that some take fewer turns; hand tiles to a cta axis, or move it out"
            )
        self.emit(TileSync("warp" if self.threads <= 32 else "cta"))
        self._clear(False)

    def grid(self, name: str) -> None:
        """All blocks meet."""
        if not (self.uniform.threads and self.uniform.blocks):
            raise NotFollowed(
                f"{name}: what one CTA wrote is read by another inside the loop over {self.uniform.loop}, which hands "
                "its tiles out in turn, so that not every CTA would reach the barrier; read it after the loop"
            )
        self.meets_grid = True
        self.emit(TileSync("grid", Var(BARRIER_TYPE, BARRIER)))
        self._clear(True)

    def _clear(self, everything: bool) -> None:
        """Forget what a barrier has ordered; a block's barrier orders what its own CTA did."""
        for table in (self.written, self.read):
            for buffer, owners in list(table.items()):
                if everything or owners == {None} or self.blocks == 1:
                    del table[buffer]

    def meet(self, name: str) -> None:
        """Everybody meets: all blocks, or the threads of the only one."""
        if self.blocks == 1:
            self.block(name)
        else:
            self.grid(name)
