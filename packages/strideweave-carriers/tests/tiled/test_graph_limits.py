"""What a backward needs of tiled operands, and what it lets be. Oracles: the same steps on ordinary tensors, whose
rules are those of every operation; and what a policy was asked, counted.
"""

from __future__ import annotations

import pytest
import torch
from expert_tiles import choose, tiles

import strideweave as sw
from strideweave.carriers.tiled_evictable import TiledEvictable, TileSelection, TileSet
from strideweave.testing import gated, sweep

SIX = {
    "add": lambda t, o: sw.add(t, o),
    "elementwise_mul": lambda t, o: sw.elementwise_mul(t, o),
    "mul": lambda t, o: sw.mul(t, o),
    "scaled": lambda t, o: sw.mul(2.0, t),
    "relu": lambda t, o: sw.relu(t),
    "reduce_sum": lambda t, o: sw.reduce_sum(t, "a b -> a"),
    "matmul": lambda t, o: sw.matmul(t, o),
}


def twins(values: torch.Tensor):
    """A tiled matrix and an ordinary one of the same values and shape tree."""
    full = TiledEvictable.from_torch(values.clone(), (2, 2), copy=True)
    twin = sw.Tensor(sw.from_torch(values.t().contiguous().view(-1)).carrier, 0, sw.Layout(full.shape))
    return full, twin


def ordinary(like: sw.Tensor, values: torch.Tensor) -> sw.Tensor:
    """The values, a matrix or a column, as an ordinary tensor of the shape tree of ``like``."""
    return sw.Tensor(sw.from_torch(values.t().contiguous().view(-1)).carrier, 0, sw.Layout(like.shape))


def numbers(tensor: sw.Tensor) -> list[float]:
    carrier = tensor.carrier
    if isinstance(carrier, TiledEvictable):
        tensor = carrier.project(tensor, TileSelection([range(n) for n in carrier.grid_shape])).wait()
    return tensor.tolist()


def refused(root: sw.Tensor) -> bool:
    """Whether a backward from ``root`` finds a saved value written."""
    try:
        root.backward(ordinary(root, torch.ones(root.size())))
    except RuntimeError as error:
        assert "was written after the operation" in str(error)
        return True
    return False


@pytest.mark.spec("GRD.captures")
@pytest.mark.parametrize("written", ["target", "other"])
@pytest.mark.parametrize("name", SIX)
def test_a_write_matters_to_the_operations_that_look_at_the_value(name, written):
    """As for ordinary operands, and no gradient is written where it does."""
    found = []
    for target in twins(torch.randn(4, 4)):
        other = ordinary(target, torch.randn(4, 4))
        root = SIX[name](target, other)
        (target if written == "target" else other).carrier.set_value(0, 1.0)
        found.append(refused(root))
        assert (target.grad is None) == found[-1]
    assert (
        found[0]
        == found[1]
        == (
            name in ("elementwise_mul", "mul", "matmul")
            or (name in ("relu", "scaled") and written == "target")
        )
    )


@pytest.mark.parametrize("wants", ["tiled", "ordinary"])
@pytest.mark.parametrize("name", ["add", "mul", "matmul"])
def test_one_operand_that_wants_a_gradient_is_enough(name, wants):
    values, weights = torch.randn(4, 4), torch.randn(4, 4)
    found = []
    for kind in (0, 1):
        with sw.set_grad_enabled(wants == "tiled"):
            target = twins(values)[kind]
        with sw.set_grad_enabled(wants != "tiled"):
            other = ordinary(target, weights)
        root = SIX[name](target, other)
        root.backward(ordinary(root, torch.ones(root.size())))
        with_grad, without = (target, other) if wants == "tiled" else (other, target)
        assert without.grad is None
        found.append(torch.tensor(numbers(with_grad.grad)))
    assert torch.allclose(*found, atol=1e-5)


def test_relu_has_no_slope_at_zero_and_none_at_nan():
    """Cotangents that are not finite included: the product with a slope of 0, as for ordinary operands."""
    nan, inf = float("nan"), float("inf")
    values = torch.tensor([[0.0, -0.0, nan, 1.0], [-1.0, inf, -inf, 2.0]])
    cotangent = torch.tensor([[5.0, 5.0, 5.0, inf], [inf, nan, 7.0, -3.0]])
    found = []
    for target in twins(values):
        root = sw.relu(target)
        root.backward(ordinary(root, cotangent))
        found.append(torch.tensor(numbers(target.grad)))
    assert torch.equal(found[0].nan_to_num(99.0), found[1].nan_to_num(99.0))
    assert found[0][0] == found[0][2] == 0.0, "at zeros of either sign"


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_sums_are_carried_wide_and_rounded_once(dtype):
    """A 16-bit float loses every single one that is added to 2**12; carried in 32 bits none is lost."""
    values = torch.ones(2, 32, dtype=dtype)
    values[:, 0] = 2.0**12
    wanted = torch.full((2,), 2.0**12 + 31).to(dtype).tolist()
    full = TiledEvictable.from_torch(values.clone(), (2, 1), copy=True)
    assert sw.reduce_sum(full, "a b -> a").tolist() == wanted
    # The gradient of a column that is repeated along the rows is the sum of theirs.
    column = TiledEvictable.from_torch(torch.ones(2, 1, dtype=dtype), (1, 1))
    other = sw.from_torch(torch.ones(2, 32, dtype=dtype))
    for root in (sw.add(column, other), sw.mul(other, column)):
        column.grad = None
        root.backward(ordinary(root, values))
        assert numbers(column.grad) == wanted


