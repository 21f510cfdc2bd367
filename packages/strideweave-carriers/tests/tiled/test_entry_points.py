"""Every entry point that takes a full tensor, with Layouts that fit the tiles and with such that do not.

Oracles: torch on the logical values where the Layout fits; everything visible before where it does not.
"""

from __future__ import annotations

import pytest
import torch
from test_direct import SIX, matrix

import strideweave as sw
from strideweave.carriers.tiled_evictable import TiledEvictable, TileSelection
from strideweave.testing import fail_at

GRID, TILE = (3, 2), (2, 2)
NESTED = ((2, 3), (2, 2))
BAD = {
    "dense over tiles": (0, sw.Layout((6, 4))),
    "a leaf of stride 0": (0, sw.Layout(NESTED, ((0, 4), (1, 12)))),
    "slots repeated and left out": (0, sw.Layout(NESTED, ((3, 4), (0, 12)))),
    "tiles remapped": (0, sw.Layout(NESTED, ((1, 8), (2, 4)))),
    "an offset": (1, sw.Layout((6, 2), (1, 6))),
    "one tile of it": (4, sw.Layout((2, 2))),
}
SOME = TileSelection([[2, 0], [1]])
SAYS = "a tile (would|must)|neighbouring tiles|shifts every tile|full logical shape"


def entries(made, tensor):
    """Name to call: each hands ``tensor`` to an entry point of its carrier."""
    carrier, full, compact = made.carrier, made.tensor, sw.ones((4, 2))
    same = sw.Tensor(sw.CPU(tensor.size()), 0, sw.Layout(tensor.shape))
    ordinary = sw.relu(same)
    found = {
        "project": lambda: carrier.project(tensor, SOME),
        "scatter": lambda: carrier.scatter(compact, tensor, SOME),
        "scatter, add": lambda: carrier.scatter(compact, tensor, SOME, "add"),
        "mul by a number": lambda: sw.mul(2, tensor),
        "with a tensor that fits": lambda: sw.matmul(full, tensor),
        "backward": lambda: ordinary.backward(tensor),
    }
    for name, call in SIX.items():
        found[name] = lambda call=call: call(tensor, same)
        if name not in ("relu", "reduce_sum"):
            found[f"{name}, second"] = lambda call=call: call(same, tensor)
    return found


@pytest.mark.spec("A20", "FIT.entry", "FIT.reject")
@pytest.mark.parametrize("kind", BAD)
def test_what_does_not_fit_is_refused_everywhere_before_anything_happens(tiled, kind):
    policy = tiled.Recorder()
    made = tiled.make(GRID, TILE, residency_policy=policy)
    offset, layout = BAD[kind]
    tensor = sw.Tensor(made.carrier, offset, layout)
    before = tiled.snapshot(made.carrier)
    for name, call in entries(made, tensor).items():
        with fail_at(1) as counter, pytest.raises(ValueError, match=SAYS):
            call()
            raise AssertionError(f"{name} took it")
        assert counter.calls == 0, name
    assert tiled.snapshot(made.carrier) == before and policy.asked == []
    assert tensor.grad is None and tensor.autograd_ctx is None


def interleaved(carrier):
    """A Layout whose leaves inside a tile of (4, 3) take turns between the axes."""
    return sw.Layout(((2, 2, 2), (3, 2)), ((1, 6, 12), (2, 24)))


LAYOUTS = [TiledEvictable.canonical_layout, TiledEvictable.row_major_layout, interleaved]


@pytest.mark.spec("A9", "A20", "FIT.order")
@pytest.mark.parametrize("capacity", [None, 1])
@pytest.mark.parametrize("name", SIX)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_operations_and_their_gradients_follow_the_layout(tiled, layout, name, capacity):
    values, others = torch.randn(8, 6), torch.randn(8, 6)
    made = matrix(tiled, values, (2, 2), (4, 3), layout, primary_capacity=capacity)
    other = sw.Tensor(
        sw.from_torch(others.t().contiguous().view(-1)).carrier, 0, sw.Layout(made.tensor.shape)
    )
    root = SIX[name](made.tensor, other)
    x, y = values.clone().requires_grad_(), others.clone().requires_grad_()
    expected = {
        "add": lambda: x + y,
        "elementwise_mul": lambda: x * y,
        "mul": lambda: x * y,
        "relu": lambda: x.relu(),
        "reduce_sum": lambda: x.sum(1),
        "matmul": lambda: x @ y.t(),
    }[name]()
    assert torch.allclose(tiled.by_mode(root), expected.detach(), atol=1e-5)
    weight = torch.randn(expected.shape)
    flat = weight.t().reshape(-1) if weight.ndim == 2 else weight
    root.backward(sw.Tensor(sw.from_torch(flat).carrier, 0, sw.Layout(root.shape)))
    expected.backward(weight)
    gradient = made.tensor.grad
    every = TileSelection([[0, 1], [0, 1]])
    assert gradient.layout == made.tensor.layout
    found = gradient.carrier.project(gradient, every).wait()
    assert torch.allclose(tiled.by_mode(found), x.grad, atol=1e-5)
    if y.grad is not None:
        assert torch.allclose(tiled.by_mode(other.grad), y.grad, atol=1e-5)


@pytest.mark.spec("A9", "A20", "FIT.order")
@pytest.mark.parametrize("capacity", [None, 1])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_projection_and_scatter_follow_the_layout(tiled, layout, capacity):
    values = torch.randn(8, 6)
    made = matrix(tiled, values, (2, 2), (4, 3), layout, primary_capacity=capacity)
    chosen = TileSelection([[1], [1, 0]])
    part = values[4:, [3, 4, 5, 0, 1, 2]]
    compact = made.carrier.project(made.tensor, chosen).wait()
    assert torch.equal(tiled.by_mode(compact), part)
    weight = torch.randn(4, 6)
    sw.mul(compact, sw.from_torch(weight)).backward(sw.ones((4, 6)))
    wanted = torch.zeros(8, 6)
    wanted[4:, [3, 4, 5, 0, 1, 2]] = weight
    every = TileSelection([[0, 1], [0, 1]])
    gradient = made.tensor.grad
    assert torch.equal(tiled.by_mode(gradient.carrier.project(gradient, every).wait()), wanted)
    piece = sw.from_torch(weight)
    for reduction, sums in (("replace", weight), ("add", weight + part)):
        result = made.carrier.scatter(piece, made.tensor, chosen, reduction).wait()
        assert result.layout == made.tensor.layout
        assert torch.equal(tiled.by_mode(result.carrier.project(result, chosen).wait()), sums)
