"""Attention of many queries as one kernel: tiles of rows and keys on matrix instructions."""

from __future__ import annotations

from tilefoundry.codegen.cpu.schedule.contraction import view_expr
from tilefoundry.codegen.cpu.schedule.kernel import KernelSpec
from tilefoundry.codegen.cpu.schedule.whole import inputs_of
from tilefoundry.codegen.cuda.attention_tiles import (
    attention_blocks,
    attention_threads,
    has_matrix_tiles,
    shared_rows,
)
from tilefoundry.codegen.cuda.schedule.instances import Instances
from tilefoundry.codegen.cuda.statements import TileAttend
from tilefoundry.ir.core.expr import Call, Expr, Var
from tilefoundry.ir.passes import Names
from tilefoundry.ir.tir import (
    Apply,
    Store,
    TileAttention,
    TileSchedule,
    TirStmt,
    compute_dtype,
    sum_dtype,
)
from tilefoundry.ir.types import Dim, DimVar, DType, TensorType, scalar
from tilefoundry.ir.types.dim import product

__all__ = ["is_tiled", "tiled_instances", "tiled_statements"]

_FEW_ROWS = 16
"""Queries that share keys up to which a warp's tile would stay half empty: those read the keys as a stream."""


def is_tiled(call: Call) -> bool:
    """Whether matrix instructions multiply, and there are queries enough for them, or as many as only a call knows."""
    q, k, v = (arg.type for arg in call.args[:3])
    assert isinstance(q, TensorType) and isinstance(k, TensorType) and isinstance(v, TensorType)
    if not has_matrix_tiles(q.dtype, q.shape[3], v.shape[3]):
        return False
    rows = shared_rows(q, k)
    return not isinstance(rows, int) or rows > _FEW_ROWS


def tiled_instances(call: Call) -> Instances:
    """A block for every tile of rows."""
    q, k, v = (arg.type for arg in call.args[:3])
    assert isinstance(q, TensorType) and isinstance(k, TensorType) and isinstance(v, TensorType)
    threads = attention_threads(q, k, v.shape[3], len(call.args) == 3)
    return Instances(attention_blocks(q, k, v.shape[3], 1, threads), (threads,), ("tile", "t"))


def tiled_statements(call: Call, spec: KernelSpec, names: Names) -> tuple[TirStmt, ...]:
    """The one call of the runtime, whose elements are rounded into the result."""
    q, k, v, *lengths = (view_expr(view) for view in inputs_of(call, spec))
    out = view_expr(spec.outputs[0])
    assert isinstance(out.type, TensorType)
    dtype = out.type.dtype
    index = scalar(DType.i64)
    indices = tuple(Var(index, names.fresh(name)) for name in ("batch", "head", "query", "place"))
    output = Var(scalar(sum_dtype(dtype)), names.fresh("mixed"))
    at: Dim = out.offset
    for var, step in zip(indices, out.strides, strict=True):
        at = at + product((DimVar(var.name, 0, 2**62), step))
    value: Expr = output
    if sum_dtype(dtype) is not compute_dtype(dtype):
        value = Apply(scalar(compute_dtype(dtype)), "cast", (output,), (("dtype", dtype),))
    store = Store(Var(TensorType((), dtype), out.buffer.name), at, value)
    attention = TileAttention(
        q, k, v, lengths[0] if lengths else None, call.attr("scale"), call.attr("causal"), call.attr("window"),
        call.attr("softcap"), indices, output, TileSchedule(), (store,),
    )  # fmt: skip
    q_type, k_type, v_type = q.type, k.type, v.type
    assert (
        isinstance(q_type, TensorType) and isinstance(k_type, TensorType) and isinstance(v_type, TensorType)
    )
    dims = (q_type.shape[3], v_type.shape[3])
    threads = attention_threads(q_type, k_type, dims[1], not lengths)
    return (TileAttend(attention, *dims, threads),)  # type: ignore[arg-type,return-value]  # ints; a CUDA statement
