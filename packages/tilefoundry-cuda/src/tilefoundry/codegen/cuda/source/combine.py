"""Text of one ``ops::reduce`` over the threads of a block."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilefoundry.codegen.cuda.statements import Combine
from tilefoundry.ir.core.kinds import ReduceKind

if TYPE_CHECKING:
    from tilefoundry.codegen.cuda.source.statements import DeviceEmitter

__all__ = ["REDUCE_OPS", "write_combine"]

REDUCE_OPS = {
    ReduceKind.SUM: "ops::sum_op",
    ReduceKind.MEAN: "ops::sum_op",
    ReduceKind.MAX: "ops::max_op",
    ReduceKind.MIN: "ops::min_op",
    ReduceKind.ABSMAX: "ops::max_op",
}
"""The runtime's tag for each kind; a mean divides its sum afterwards, absmax takes absolute values before."""


def write_combine(to: DeviceEmitter, stmt: Combine) -> None:
    """``ops::reduce`` of partial values over one axis of the block's threads."""
    rows, lanes = stmt.shape
    other = stmt.shape[1 - stmt.axis]
    count = 1 if stmt.count is None else to.dim(stmt.count)
    op = REDUCE_OPS[stmt.kind]
    attrs = ["shard::S<0>", "shard::S<0>"]
    attrs[stmt.axis] = f"shard::P<{op}>"
    pointer = f"&{to.name(stmt.target)}" + ("" if stmt.count is None else "[0]")
    line = to.out.line
    with to.out.block("{"):
        line(f"using MeshShape_ = cute::Shape<cute::Int<{rows}>, cute::Int<{lanes}>>;")
        line(f"using Mesh_ = cute::Layout<MeshShape_, cute::Stride<cute::Int<{lanes}>, cute::_1>>;")
        line(f"using PartsShape_ = cute::Shape<cute::Int<{other}>, cute::Int<{count}>>;")
        line("using Parts_ = cute::Layout<PartsShape_, cute::Stride<cute::_0, cute::_1>>;")
        line(
            f"auto own_ = cute::make_tensor({pointer}, cute::make_layout(cute::Shape<cute::Int<{count}>>{{}}));"
        )
        line("auto const mesh_ = make_mesh<TopologyScope::thread>(Mesh_{});")
        line(
            f"auto const layout_ = make_shard_layout(Parts_{{}}, cute::tuple<{', '.join(attrs)}>{{}}, mesh_);"
        )
        line("auto const parts_ = make_shard_tensor(own_, Parts_{}, layout_);")
        types = f"{op}, ops::axes<>, decltype(parts_), decltype(own_)"
        line(f"constexpr int bytes_ = ops::reduce_workspace_bytes<{types}>();")
        line("alignas(16) __shared__ unsigned char workspace_[bytes_ > 0 ? bytes_ : 16];")
        line(f"ops::reduce<{op}, ops::axes<>>(parts_, own_, workspace_);")
