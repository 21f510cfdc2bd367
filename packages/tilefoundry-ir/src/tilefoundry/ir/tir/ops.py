"""Names of the ops that TIR knows; back ends hold one emitter per name."""

from __future__ import annotations

from dataclasses import dataclass

from tilefoundry.ir.core.kinds import BinaryKind, UnaryKind

__all__ = ["SCALAR_OPS", "TILE_OPS", "ScalarOp", "TileOp"]


@dataclass(frozen=True, slots=True)
class ScalarOp:
    """A scalar function: how many operands it takes, and a rough cost in scalar operations."""

    name: str
    arity: int
    cost: int = 1


_COSTLY = {"exp": 8, "exp2": 8, "log": 12, "log2": 12, "sin": 20, "cos": 20, "erf": 16, "rsqrt": 6, "sqrt": 4}

SCALAR_OPS: dict[str, ScalarOp] = {
    op.name: op
    for op in (
        *(ScalarOp(kind.value, 1, _COSTLY.get(kind.value, 1)) for kind in UnaryKind),
        *(
            ScalarOp(kind.value, 2, 4 if kind.value in ("div", "floor_div", "mod") else 1)
            for kind in BinaryKind
        ),
        ScalarOp("relu", 1),
        ScalarOp("sigmoid", 1, 14),
        ScalarOp("silu", 1, 15),
        ScalarOp("tanh", 1, 18),
        ScalarOp("softplus", 1, 24),
        ScalarOp("gelu", 1, 20),
        ScalarOp("gelu_tanh", 1, 24),
        ScalarOp("clamp", 1, 2),
        ScalarOp("cast", 1),
        ScalarOp("select", 3),
        ScalarOp("copy", 1, 0),
        ScalarOp("bounded", 1),
    )
}
"""Scalar functions by name: the elementwise ops of HIR, ``select`` (a where) and ``copy``."""


@dataclass(frozen=True, slots=True)
class TileOp:
    """A whole-tensor op: how many of its trailing view operands it writes."""

    name: str
    writes: int = 1


TILE_OPS: dict[str, TileOp] = {
    op.name: op
    for op in (
        TileOp("alloc_tensor"),
        TileOp("tensor_view"),
        TileOp("ptr_of"),
        TileOp("memory_span"),
        TileOp("copy"),
        TileOp("fill"),
        TileOp("insert_window"),
        TileOp("copy_async"),
        TileOp("cp_async_commit", 0),
        TileOp("cp_async_wait", 0),
        TileOp("binary"),
        TileOp("unary"),
        TileOp("clamp"),
        TileOp("reduce"),
        TileOp("relu"),
        TileOp("rms_norm"),
        TileOp("mma"),
        TileOp("sync", 0),
        TileOp("argmax"),
        TileOp("topk", 2),
        TileOp("index_add"),
        TileOp("index_copy"),
        TileOp("rope"),
        TileOp("grouped_matmul"),
        TileOp("attention"),
        TileOp("conv2d"),
    )
}
"""Tile-level ops by name; each is one public entry of a target's C++ runtime."""
