"""index_select in a scope: rows whose numbers an instance reads."""

from __future__ import annotations

from dataclasses import replace

from tilefoundry.codegen.cuda.authored.refusal import NotFollowed
from tilefoundry.codegen.cuda.authored.space import Held, Space, mapped_part
from tilefoundry.codegen.cuda.authored.writer import KernelWriter
from tilefoundry.codegen.cuda.tiles import Part, TileGather
from tilefoundry.ir.core.expr import Call, Constant, Var

__all__ = ["gather"]


def gather(
    to: KernelWriter,
    call: Call,
    space: Space,
    groups: tuple[tuple[int, ...], ...],
    index: Part | Constant,
    target: Part,
    name: str,
) -> None:
    """Emit the copy of the rows that ``index`` names; one outside of the table stops the kernel.

    Args:
        index: the row numbers over ``space``, equal along every axis but the selected one.

    Raises NotFollowed for a table in registers.
    """
    source = call.args[0]
    table = to.value(source.name, name) if isinstance(source, Var) else None
    if not isinstance(table, Held) or table.space == "rmem":
        raise NotFollowed(
            f"{to.name}.{name}: tf.index_select picks rows of a table in gmem or smem; bring the table there first"
        )
    assert isinstance(index, Part)
    axis = call.attr("dim")
    to.hazards.before_read(table, name, to.owner_of(table, None, None))
    seen = table.under(table.shape, f"{to.name}.{name}")
    axes = [None if i == axis else group for i, group in enumerate(groups)]
    # The selected axis counts as one element: its place is the row's number.
    flat = replace(seen, shape=tuple(1 if i == axis else n for i, n in enumerate(seen.shape)))
    flat = replace(flat, extents=flat.shape)
    rows = mapped_part(flat, space, axes, f"{to.name}.{name}")
    to.out.append(TileGather(rows, index, target, groups[axis], seen.strides[axis], seen.shape[axis]))