@pytest.mark.spec("A95", "TRN.refuse_hidden")
def test_a_backward_minds_requests_for_its_own_tiles_only(tiled):
    policy = tiled.Recorder()
    made = tiled.make(residency_policy=policy)
    compact = made.carrier.project(made.tensor, choose(0)).wait()
    policy.asked.clear()
    made.carrier.evict(tiles(0))
    with gated("copy") as gate:
        handle = made.carrier.promote_async(tiles(0))
        with pytest.raises(RuntimeError, match=r"incomplete promote; wait\(\)"):
            compact.backward(sw.ones((1, 3, 2)))
        assert policy.asked == [] and made.tensor.grad is None
        gate.open()
        handle.wait()
    with gated("copy") as gate:
        handle = made.carrier.promote_async(tiles(3))
        compact.backward(sw.ones((1, 3, 2)))
        assert not handle.done
        gate.open()
        handle.wait()
    assert [purpose for _, purpose in policy.asked] == ["backward"]
    assert made.tensor.grad.carrier.get_value(0) == 1.0


@pytest.mark.spec("A51")
@pytest.mark.parametrize("node", ["project", "scatter", "direct"])
def test_a_node_of_tiles_runs_once_unless_it_is_retained(experts, node):
    root = {
        "project": lambda: experts.carrier.project(experts.tensor, choose(0)).wait(),
        "scatter": lambda: experts.carrier.scatter(
            sw.ones((1, 3, 2)), experts.tensor, choose(0), "add"
        ).wait(),
        "direct": lambda: sw.add(experts.tensor, experts.tensor),
    }[node]()
    ones = ordinary(root, torch.ones(root.size()))
    root.backward(ones, retain_graph=True)
    once = experts.tensor.grad.carrier.get_value(0)
    root.backward(ones)
    assert experts.tensor.grad.carrier.get_value(0) == 2 * once > 0
    with pytest.raises(RuntimeError, match="retain_graph"):
        root.backward(ones)


def test_what_is_made_of_tiles_has_their_capacity_and_not_their_policy(tiled):
    policy = tiled.Recorder()
    made = tiled.make(residency_policy=policy, primary_capacity=2)
    piece = sw.ones((1, 3, 2))
    scattered = made.carrier.scatter(piece, made.tensor, choose(1), "add").wait()
    made.carrier.project(made.tensor, choose(2)).wait().backward(sw.ones((1, 3, 2)))
    gathered, made.tensor.grad = made.tensor.grad, None
    sw.relu(made.tensor).backward(ordinary(made.tensor, torch.ones(24)))
    asked = len(policy.asked)
    for result in (scattered, gathered, made.tensor.grad):
        assert result.carrier.residency_policy is None and result.carrier.primary_capacity == 2
        result.carrier.project(result, choose(1)).wait()
    assert len(policy.asked) == asked and made.carrier.residency_policy is policy


@pytest.mark.spec("POL.executes")
def test_a_branch_that_no_gradient_reaches_is_not_asked_about(tiled):
    """What is overwritten has no gradient, so nobody is asked for the tiles that it was made of, and none moves."""
    policy = tiled.Recorder()
    made = tiled.make(residency_policy=policy)
    piece = made.carrier.project(made.tensor, choose(2)).wait()
    first = made.carrier.scatter(piece, made.tensor, choose(1), "add").wait()
    over = sw.ones((1, 3, 2))
    second = first.carrier.scatter(over, first, choose(1), "replace").wait()
    made.carrier.evict(TileSet((k, 0, 0) for k in range(4)))
    policy.asked.clear()
    second.carrier.project(second, choose(1)).wait().backward(sw.ones((1, 3, 2)))
    assert policy.asked == [] and made.carrier.primary_tiles == TileSet()
    assert made.tensor.grad is None and piece.grad is None and sw.to_torch(over.grad).sum() == 6.0


@pytest.mark.spec("LIFE.failure")
def test_a_backward_that_fails_at_one_leaf_writes_no_other(tiled):
    """Oracle: the gradients before, whichever provider call of two leaves' sums fails."""
    leaves = [tiled.make(grid=(2, 1, 1)) for _ in range(2)]

    def root():
        parts = [leaf.carrier.project(leaf.tensor, choose(0, 1)).wait() for leaf in leaves]
        return sw.add(*parts)

    ones = sw.ones((2, 3, 2))
    root().backward(ones)
    before, again = [leaf.tensor.grad for leaf in leaves], root()

    def verify():
        assert all(leaf.tensor.grad is old for leaf, old in zip(leaves, before, strict=True))

    assert sweep(lambda: again.backward(ones, retain_graph=True), verify) >= 4
    assert [leaf.tensor.grad.carrier.get_value(0) for leaf in leaves] == [2.0, 2.0]


@pytest.mark.spec("SCT.replace")
def test_replacing_needs_no_value_in_the_template(tiled):
    made = tiled.make(where="none")
    result = made.carrier.scatter(sw.ones((1, 3, 2)), made.tensor, choose(2)).wait()
    assert result.carrier.valid_tiles == tiles(2) and made.carrier.valid_tiles == TileSet()
