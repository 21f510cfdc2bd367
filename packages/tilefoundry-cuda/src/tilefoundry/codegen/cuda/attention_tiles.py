"""What the runtime's tiles of an attention are like: its own numbers, for whoever counts blocks and threads."""

from __future__ import annotations

from tilefoundry.ir.types import Dim, DType, TensorType, ceildiv
from tilefoundry.ir.types.dim import product

__all__ = ["RING_THREADS", "attention_blocks", "attention_threads", "has_matrix_tiles", "shared_rows"]

RING_THREADS = 384
"""Of a block in which one warpgroup fetches and two multiply, 64 rows each; its launch gives it shared memory."""

_THREADS = 128
"""Of any other block: four warps of 16 rows each where matrix instructions multiply."""

_RING_DIMS = (64, 128)
"""Dims whose tiles fill the rows of swizzled shared memory."""

_MATRIX_DIMS, _MATRIX_ROWS, _RING_ROWS, _PLAIN_ROWS = 256, 64, 128, 8
"""Most dim that matrix instructions take, rows of a tile with them, of a ring's tile, and without."""


def has_matrix_tiles(dtype: DType, dim: Dim, width: Dim) -> bool:
    """Whether matrix instructions multiply queries and keys of ``dim`` and weigh values of ``width``."""
    fit = all(isinstance(n, int) and n % 16 == 0 and 0 < n <= _MATRIX_DIMS for n in (dim, width))
    return fit and dtype in (DType.f16, DType.bf16)


def shared_rows(q: TensorType, k: TensorType) -> Dim:
    """Queries that share keys."""
    heads, shared = q.shape[1], k.shape[1]
    per = heads // shared if isinstance(heads, int) and isinstance(shared, int) and shared else 1
    return product((per, q.shape[2]))


def attention_threads(q: TensorType, k: TensorType, width: Dim, plain: bool) -> int:
    """Threads of a block.

    Args:
        width: of values.
        plain: whether queries, keys and values lie in memory, all keys count, and they are taken in one part.
    """
    rows, dim = shared_rows(q, k), q.shape[3]
    many = not isinstance(rows, int) or rows > _MATRIX_ROWS
    fits = has_matrix_tiles(q.dtype, dim, width) and dim in _RING_DIMS and width in _RING_DIMS
    return RING_THREADS if many and fits and plain else _THREADS


def attention_blocks(q: TensorType, k: TensorType, width: Dim, parts: int, threads: int) -> Dim:
    """As many as there are tiles of rows and ``parts`` of the keys; blocks take them in turn."""
    matrix_rows = _RING_ROWS if threads == RING_THREADS else _MATRIX_ROWS
    rows = matrix_rows if has_matrix_tiles(q.dtype, q.shape[3], width) else _PLAIN_ROWS
    blocks = product((q.shape[0], k.shape[1], ceildiv(shared_rows(q, k), rows), parts))
    return max(blocks, 1) if isinstance(blocks, int) else blocks
