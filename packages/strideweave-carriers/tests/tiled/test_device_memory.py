"""What direct operations take on a device whose places are few. Oracle: the allocator's peak, far below the operand."""

from __future__ import annotations

import pytest
import torch

import strideweave as sw
from strideweave.carriers.tiled_evictable import TiledEvictable

pytestmark = [pytest.mark.gpu]

TILES, TILE, CAPACITY = 64, (64, 4096), 4
BYTES = 4 * TILE[0] * TILE[1]
"""Of one tile: a mebibyte. The operand has 64 of them."""
SLACK = 12 * BYTES
"""For copies of a few tiles, which are made while they are computed with."""


def operand(tiles):
    secondary = sw.CPU(tiles * TILE[0] * TILE[1])
    secondary.flat().normal_()
    carrier = TiledEvictable(sw.CUDA(0), secondary, (tiles, 1), TILE, primary_capacity=CAPACITY)
    return carrier.full_tensor()


def ones(tensor):
    flat = torch.ones(tensor.size(), device="cuda")
    return sw.Tensor(sw.from_torch(flat).carrier, 0, sw.Layout(tensor.shape))


def peak(call):
    """``call``'s result, and the bytes on the device that it took at most beyond those that it found there."""
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    result = call()
    torch.cuda.synchronize()
    return result, torch.cuda.max_memory_allocated() - before


@pytest.mark.spec("A72", "OPS.available")
@pytest.mark.parametrize("name", ["matmul", "reduce_sum", "relu"])
def test_no_dense_operand_is_built_on_the_device(name):
    weight = sw.from_torch(torch.randn(4096, 32, device="cuda").t())
    call = {
        "matmul": lambda t: sw.matmul(t, weight),
        "reduce_sum": lambda t: sw.reduce_sum(t, "a b -> a"),
        "relu": sw.relu,
    }[name]
    # Libraries take their workspaces at first use.
    small = call(operand(CAPACITY))
    small.backward(ones(small))
    tensor = operand(TILES)
    result, forward = peak(lambda: call(tensor))
    dense = result.carrier.nbytes()
    assert forward <= dense + CAPACITY * BYTES + SLACK < dense + TILES * BYTES
    gradient = ones(result)
    _, backward = peak(lambda: result.backward(gradient))
    assert backward <= 2 * CAPACITY * BYTES + SLACK < TILES * BYTES
    assert tensor.carrier.stats().peak_resident_tiles <= CAPACITY
    assert len(tensor.grad.carrier.primary_tiles) <= CAPACITY
    assert len(tensor.grad.carrier.valid_tiles) == TILES
