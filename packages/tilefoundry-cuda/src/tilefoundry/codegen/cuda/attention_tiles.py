"""What the runtime's tiles of an attention are like: its own numbers, for whoever counts blocks."""

from __future__ import annotations

from tilefoundry.ir.types import Dim, DType, TensorType, ceildiv
from tilefoundry.ir.types.dim import product

__all__ = ["ATTENTION_THREADS", "attention_blocks", "has_matrix_tiles"]

ATTENTION_THREADS = 128
"""Of a block: four warps of 16 rows each where matrix instructions multiply."""

_MATRIX_DIMS, _MATRIX_ROWS, _PLAIN_ROWS = 256, 64, 8
"""Most dim that matrix instructions take, rows of a tile with them, and without."""


def has_matrix_tiles(dtype: DType, dim: Dim, width: Dim) -> bool:
    """Whether matrix instructions multiply queries and keys of ``dim`` and weigh values of ``width``."""
    fit = all(isinstance(n, int) and n % 16 == 0 and 0 < n <= _MATRIX_DIMS for n in (dim, width))
    return fit and dtype in (DType.f16, DType.bf16)


def attention_blocks(q: TensorType, k: TensorType, dim: int, width: int, parts: int) -> Dim:
    """As many as there are tiles of rows and ``parts`` of the keys; blocks take them in turn."""
    heads, shared = q.shape[1], k.shape[1]
    per = heads // shared if isinstance(heads, int) and isinstance(shared, int) and shared else 1
    rows = _MATRIX_ROWS if has_matrix_tiles(q.dtype, dim, width) else _PLAIN_ROWS
    blocks = product((q.shape[0], shared, ceildiv(product((per, q.shape[2])), rows), parts))
    return max(blocks, 1) if isinstance(blocks, int) else blocks
