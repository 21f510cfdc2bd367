"""The block around a kernel's statements: row number, what a tail block must not do."""

from __future__ import annotations

from dataclasses import dataclass

from tilefoundry.codegen.cpu.schedule.scope import as_index, index_var
from tilefoundry.ir.core.expr import Var
from tilefoundry.ir.passes import Names
from tilefoundry.ir.tir import Apply, Let, TirStmt, Verbatim
from tilefoundry.ir.types import Dim, DimVar, DType, scalar

__all__ = ["Block", "dim_of", "index_let"]


def dim_of(var: Var) -> DimVar:
    """An index variable as a dim."""
    return DimVar(var.name, 0, 2**62)


def index_let(name: str, text: str) -> Let:
    """An index that the runtime gives."""
    return Let(index_var(name), Verbatim(scalar(DType.i64), text))


@dataclass(slots=True)
class Block:
    """Rows dealt out to blocks of ``rows`` by ``lanes`` threads.

    Attributes:
        names: gives out names.
        items: number of rows.
        rows, lanes: extents of a block.
    """

    names: Names
    items: Dim
    rows: int
    lanes: int
    item: Var = None  # type: ignore[assignment]  # set below
    lane: Var = None  # type: ignore[assignment]  # set below
    live: Var | None = None

    def __post_init__(self) -> None:
        self.item, self.lane = index_var(self.names.fresh("item")), index_var(self.names.fresh("lane"))

    def opening(self) -> list[TirStmt]:
        """Statements that name the calling thread's row and lane. Beyond the last row a thread reads the last
        row and stores nothing, so that it can take part in joins."""
        block, thread = "program_id<TopologyScope::cta>()", "program_id<TopologyScope::thread>()"
        own = index_var(self.names.fresh("own_item")) if self._ragged() else self.item
        lane = "0" if self.lanes == 1 else f"{thread} % {self.lanes}"
        row = f"{thread} / {self.lanes}" if self.lanes > 1 else thread
        place = f"index_t({block})" if self.rows == 1 else f"index_t({block}) * {self.rows} + {row}"
        out: list[TirStmt] = [index_let(self.lane.name, lane), index_let(own.name, place)]
        if self._ragged():
            boolean = scalar(DType.bool_)
            self.live = Var(boolean, self.names.fresh("live"))
            out.append(
                Let(self.live, Apply(boolean, "cmp_lt", (as_index(dim_of(own)), as_index(self.items))))
            )
            last = as_index(self.items - 1)
            out.append(Let(self.item, Apply(scalar(DType.i64), "select", (self.live, own, last))))
        return out

    def _ragged(self) -> bool:
        if self.rows == 1:
            return False
        return not (isinstance(self.items, int) and self.items % self.rows == 0)
