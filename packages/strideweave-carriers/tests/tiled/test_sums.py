"""Adding to tiles, by scatter and by update, and what a scatter's result is made of. Oracle: torch's sums, Python's for
integers, and states and counts written out by hand.
"""

from __future__ import annotations

import pytest
import torch
from expert_tiles import DIRTY, SECONDARY, choose, states, tiles

import strideweave as sw
from strideweave.carriers.tiled_evictable import TiledEvictable, TileState
from strideweave.carriers.tiled_evictable.timeline import intervals

INVALID = TileState("none", False, False)


def row(values: list, kind: torch.dtype) -> sw.Tensor:
    """One tensor that tiles of one slot cut."""
    return TiledEvictable.from_torch(torch.tensor(values, dtype=kind), (1,))


def added(full: sw.Tensor, values: list, how: str) -> list:
    """What ``values``, added to all of the row, give."""
    every = sw.TileSelection([range(len(values))])
    kind = full.dtype().torch()
    piece = sw.from_torch(torch.tensor(values, dtype=kind))
    if how == "scatter":
        result = full.carrier.scatter(piece, full, every, "add").wait()
    else:
        result = full.carrier.update(every, piece, "add").wait()
    return result.carrier.project(result, every).wait().tolist()


@pytest.mark.spec("SCT.add")
@pytest.mark.parametrize("how", ["scatter", "update"])
@pytest.mark.parametrize(
    "kind",
    [torch.float32, torch.float16, torch.bfloat16, torch.int32, torch.int64, torch.int8, torch.uint8],
    ids=str,
)
def test_every_type_that_takes_part_in_arithmetic(kind, how):
    low = 0 if kind == torch.uint8 else -100
    assert added(row([1, 2, 100], kind), [5, 0, low], how) == [6, 2, 100 + low]


EDGES = [(k, torch.iinfo(k).max, 1) for k in (torch.int8, torch.uint8, torch.int32, torch.int64)]
EDGES += [(k, torch.iinfo(k).min, -1) for k in (torch.int8, torch.int32, torch.int64)]


@pytest.mark.parametrize("resident", [False, True])
@pytest.mark.parametrize("how", ["scatter", "update"])
@pytest.mark.parametrize(("kind", "edge", "step"), EDGES, ids=str)
def test_a_sum_out_of_range_changes_no_tile(kind, edge, step, how, resident):
    """The last tile of three is the one that cannot take its sum; the first two could."""
    full = row([1, 2, edge], kind)
    if resident:
        # The sum is made where the values are.
        full.carrier.promote(full.carrier.valid_tiles)
    with pytest.raises(OverflowError, match=f"outside the range of {full.dtype()}"):
        added(full, [1, 0, step], how)
    assert [full.carrier.get_value(i) for i in range(3)] == [1, 2, edge] and full.carrier.version == 0
    assert added(full, [1, 0, 0], how) == [2, 2, edge]


@pytest.mark.spec("SCT.add", "RES.invalid")
def test_nothing_is_added_to_a_tile_without_a_value(tiled):
    made = tiled.make(where="none")
    made.carrier.update(choose(1), sw.ones((1, 3, 2))).wait()
    before = tiled.snapshot(made.carrier)
    with pytest.raises(RuntimeError, match=r"update: tile \(2, 0, 0\) has no value"):
        made.carrier.update(choose(1, 2), sw.ones((2, 3, 2)), "add")
    assert tiled.snapshot(made.carrier) == before


def test_only_what_is_added_to_is_read(experts):
    """Oracle: bytes promoted. Tiles that are replaced as a whole need not come first."""
    experts.carrier.update(choose(0, 1), sw.ones((2, 3, 2))).wait()
    assert experts.carrier.stats().bytes_promoted == 0
    experts.carrier.update(choose(1, 2), sw.ones((2, 3, 2)), "add").wait()
    assert experts.carrier.stats().bytes_promoted == 24
    assert [experts.carrier.get_value(6 * e) for e in range(4)] == [1.0, 2.0, 14.0, 19.0]


@pytest.mark.parametrize("reduction", ["replace", "add"])
def test_what_an_update_gives_wants_no_gradient(experts, reduction):
    result = experts.carrier.update(choose(1), sw.ones((1, 3, 2)), reduction).wait()
    assert result.autograd_ctx is None and not result.is_differentiable()
    assert experts.tensor.is_differentiable() and experts.tensor.autograd_ctx is None


@pytest.mark.spec("SCT.version", "SCT.unselected")
@pytest.mark.parametrize("reduction", ["replace", "add"])
def test_states_bytes_and_stays_of_a_scatter_that_spills(tiled, reduction):
    """One place: the first tile of the selection has it and is dirty, the other two are written back at once."""
    made = tiled.make(primary_capacity=1)
    result = made.carrier.scatter(sw.ones((3, 3, 2)), made.tensor, choose(3, 0, 2), reduction).wait()
    carrier = result.carrier
    assert states(carrier) == [SECONDARY, INVALID, SECONDARY, DIRTY] and carrier.version == 1
    stats = carrier.stats()
    assert (stats.bytes_written_back, stats.resident_tiles, stats.peak_resident_tiles) == (2 * 24, 1, 1)
    assert [code for code, _, _ in intervals(carrier)] == [3] and carrier.primary_tiles == tiles(3)


@pytest.mark.spec("SCG.node", "SCG.add")
@pytest.mark.parametrize("wants", ["compact", "template"])
def test_one_input_of_a_scatter_that_wants_a_gradient_is_enough(tiled, wants):
    with sw.set_grad_enabled(wants == "template"):
        made = tiled.make()
    with sw.set_grad_enabled(wants == "compact"):
        piece = sw.ones((1, 3, 2))
    result = made.carrier.scatter(piece, made.tensor, choose(1), "add").wait()
    result.carrier.project(result, choose(1)).wait().backward(sw.full((1, 3, 2), 4.0))
    assert (piece.grad is None, made.tensor.grad is None) == (wants != "compact", wants != "template")
    gradient = piece.grad if wants == "compact" else made.tensor.grad
    assert gradient.carrier.get_value(0 if wants == "compact" else 6) == 4.0


@pytest.mark.spec("SCG.compact")
def test_the_gradient_of_a_nested_compact_tensor_has_its_shape(experts):
    piece = sw.Tensor(sw.from_torch(torch.arange(6.0)).carrier, 0, sw.Layout((1, (3, 1), (2,))))
    result = experts.carrier.scatter(piece, experts.tensor, choose(1)).wait()
    weight = torch.arange(6.0).view(1, 2, 3).permute(0, 2, 1)
    sw.mul(result.carrier.project(result, choose(1)).wait(), sw.from_torch(weight)).backward(
        sw.ones((1, 3, 2))
    )
    assert piece.grad.shape == piece.shape and piece.grad.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
