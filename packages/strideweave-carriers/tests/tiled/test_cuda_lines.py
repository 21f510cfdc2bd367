"""Four acceptance lines again on a device, in every setting: page-locked and pageable memory, a stream of the caller's
own, copy streams that are late. Oracle: the values written on the host, gathered by torch indexing."""

from __future__ import annotations

import threading
from contextlib import contextmanager

import pytest
import torch
from test_tiled_cuda import TILE, choose, host, make, tiles

import strideweave as sw
from strideweave.movement.cuda_lanes import lane
from strideweave.movement.pool import BACKGROUND, DEMAND
from strideweave.testing import Fault, fail_at, gated

pytestmark = [pytest.mark.gpu]

LATE = 20_000_000  # about ten milliseconds of cycles


def delay(cycles=LATE):
    """Keep every copy stream busy, so that whoever does not wait for a copy sees that."""
    for direction in ("h2d", "d2h"):
        for priority in (DEMAND, BACKGROUND):
            with torch.cuda.stream(lane(0, direction, priority).stream):
                torch.cuda._sleep(cycles)


@contextmanager
def within(setting):
    """The caller's stream for ``setting``."""
    if setting == "own stream":
        with torch.cuda.stream(torch.cuda.Stream()):
            yield
    else:
        yield


settings = pytest.mark.parametrize("setting", ["plain", "own stream", "late copies"])
kinds = pytest.mark.parametrize("kind", ["pinned", "pageable"])


@kinds
@settings
@pytest.mark.spec("D31")
def test_a_handle_returns_before_its_copies(kind, setting):
    carrier, tensor, full = make(kind)
    with within(setting):
        if setting == "late copies":
            delay(25 * LATE)
            handle = carrier.project(tensor, choose(6, 2))
            other = torch.ones(8, device="cuda").add_(1)
            assert other.tolist() == [2.0] * 8 and not handle.done
        elif kind == "pageable":
            with gated("copy") as gate:
                handle = carrier.project(tensor, choose(6, 2))
                assert gate.reached.wait(10) and not handle.done
                assert torch.ones(8, device="cuda").add_(1).tolist() == [2.0] * 8
        else:
            delay(25 * LATE)
            handle = carrier.project(tensor, choose(6, 2))
            assert not handle.done
            assert torch.ones(8, device="cuda").add_(1).tolist() == [2.0] * 8
        compact = handle.wait()
        assert handle.done and torch.equal(host(compact), full[[6, 2]])


@kinds
@settings
@pytest.mark.spec("D42")
def test_the_second_tiles_copy_fails(kind, setting):
    """The tiles are apart, so that each is a copy of its own; the failed request is undone and made again."""
    carrier, tensor, full = make(kind, tile=(1, 3, 5))
    carrier.project(tensor, choose(7)).wait()
    before = set(carrier.primary_tiles)
    target = sw.CUDA(3 * 15, dtype=sw.BFloat16)
    target.flat().fill_(7)
    # It is read on other streams below.
    torch.cuda.synchronize()
    with within(setting):
        if setting == "late copies":
            delay()
        errors = []
        with fail_at(2, "copy") as counter:
            try:
                handle = carrier.project(tensor, choose(0, 2, 4), target)
            except Fault as error:
                errors.append(error)
            else:
                for _ in range(2):
                    with pytest.raises(Fault) as caught:
                        handle.wait()
                    errors.append(caught.value)
        assert counter.fired and len({id(e) for e in errors}) == 1
        carrier.wait_idle()
        assert set(carrier.primary_tiles) == before and carrier.version == 0 and target.version == 0
        assert not any(r.needed() or r.transit for r in carrier._core.table.touched())
        assert (target.flat() == 7).all()
        found = carrier.project(tensor, choose(0, 2, 4), target).wait()
        assert torch.equal(host(found), full[[0, 2, 4]])


@kinds
@settings
@pytest.mark.spec("D55")
def test_dirty_bits_come_back_exactly(kind, setting):
    """NaN payloads and negative zeros among random bits."""
    carrier, _, _ = make(kind, primary_capacity=3)
    with within(setting):
        for k in range(20):
            piece = torch.randint(-(1 << 15), 1 << 15, (1, *TILE[1:]), dtype=torch.int16, device="cuda")
            piece[0, 0, :3] = torch.tensor([0x7FC1, -0x8000, -0x3F], dtype=torch.int16)
            if setting == "late copies":
                delay(LATE // 10)
            carrier.update(choose(k % 8), sw.from_torch(piece.view(torch.bfloat16))).wait()
            assert carrier.tile_state((k % 8, 0, 0)).dirty
            carrier.evict(tiles(k % 8))
            assert carrier.tile_state((k % 8, 0, 0)).location == "secondary"
            carrier.promote(tiles(k % 8))
            back = carrier.project(carrier.full_tensor(), choose(k % 8)).wait()
            assert torch.equal(host(back).view(torch.int16), piece.cpu())


@kinds
@settings
@pytest.mark.spec("D57")
def test_an_eviction_asked_for_during_a_projection_comes_after_it(kind, setting):
    carrier, tensor, full = make(kind)
    with within(setting):
        for k in range(60):
            wanted = [[0, 2], [7, 1], [5, 3, 6]][k % 3]
            if setting == "late copies":
                delay(LATE // 10)
            handle = carrier.project(tensor, choose(*wanted))
            ended, records = [], [carrier._core.table.peek(e) for e in wanted]
            eviction = carrier.evict_async(tiles(*wanted))
            eviction._completion.add_callback(
                lambda e=ended, of=records: e.append(not any(r.needed() or r.primary for r in of))
            )
            waiting = threading.Thread(target=eviction.wait)
            waiting.start()
            assert torch.equal(host(handle.wait()), full[wanted])
            waiting.join()
            assert ended == [True] and not len(carrier.primary_tiles)
