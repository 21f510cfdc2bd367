"""What operations take and how far their sums may go. Oracle: torch, exact on small integers, and Python integers."""

from __future__ import annotations

import pytest
import torch

import strideweave as sw
from strideweave.carriers.tiled_evictable import TiledEvictable, TileSelection, access, accumulate, gradients


def whole(gradient):
    carrier = gradient.carrier
    if not isinstance(carrier, TiledEvictable):
        return gradient.tolist()
    every = TileSelection([range(n) for n in carrier.grid_shape])
    return carrier.project(gradient, every).wait().tolist()


def filled(made, values):
    """The values in the order of slots."""
    made.tiers["secondary"].store_bytes(0, memoryview(values.view(torch.uint8).numpy().tobytes()))
    return made.tensor


@pytest.mark.spec("OPS.available")
@pytest.mark.parametrize("small_first", [True, False])
@pytest.mark.parametrize("small", [(1, 1), (1, 12), (6, 1)])
def test_no_step_is_larger_than_a_tile_where_an_operand_broadcasts(tiled, monkeypatch, small, small_first):
    """Tiles of 6 by 1 are the largest here: neither values nor gradients may be put together from more of them."""
    largest = []
    joined = access.Access._joined

    def noted(self, box, found):
        values = joined(self, box, found)
        largest.append((values.numel(), len(found)))
        return values

    monkeypatch.setattr(access.Access, "_joined", noted)

    def plain(c):
        return sw.Layout(c.logical_shape, (1, 0) if c.logical_shape[1] == 1 else (0, 1))

    rows, columns = small
    few = tiled.make((rows // min(rows, 3), columns), (min(rows, 3), 1),
                     layout=plain, primary_capacity=1)  # fmt: skip
    # One tile of whole modes: so that both have the same trees, its rows and columns are one leaf each.
    many = tiled.make((1, 12), (6, 1), layout=lambda c: sw.Layout((6, 12), (1, 6)), primary_capacity=1)
    weights = torch.arange(1.0, 73).remainder(5)
    pair = (few.tensor, many.tensor) if small_first else (many.tensor, few.tensor)
    result = sw.mul(*pair)
    result.backward(sw.Tensor(sw.from_torch(weights.clone()).carrier, 0, sw.Layout((6, 12))))
    assert max(largest) <= (6, 6)

    x = few.values.view(columns, rows).clone().requires_grad_()
    y = many.values.view(12, 6).clone().requires_grad_()
    expected = x * y
    expected.backward(weights.view(12, 6))
    assert result.tolist() == expected.reshape(-1).tolist()
    assert whole(few.tensor.grad) == x.grad.reshape(-1).tolist()
    assert whole(many.tensor.grad) == y.grad.reshape(-1).tolist()
    for made in (few, many):
        assert made.carrier.stats().peak_resident_tiles == 1


def in_leaves(carrier):
    """A full Layout with modes (2, 3) and (2, 2), whose leaves tiles do not cut."""
    step, leaves, strides = 1, ((2, 3), (2, 2)), ([0, 0], [0, 0])
    for inside in (True, False):
        for axis, tile in enumerate(carrier.tile_shape):
            for k, extent in enumerate(leaves[axis]):
                if (tile > (1, leaves[axis][0])[k]) is inside:
                    strides[axis][k] = step
                    step *= extent
    return sw.Layout(leaves, tuple(map(tuple, strides)))


@pytest.mark.spec("OPS.available")
@pytest.mark.parametrize("name", ["add", "mul"])
@pytest.mark.parametrize("tiles", [((6, 1), (1, 4)), ((2, 4), (6, 2)), ((6, 4), (1, 1))])
def test_each_step_reads_one_tile_of_each_operand_however_they_are_cut(tiled, monkeypatch, tiles, name):
    """Rows of tiles against columns of tiles: neither is ever in memory as a whole. Oracle: torch, exact."""
    met = []
    joined = access.Access._joined

    def noted(self, box, found):
        met.append(len(found))
        return joined(self, box, found)

    monkeypatch.setattr(access.Access, "_joined", noted)
    pair, twins = [], []
    for tile in tiles:
        values = torch.randint(-4, 5, (4, 6)).float()
        made = tiled.make((6 // tile[0], 4 // tile[1]), tile, primary_capacity=1, layout=in_leaves)
        place = [made.tensor.layout.concrete(i) for i in range(24)]
        stored = torch.empty(24)
        stored[place] = values.reshape(-1)
        filled(made, stored)
        pair.append(made.tensor)
        twins.append(values.clone().requires_grad_())
    result = getattr(sw, name)(*pair)
    expected = twins[0] * twins[1] if name == "mul" else twins[0] + twins[1]
    weights = torch.randint(-4, 5, (4, 6)).float()
    result.backward(sw.Tensor(sw.from_torch(weights.reshape(-1).clone()).carrier, 0, sw.Layout(result.shape)))
    expected.backward(weights)
    assert result.tolist() == expected.reshape(-1).tolist()
    for tensor, twin in zip(pair, twins, strict=True):
        assert twin.grad is not None
        assert whole(tensor.grad) == twin.grad.reshape(-1).tolist()
    assert set(met) == {1}


@pytest.mark.parametrize("dtype", [sw.Float16, sw.BFloat16])
@pytest.mark.parametrize("grid", [(1, 1), (2, 2)])
def test_a_narrow_operand_of_a_product_gets_a_gradient_that_is_rounded_once(tiled, grid, dtype):
    """The gradient is Float32, and so is the product with it. Oracle: the same on ordinary tensors."""
    made = tiled.make(grid, (4 // grid[0], 4 // grid[1]), dtype=dtype, primary_capacity=1)
    twin = sw.Tensor(made.tensor.carrier.project(made.tensor, TileSelection([range(grid[0]), range(grid[1])]))
                     .wait().carrier, 0, sw.Layout(made.tensor.shape))  # fmt: skip
    found = []
    for tensor in (made.tensor, twin):
        other = sw.from_torch(torch.full((4, 4), 1.001e-3))
        result = sw.matmul(tensor, other)
        assert result.dtype() is sw.Float32
        # It does not fit Float16, what becomes of it does.
        flat = sw.from_torch(torch.full((16,), 1.0e6)).carrier
        result.backward(sw.Tensor(flat, 0, sw.Layout(result.shape)))
        assert other.grad is not None
        found.append((whole(tensor.grad), other.grad.tolist()))
    assert found[0] == found[1] and found[0][0][0] == pytest.approx(4004, rel=2**-8)


TOP = 2**62


@pytest.mark.spec("OPS.six")
@pytest.mark.parametrize("values", [[TOP, TOP], [-TOP, -TOP, -TOP], [TOP, TOP, TOP, TOP], [-(2**63), -1]])
def test_integer_sums_that_leave_64_bits_are_refused(tiled, values):
    """Whether tiles part the summands or not. Oracle: the sum of Python integers, which is out of range."""
    assert not -(2**63) <= sum(values) < 2**63
    n = len(values)
    ordinary = sw.from_torch(torch.tensor([values]))
    ones = sw.from_torch(torch.ones(1, n, dtype=torch.int64))
    for grid, tile in (((1, n), (1, 1)), ((1, 1), (1, n))):
        made = tiled.make(grid, tile, dtype=sw.Int64, layout=lambda c: sw.Layout((1, n), (0, 1)))
        tensor = filled(made, torch.tensor(values))
        for operand in (tensor, ordinary):
            with pytest.raises(OverflowError, match="outside the range"):
                sw.reduce_sum(operand, "a b -> a")
            with pytest.raises(OverflowError, match="outside the range"):
                sw.matmul(operand, ones)
        tiled.snapshot(made.carrier)
        made.carrier.release()


@pytest.mark.spec("OPS.six")
@pytest.mark.parametrize("dtype", [sw.Int32, sw.Int64])
def test_integer_sums_may_leave_the_range_on_their_way(tiled, dtype):
    """Oracle: the sum of Python integers, which is in range though sums of some tiles are not."""
    top = dtype.range()[1]
    values = [top, top, -top, -top, 5, top - 5, 0, 0]
    assert sum(values) == top
    tensors = [sw.from_torch(torch.tensor([values], dtype=dtype.torch()))]
    for tile in (1, 2, 8):
        made = tiled.make((1, 8 // tile), (1, tile), dtype=dtype, layout=lambda c: sw.Layout((1, 8), (0, 1)))
        tensors.append(filled(made, torch.tensor(values, dtype=dtype.torch())))
    ones = sw.from_torch(torch.ones(1, 8, dtype=dtype.torch()))
    for tensor in tensors:
        assert sw.reduce_sum(tensor, "a b -> a").tolist() == [top]
        assert sw.matmul(tensor, ones).tolist() == [top]


def test_gradients_are_summed_in_time_linear_in_their_tiles(tiled, monkeypatch):
    """The lists of tiles are gone through a few times, not once for each of them."""
    rounds = []

    class Counted(tuple):
        def __iter__(self):
            rounds.append(len(self))
            return super().__iter__()

    written = gradients.written
    monkeypatch.setattr(accumulate, "written", lambda core: Counted(written(core)))
    made = tiled.make((40, 1, 1), primary_capacity=2)
    result = sw.mul(made.tensor, made.tensor)
    result.backward(sw.ones(result.shape))
    assert (
        whole(made.tensor.grad)
        == (2 * tiled.dense(made.tensor, made.values)).permute(2, 1, 0).reshape(-1).tolist()
    )
    assert 2 <= len(rounds) <= 8
