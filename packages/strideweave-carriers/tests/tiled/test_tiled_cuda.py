"""Tiled carriers on a device. Oracle: the values written on the host, gathered by torch indexing."""

from __future__ import annotations

import threading

import pytest
import torch

import strideweave as sw
from strideweave.carriers.tiled_evictable import Prefetcher, TiledEvictable, TileSelection, TileSet
from strideweave.testing import Fault, fail_at, gated

pytestmark = [pytest.mark.gpu]

GRID, TILE = (8, 1, 1), (1, 64, 48)
SECOND = 2_000_000_000  # about a second of cycles


def tiles(*experts):
    return TileSet((e, 0, 0) for e in experts)


def choose(*experts):
    return TileSelection([experts, [0], [0]])


def make(
    kind="pinned", layout=TiledEvictable.row_major_layout, tile=TILE, dtype=sw.BFloat16, grid=GRID, **options
):
    size = grid[0] * tile[1] * tile[2]
    secondary = sw.CPU(size, dtype=dtype, pinned=True) if kind == "pinned" else sw.CPU(size, dtype=dtype)
    values = torch.randn(size).to(dtype.torch())
    secondary.flat().copy_(values)
    carrier = TiledEvictable(sw.CUDA(0, dtype=dtype), secondary, grid, tile, **options)
    tensor = carrier.full_tensor(layout(carrier))
    full = values.as_strided((grid[0], tile[1], tile[2]), [_flat(s) for s in tensor.layout.stride])
    return carrier, tensor, full


def _flat(stride):
    return stride if isinstance(stride, int) else stride[0]


def host(compact):
    """A compact tensor's values on the host, one dimension per mode."""
    torch.cuda.synchronize()
    return sw.to_torch(compact).cpu()


kinds = pytest.mark.parametrize("kind", ["pinned", "pageable"])


@kinds
@pytest.mark.parametrize("order", ["canonical", "tile"])
@pytest.mark.parametrize("layout", [TiledEvictable.row_major_layout, TiledEvictable.canonical_layout])
@pytest.mark.parametrize("capacity", [None, 2, 8])
def test_values_in_either_order(kind, order, layout, capacity):
    carrier, tensor, full = make(kind, layout, primary_capacity=capacity)
    for wanted in ([5, 1, 3], [0, 1, 2, 3, 4, 5, 6, 7], [3, 2]):
        found = host(carrier.project(tensor, choose(*wanted), order=order).wait())
        assert torch.equal(found, full[wanted])
        assert len(carrier.primary_tiles) <= (capacity or 8)


