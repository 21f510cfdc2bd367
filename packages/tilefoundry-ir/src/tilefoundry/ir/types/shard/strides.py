"""Settling the strides of a distributed tensor by the direction in which it moves."""

from __future__ import annotations

from tilefoundry.ir.types.dim import Dim
from tilefoundry.ir.types.shard.layout import Layout, c_order
from tilefoundry.ir.types.shard.shard_layout import ShardLayout
from tilefoundry.ir.types.storage import StorageKind

__all__ = ["engine_strides", "settle_plain", "settle_strides", "shared_strides"]

_DISTANCE = {
    StorageKind.HOST: 0,
    StorageKind.UNDECIDED: 1,
    StorageKind.GMEM: 1,
    StorageKind.SMEM: 2,
    StorageKind.TMEM: 3,
    StorageKind.RMEM: 4,
}


def engine_strides(shard: ShardLayout) -> tuple[Dim, ...]:
    """Strides of instances with engines of their own: 0 on split axes, C-order over the local shape."""
    splits = shard.splits
    local = c_order(shard.local_shape)
    return tuple(0 if axis in splits else step for axis, step in enumerate(local))


def shared_strides(shard: ShardLayout) -> tuple[Dim, ...]:
    """Strides where all instances address one storage: C-order over the canonical global shape."""
    return c_order(shard.shape)


def settle_strides(
    shard: ShardLayout, source: object, before: StorageKind, after: StorageKind
) -> ShardLayout:
    """``shard`` with strides.

    Strides that are given stay. Towards registers (gmem, smem, rmem in this order) every instance gets an
    engine of its own; away from them all share one storage; within one storage the source's form is kept, a
    source that is not distributed being shared.

    Args:
        shard: the layout to settle.
        source: the layout that the value had, or None.
        before: the storage it had; undecided counts as gmem.
        after: the storage it gets.
    """
    if shard.strides is not None:
        return shard
    step = _DISTANCE[after] - _DISTANCE[before]
    own = step > 0 or (step == 0 and isinstance(source, ShardLayout) and source.owns_engines)
    return shard.with_strides(engine_strides(shard) if own else shared_strides(shard))


def settle_plain(layout: Layout) -> Layout:
    """A layout that nothing distributes, with C-order strides where it has none."""
    return layout if layout.strides is not None else Layout(layout.shape, c_order(layout.shape))
