"""LRU, LFU and pinned sets. Oracle: what is kept, by hand; the dense tensor; tiles on primary counted."""

from __future__ import annotations

import pytest
import torch

from strideweave.carriers.tiled_evictable import LFU, LRU, PinSet, TileSelection, TileSet
from strideweave.testing import gated


def tiles(*experts):
    return TileSet((e, 0, 0) for e in experts)


def choose(*experts):
    return TileSelection([experts, [0], [0]])


def used(policy, *requests):
    return [policy.plan(tiles(*r), "projection") for r in requests]


def test_lru_by_hand():
    plans = used(LRU(2), [0], [1], [0], [2], [3, 4, 5])
    assert [p.evict for p in plans] == [tiles(), tiles(), tiles(), tiles(1), tiles(0, 2, 3)]


def test_lfu_by_hand_and_its_ageing():
    policy = LFU(1, period=4)
    plans = used(policy, [0], [0], [0], [1], [1], [1])
    # The fourth request halves three to 1.5, which 1 overtakes at its second; three it would meet at its third.
    assert [p.evict for p in plans] == [tiles(), tiles(), tiles(), tiles(1), tiles(0), tiles()]


def test_lfu_prefers_what_is_required_now_to_what_is_there():
    plans = used(LFU(1), [0], [1], [0], [0], [1])
    assert [p.evict for p in plans] == [tiles(), tiles(0), tiles(1), tiles(), tiles(1)]
    plans = used(LFU(2), [0], [1, 2])
    assert [p.evict for p in plans] == [tiles(), tiles(0)]


def test_lfu_forgets_what_was_asked_for_long_ago():
    policy = LFU(4, period=1)
    used(policy, *[[k] for k in range(200)])
    assert len(policy._counts) < 10


def test_a_pin_set():
    plans = used(PinSet(tiles(0)), [1, 2], [0, 1])
    assert [(p.promote, p.evict) for p in plans] == [(tiles(0), tiles(1, 2)), (tiles(0), tiles(1))]


@pytest.mark.parametrize("bad", [0, -1, True, 1.5, None])
def test_policies_check_their_capacity(bad):
    for cls in (LRU, LFU):
        with pytest.raises((TypeError, ValueError)):
            cls(bad)
    with pytest.raises(TypeError):
        PinSet([(0, 0, 0)])


@pytest.mark.parametrize("policy", [LRU(2), LFU(2), PinSet(tiles(1, 2))])
def test_shipped_policies_keep_results_right_and_residency_bounded(tiled, policy):
    made = tiled.make(grid=(6, 1, 1), primary_capacity=3, residency_policy=policy)
    full = tiled.dense(made.tensor, made.values)
    generator = torch.Generator().manual_seed(3)
    for _ in range(40):
        wanted = torch.randperm(6, generator=generator)[:2].tolist()
        assert torch.equal(
            tiled.by_mode(made.carrier.project(made.tensor, choose(*wanted)).wait()), full[wanted]
        )
        made.carrier.wait_idle()
        assert len(made.carrier.primary_tiles) <= 2


@pytest.mark.parametrize("policy", [LRU, LFU])
def test_requests_that_overlap_stream_where_primary_is_full(tiled, policy):
    """As without a policy: tiles that another request keeps where they are need not leave."""
    made = tiled.make(grid=(6, 1, 1), primary_capacity=2, residency_policy=policy(2))
    full = tiled.dense(made.tensor, made.values)
    with gated("copy"):
        handles = [made.carrier.project(made.tensor, choose(k, k + 1)) for k in (0, 2, 4)]
    for k, handle in zip((0, 2, 4), handles, strict=True):
        assert torch.equal(tiled.by_mode(handle.wait()), full[[k, k + 1]])
    made.carrier.wait_idle()
    assert len(made.carrier.primary_tiles) <= 2


@pytest.mark.parametrize("policy", [LRU, LFU])
def test_what_a_policy_keeps_goes_onto_primary_before_what_leaves_again(tiled, policy):
    """A request beyond the capacity, made twice: what stayed of the first is found by the second."""
    made = tiled.make(grid=(6, 1, 1), primary_capacity=2, residency_policy=policy(2))
    for _ in range(2):
        made.carrier.project(made.tensor, choose(*range(5))).wait()
        made.carrier.wait_idle()
    assert len(made.carrier.primary_tiles) == 2 and made.carrier.stats().hits == 2