@kinds
@pytest.mark.spec("A31")
def test_the_handle_returns_while_the_copy_stream_is_busy(kind):
    from strideweave.movement.cuda import lane

    carrier, tensor, full = make(kind)
    carrier.project(tensor, choose(0)).wait()
    with torch.cuda.stream(lane(0, "h2d").stream):
        torch.cuda._sleep(SECOND // 4)
    handle = carrier.project(tensor, choose(6, 2))
    assert not handle.done
    torch.ones(8, device="cuda").add_(1)
    assert torch.equal(host(handle.wait()), full[[6, 2]])


@kinds
@pytest.mark.spec("A42")
def test_a_failing_copy(kind):
    carrier, tensor, full = make(kind, tile=(1, 3, 5))
    with gated("copy") if kind == "pageable" else fail_at(10**9) as gate:
        errors = []
        if kind == "pageable":
            handle = carrier.project(tensor, choose(0, 2, 4))
            assert gate.reached.wait(10)
            with fail_at(1, "copy"):
                gate.open()
                for _ in range(2):
                    with pytest.raises(Fault) as caught:
                        handle.wait()
                    errors.append(caught.value)
        else:
            with fail_at(2, "copy"), pytest.raises(Fault):
                carrier.project(tensor, choose(0, 2, 4)).wait()
    assert len({id(e) for e in errors}) <= 1
    carrier.wait_idle()
    assert carrier.version == 0 and not any(r.needed() for r in carrier._core.table.touched())
    assert torch.equal(host(carrier.project(tensor, choose(0, 2, 4)).wait()), full[[0, 2, 4]])


@kinds
@pytest.mark.spec("A55", "A104")
def test_dirty_tiles_survive_eviction(kind):
    """A thousand times, read right after the eviction's end."""
    carrier, _, _ = make(kind, primary_capacity=3)
    for k in range(1000):
        piece = torch.randn(1, *TILE[1:], dtype=torch.bfloat16, device="cuda")
        # update lays compact out by the canonical Layout of the carrier
        carrier.update(choose(k % 8), sw.from_torch(piece)).wait()
        carrier.evict(tiles(k % 8))
        back = host(carrier.project(carrier.full_tensor(), choose(k % 8)).wait())
        assert torch.equal(back, piece.cpu())


@kinds
@pytest.mark.spec("A57")
def test_evictions_against_projections(kind):
    carrier, tensor, full = make(kind, primary_capacity=4)
    stop, failures = threading.Event(), []

    def evicting():
        while not stop.is_set():
            try:
                carrier.evict(tiles(*range(8)))
            except RuntimeError as error:
                if "wait()" not in str(error):
                    failures.append(error)

    thread = threading.Thread(target=evicting)
    thread.start()
    try:
        for k in range(200):
            wanted = [[0, 2], [7, 1], [2, 1, 0, 5, 6]][k % 3]
            while True:
                try:
                    compact = carrier.project(tensor, choose(*wanted)).wait()
                    break
                except RuntimeError as error:
                    assert "incomplete evict" in str(error)
            assert torch.equal(host(compact), full[wanted])
    finally:
        stop.set()
        thread.join()
    assert not failures
    carrier.wait_idle()


def test_on_stream_orders_without_waiting():
    carrier, tensor, full = make()
    carrier.promote(tiles(*range(8)))
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        torch.cuda._sleep(SECOND // 4)
        handle = carrier.project(tensor, choose(4, 0), order="tile")
        compact = handle.on_stream()
        assert not handle.done
        doubled = sw.mul(compact, 2)
    third = torch.cuda.Stream()
    again = handle.on_stream(third)
    assert again is compact
    with torch.cuda.stream(third):
        copied = sw.to_torch(again).clone()
    assert torch.equal(host(doubled), full[[4, 0]] * 2)
    assert torch.equal(copied.cpu(), full[[4, 0]])
    assert handle.wait() is compact


def test_on_stream_with_missing_tiles():
    carrier, tensor, full = make()
    compact = carrier.project(tensor, choose(4, 0)).on_stream()
    assert torch.equal(host(sw.mul(compact, 2)), full[[4, 0]] * 2)
    carrier.wait_idle()


def test_a_producer_on_the_callers_stream_is_waited_for():
    carrier, tensor, _ = make()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        torch.cuda._sleep(SECOND // 10)
        piece = torch.full((2, *TILE[1:]), 3.0, device="cuda", dtype=torch.bfloat16)
        handle = carrier.update(choose(1, 6), sw.from_torch(piece))
        scattered = carrier.scatter(sw.from_torch(piece), tensor, choose(0, 3))
    handle.wait()
    assert torch.equal(
        host(carrier.project(tensor, choose(6)).wait()), torch.full((1, *TILE[1:]), 3.0).bfloat16()
    )
    result = scattered.wait()
    found = host(result.carrier.project(result, choose(3)).wait())
    assert torch.equal(found, torch.full((1, *TILE[1:]), 3.0).bfloat16())


@pytest.mark.parametrize("capacity", [None, 2])
def test_gradients_and_direct_operations(capacity):
    carrier, tensor, full = make(dtype=sw.Float32, primary_capacity=capacity)
    weight = torch.randn(3, *TILE[1:])
    for wanted in ([0, 1, 2], [1, 2, 7]):
        compact = carrier.project(tensor, choose(*wanted)).wait()
        sw.mul(compact, sw.from_torch(weight.cuda())).backward(
            sw.Tensor(sw.from_torch(torch.ones(weight.numel(), device="cuda")).carrier, 0, compact.layout)
        )
    expected = torch.zeros(8, *TILE[1:])
    expected[[0, 1, 2]] += weight
    expected[[1, 2, 7]] += weight
    gradient = tensor.grad
    found = host(gradient.carrier.project(gradient, choose(*range(8))).wait())
    assert torch.allclose(found, expected)
    assert torch.allclose(host(sw.relu(tensor)), full.relu())
    total = host(sw.reduce_sum(tensor, "a b c -> a b"))
    assert torch.allclose(total, full.sum(2), atol=1e-4)
    assert carrier.stats().peak_resident_tiles <= (capacity or 8)


@pytest.mark.spec("A108")
@pytest.mark.parametrize("dtype", [sw.Float32, sw.BFloat16])
def test_capacity_changes_no_bit(dtype):
    values = torch.randn(64 * 96).to(dtype.torch())
    seen = set()
    for capacity in (None, 1, 5):
        secondary = sw.CPU(values.numel(), dtype=dtype)
        secondary.flat().copy_(values)
        carrier = TiledEvictable(
            sw.CUDA(0, dtype=dtype), secondary, (4, 3), (16, 32), primary_capacity=capacity
        )
        tensor = carrier.full_tensor()
        if capacity == 5:
            carrier.promote(TileSet([(3, 2), (0, 1)]))
        for result in (sw.matmul(tensor, tensor), sw.reduce_sum(tensor, "a b -> a")):
            seen.add((result.size(), host(result).contiguous().view(torch.uint8).numpy().tobytes()))
    assert len(seen) == 2


@pytest.mark.spec("A107")
def test_a_capture_beside_promotions_and_a_captured_projection():
    carrier, tensor, full = make(primary_capacity=8)
    other, _, _ = make("pageable")
    other.promote(tiles(0))
    with carrier.hold(choose(5, 2)):
        carrier.project(tensor, choose(5, 2), order="tile").wait()
        with pytest.raises(RuntimeError, match="hold"):
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                carrier.project(tensor, choose(1))
        torch.cuda.synchronize()
        stop = threading.Event()

        def promoting():
            k = 0
            while not stop.is_set():
                k += 1
                other.promote(tiles(k % 8))
                other.evict(tiles(k % 8))

        thread = threading.Thread(target=promoting)
        thread.start()
        try:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, capture_error_mode="global"):
                compact = carrier.project(tensor, choose(5, 2), order="tile").on_stream()
                out = sw.to_torch(compact) * 2
        finally:
            stop.set()
            thread.join()
        out.zero_()
        graph.replay()
        assert torch.equal(host(sw.from_torch(out)), full[[5, 2]] * 2)
    carrier.wait_idle()


def test_prefetch_and_files(tmp_path):
    path = tmp_path / "experts"
    values = torch.randn(8, *TILE[1:]).bfloat16()
    path.write_bytes(values.view(torch.uint8).numpy().tobytes())
    secondary = sw.FileBacked(path, mutable=False, dtype=sw.BFloat16)
    carrier = TiledEvictable(sw.CUDA(0, dtype=sw.BFloat16), secondary, GRID, TILE)
    tensor = carrier.full_tensor(carrier.row_major_layout())
    prefetcher = Prefetcher(carrier)
    prefetcher.promote(tiles(1, 4))
    assert torch.equal(host(prefetcher.project(tensor, choose(4, 1, 0)).wait()), values[[4, 1, 0]])
    assert carrier.stats().hits == 2


def test_release_and_reuse_of_device_memory():
    before = torch.cuda.memory_allocated()
    carrier, tensor, _ = make(primary_capacity=8)
    carrier.project(tensor, choose(0, 1)).wait()
    carrier.release()
    del carrier, tensor
    torch.cuda.synchronize()
    assert torch.cuda.memory_allocated() <= before + (1 << 20)


@pytest.mark.spec("C33")
@pytest.mark.parametrize("exhausted", [False, True])
def test_pageable_tiles_are_page_locked_as_they_are_used(exhausted, monkeypatch):
    """Oracle: values, twice, by way of the ring where nothing more can be locked; the driver forgets at release."""
    from strideweave.movement import pinning

    if exhausted:
        monkeypatch.setattr(pinning, "_lock_pages", lambda address, nbytes: False)
    carrier, tensor, full = make("pageable", tile=(1, 1024, 768), primary_capacity=4)
    secondary = carrier._core.home.carrier
    secondary.pin_lazily()
    wanted = [5, 0, 7]
    for _ in range(3):
        assert torch.equal(host(carrier.project(tensor, choose(*wanted), order="tile").wait()), full[wanted])
        carrier.evict(tiles(*wanted))
    assert bool(secondary.pinning._locked) is not exhausted
    piece = torch.randn(2, 1024, 768).bfloat16().cuda()
    carrier.update(choose(3, 6), sw.from_torch(piece)).wait()
    carrier.evict(tiles(3, 6))
    found = host(carrier.project(carrier.full_tensor(), choose(3, 6)).wait())
    assert torch.equal(found, piece.cpu())
    torch.zeros(4, device="cuda").add_(1)
    carrier.release()
    assert secondary.pinning is None


def test_small_scattered_tiles_travel_together():
    carrier, tensor, full = make("pinned", tile=(1, 16, 24), grid=(64, 1, 1))
    wanted = list(range(0, 64, 2))
    carrier.promote(tiles(*wanted))
    assert torch.equal(host(carrier.project(tensor, choose(*wanted), order="tile").wait()), full[wanted])
    odd = list(range(63, 0, -2))
    assert torch.equal(host(carrier.project(tensor, choose(*odd)).wait()), full[odd])


def test_a_missing_tile_goes_ahead_of_a_prefetch():
    """Oracle: the projection's values are there while the copies of the prefetch, begun before it, are not.

    On a busy machine this thread may be kept from looking for longer than a gigabyte takes; a demand that did wait for
    the prefetch would find it done each time.
    """
    big = sw.CPU(1 << 30, dtype=sw.UInt8, pinned=True, empty=True)
    ahead = TiledEvictable(sw.CUDA(0, dtype=sw.UInt8), big, (64,), (1 << 24,), primary_capacity=64)
    carrier, tensor, full = make(primary_capacity=8)
    carrier.project(tensor, choose(0)).wait()
    ahead.promote(TileSet([(0,)]))
    Prefetcher(ahead).promote(TileSet((e,) for e in range(2)))
    ahead.wait_idle()
    overtook = []
    for _ in range(8):
        torch.cuda.synchronize()
        handle = Prefetcher(ahead).promote(TileSet((e,) for e in range(2, 64)))
        compact = carrier.project(tensor, choose(5, 3)).wait()
        overtook.append(not handle.done)
        assert torch.equal(host(compact), full[[5, 3]])
        handle.wait()
        if overtook[-1]:
            break
        ahead.evict(TileSet((e,) for e in range(2, 64)))
        carrier.evict(carrier.primary_tiles)
    assert overtook[-1], "each time a demand copy waited for a gigabyte of prefetch"


def test_write_backs_to_slabs_of_its_own_are_page_locked():
    """Tiles go to memory that only the carrier knows and come back, twice. Oracle: the values before."""
    grid, tile = (8, 1, 1), (1, 256, 512)
    size = grid[0] * tile[1] * tile[2]
    primary = sw.CUDA(size)
    primary.flat().normal_()
    expected = primary.flat().view(*grid[:1], *tile[1:]).cpu()
    carrier = TiledEvictable(primary, sw.CPU(0), grid, tile)
    tensor = carrier.full_tensor(carrier.row_major_layout())
    for _ in range(2):
        carrier.evict(tiles(*range(8)))
        (slab,) = carrier._core.secondary.slabs
        assert slab.carrier.pinning is not None and any(slab.carrier.pinning._known.values())
        carrier.promote(tiles(*range(8)))
        found = host(carrier.project(tensor, choose(*range(8)), order="tile").wait())
        assert torch.equal(found, expected)
    carrier.release()


def test_tiles_that_are_no_boxes_of_leaves_are_read_by_index():
    """Tiles of 3 over leaves 2 and 3, one place on the device. Oracle: torch."""
    secondary = sw.CPU(6)
    secondary.flat().copy_(torch.arange(6.0))
    carrier = TiledEvictable(sw.CUDA(0), secondary, (2,), (3,), primary_capacity=1)
    tiled = carrier.full_tensor(sw.Layout(((2, 1, 3),), ((1, 0, 2),)))
    mate = sw.Tensor(sw.from_torch(torch.arange(12.0, device="cuda") + 1).carrier, 0, sw.Layout(((2, 2, 3),)))
    mine, theirs = torch.arange(6.0).view(3, 1, 2), (torch.arange(12.0) + 1).view(3, 2, 2)
    result = sw.mul(tiled, mate)
    assert torch.equal(torch.tensor(result.tolist()), (mine * theirs).reshape(-1))
    ones = sw.Tensor(sw.from_torch(torch.ones(12, device="cuda")).carrier, 0, sw.Layout(((2, 2, 3),)))
    result.backward(ones)
    found = tiled.grad.carrier.project(tiled.grad, TileSelection([range(2)])).wait()
    assert torch.equal(torch.tensor(found.tolist()), theirs.sum(1).reshape(-1))
    assert torch.equal(torch.tensor(mate.grad.tolist()), mine.expand(3, 2, 2).reshape(-1))
    assert carrier.stats().peak_resident_tiles == 1
