"""Which attentions the runtime computes in one kernel, and what of them is known when they are compiled."""

from __future__ import annotations

from dataclasses import dataclass

from tilefoundry.ir.core.expr import Call, Var
from tilefoundry.ir.types import Dim, DType, TensorType
from tilefoundry.ir.types.dim import product

__all__ = ["THREADS", "TOGETHER", "AttentionForm", "has_kernel"]

THREADS = 256
"""Of a block."""
TOGETHER = 8
"""Blocks that share the keys of a row, where the chip has clusters."""

_MOST_ROWS = 8
_MOST_BYTES = 40 * 1024
_LONGEST = 512
_FLOATS = frozenset({DType.f16, DType.bf16, DType.f32, DType.f64})


@dataclass(frozen=True, slots=True)
class AttentionForm:
    """What the runtime's ``ops::AttentionForm`` says.

    Attributes:
        dim: elements of a query and of a key.
        width: elements of a value.
        rows: queries that a block works on at a time.
        queries: of all heads that share keys.
    """

    dim: int
    width: int
    rows: int
    queries: Dim
    scale: float
    softcap: float | None
    window: int | None
    causal: bool

    @staticmethod
    def of(call: Call) -> AttentionForm | None:
        """The form of a ``tf.attention``; None where the runtime has none, and the op is spelled out."""
        q, k, v = (arg.type for arg in call.args[:3])
        assert isinstance(q, TensorType) and isinstance(k, TensorType) and isinstance(v, TensorType)
        dim, width, heads, shared = q.shape[3], v.shape[3], q.shape[1], k.shape[1]
        known = (dim, width, heads, shared)
        if not all(isinstance(n, int) and n > 0 for n in known) or max(dim, width) > _LONGEST:  # type: ignore[type-var]  # ints
            return None
        if q.dtype not in _FLOATS or not all(isinstance(arg, Var) for arg in call.args):
            return None
        queries = product((heads // shared, q.shape[2]))  # type: ignore[operator]  # ints
        rows = _rows(queries, width, 8 if q.dtype is DType.f64 else 4)  # type: ignore[arg-type]  # an int
        attrs = (call.attr(name) for name in ("scale", "softcap", "window", "causal"))
        return AttentionForm(dim, width, rows, queries, *attrs) if rows else None  # type: ignore[arg-type]  # ints

    def cxx(self) -> str:
        """The form as a value in device code."""
        kinds = f"{self.dim}, {self.width}, {self.rows}, program_threads"
        causal = "true" if self.causal else "false"
        numbers = f"{self.scale!r}, {self.softcap or 0.0!r}, {self.window or 0}, {causal}"
        return f"ops::AttentionForm<{kinds}>{{ops::Scores{{{numbers}}}}}"


def has_kernel(call: Call) -> bool:
    """Whether ``call`` is an attention that one kernel computes."""
    return call.op.name == "attention" and AttentionForm.of(call) is not None


def _rows(queries: Dim, width: int, size: int) -> int:
    """Rows at a time: no more than there are, and as many as the sums of a block's warps leave room for."""
    rows = _MOST_ROWS
    while isinstance(queries, int) and rows > 1 and rows >= 2 * max(queries, 1):
        rows //= 2
    while rows and (THREADS // 32 + 1) * rows * width * size > _MOST_BYTES:
        rows //= 2
    return rows
