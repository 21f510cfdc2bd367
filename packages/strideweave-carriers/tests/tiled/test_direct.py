"""Direct operations. Oracle: the same operation on an ordinary dense tensor, and torch autograd."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import strideweave as sw
from strideweave.carriers.tiled_evictable import TiledEvictable, TileSelection, TileSet

SIX = {
    "add": lambda t, o: sw.add(t, o),
    "elementwise_mul": lambda t, o: sw.elementwise_mul(t, o),
    "mul": lambda t, o: sw.mul(t, o),
    "relu": lambda t, o: sw.relu(t),
    "reduce_sum": lambda t, o: sw.reduce_sum(t, "a b -> a"),
    "matmul": lambda t, o: sw.matmul(t, o),
}


def matrix(tiled, values, grid=(2, 3), tile=(2, 2), layout=TiledEvictable.canonical_layout, **options):
    """A tiled matrix with these logical values (rows, columns), and its dense twin of the same shape tree."""
    made = tiled.make(grid, tile, layout=layout, dtype=options.pop("dtype", sw.Float32), **options)
    tensor = made.tensor
    rows, columns = values.shape
    modes = tensor.layout.modes()
    flat = torch.empty(rows * columns, dtype=values.dtype)
    for i, j in itertools.product(range(rows), range(columns)):
        flat[modes[0](i) + modes[1](j)] = values[i, j]
    made.tiers["secondary"].store_bytes(0, memoryview(flat.view(torch.uint8).numpy().tobytes()))
    twin = sw.Tensor(sw.from_torch(values.t().contiguous().view(-1)).carrier, 0, sw.Layout(tensor.shape))
    made.twin = twin
    return made


def plain(tiled, tensor):
    return tiled.by_mode(tensor)


@pytest.mark.spec("A65", "OPS.six", "OPS.whole", "OPS.available", "OPS.dense", "OPS.partial")
@pytest.mark.parametrize("resident", ["none", "some", "all"])
@pytest.mark.parametrize("name", SIX)
def test_six_operations_whatever_is_resident(tiled, name, resident):
    values = torch.randn(4, 6)
    made = matrix(tiled, values)
    every = TileSet(itertools.product(range(2), range(3)))
    made.carrier.promote({"none": TileSet(), "some": TileSet([(1, 0), (0, 2)]), "all": every}[resident])
    other = sw.Tensor(sw.from_torch(torch.randn(24)).carrier, 0, sw.Layout(made.tensor.shape))
    found, expected = SIX[name](made.tensor, other), SIX[name](made.twin, other)
    assert type(found.carrier) is sw.CPU and found.layout == expected.layout
    assert torch.allclose(plain(tiled, found), plain(tiled, expected), atol=1e-5)


@pytest.mark.spec("A66", "OPS.mul")
def test_products_with_numbers(tiled):
    values = torch.randn(4, 6)
    made = matrix(tiled, values)
    for factor in (2, 2.5, True):
        for found in (sw.mul(made.tensor, factor), sw.mul(factor, made.tensor)):
            assert torch.equal(plain(tiled, found), values * float(factor))
    ints = matrix(tiled, torch.arange(24, dtype=torch.int32).view(4, 6), dtype=sw.Int32)
    assert sw.mul(ints.tensor, 3).dtype() is sw.Int32 and sw.mul(ints.tensor, 0.5).dtype() is sw.Float32
    assert torch.equal(
        plain(tiled, sw.mul(3, ints.tensor)), torch.arange(24, dtype=torch.int32).view(4, 6) * 3
    )
    with pytest.raises(TypeError):
        sw.mul(ints.tensor, "2")
    with pytest.raises(OverflowError):
        sw.mul(ints.tensor, 2**30)


@pytest.mark.spec("A67", "OPS.others")
def test_other_operations_have_no_plan(tiled):
    tensor = matrix(tiled, torch.randn(4, 6)).tensor
    for call in (
        lambda: sw.sub(tensor, tensor),
        lambda: sw.exp(tensor),
        lambda: sw.reshape(tensor, (24,)),
        lambda: sw.rearrange(tensor, "a b -> b a"),
        lambda: tensor[0:1],
        lambda: sw.softmax(tensor),
        lambda: sw.move(tensor, sw.CPU(0)),
        lambda: sw.move_async(sw.ones((4, 6)), tensor.carrier),
    ):
        with pytest.raises(sw.UnsupportedOperationPlan, match="project"):
            call()
    assert sw.operation_capabilities(tensor.carrier) == set(SIX)
    assert sw.supports_operation_plan("relu", tensor) and not sw.supports_operation_plan("exp", tensor)


@pytest.mark.spec("A68", "OPS.one_node")
def test_one_node_for_each(tiled):
    made = matrix(tiled, torch.randn(4, 6))
    column = sw.Tensor(sw.from_torch(torch.randn(4)).carrier, 0, sw.Layout(((2, 2), (1, 1))))
    for result in (
        sw.reduce_sum(made.tensor, "a b -> a"),
        sw.add(made.tensor, column),
        sw.relu(made.tensor),
        sw.matmul(made.tensor, made.tensor),
        sw.mul(made.tensor, 2),
    ):
        assert made.tensor in result.autograd_ctx.inputs() and result.carrier.size() == result.size()
        assert all(t.autograd_ctx is None for t in result.autograd_ctx.inputs())
    with sw.no_grad():
        assert sw.relu(made.tensor).autograd_ctx is None


@pytest.mark.spec("A69")
def test_ordinary_operands_on_either_side(tiled):
    values = torch.randn(4, 6)
    made = matrix(tiled, values)
    other = torch.randn(4, 6)
    dense = sw.Tensor(sw.from_torch(other.t().contiguous().view(-1)).carrier, 0, sw.Layout(made.tensor.shape))
    for found in (sw.add(made.tensor, dense), sw.add(dense, made.tensor)):
        assert torch.equal(plain(tiled, found), values + other)
    generic = sw.Tensor(sw.Generic([0.0] * 24), 0, sw.Layout(made.tensor.shape))
    for pair in ((made.tensor, generic), (generic, made.tensor)):
        with pytest.raises(TypeError, match="Generic"):
            sw.add(*pair)


@pytest.mark.spec("A70", "OPS.projected")
def test_a_projected_tensor_has_the_full_surface(tiled, experts):
    compact = experts.carrier.project(experts.tensor, TileSelection([[1, 2], [0], [0]])).wait()
    full = tiled.by_mode(compact)
    assert torch.allclose(tiled.by_mode(sw.exp(compact)), full.exp())
    assert torch.equal(tiled.by_mode(sw.sub(compact, compact)), full * 0)
    assert sw.reshape(compact, (12,)).size() == 12
    assert sw.exp(compact).autograd_ctx.inputs() == (compact,)


@pytest.mark.spec("A71", "POL.none", "A96")
@pytest.mark.parametrize("capacity", [None, 1, 4])
@pytest.mark.parametrize("name", SIX)
def test_gradients_with_saved_tiles_evicted(tiled, name, capacity):
    values = torch.randn(4, 6)
    made = matrix(tiled, values, primary_capacity=capacity)
    other_values = torch.randn(4, 6)
    other = sw.Tensor(
        sw.from_torch(other_values.t().contiguous().view(-1)).carrier, 0, sw.Layout(made.tensor.shape)
    )
    root = SIX[name](made.tensor, other)
    made.carrier.evict(TileSet(itertools.product(range(2), range(3))))
    weight = torch.randn(plain(tiled, root).shape)
    flat = weight.t().contiguous() if weight.ndim == 2 else weight
    root.backward(sw.Tensor(sw.from_torch(flat.view(-1)).carrier, 0, sw.Layout(root.shape)))
    x, y = values.clone().requires_grad_(), other_values.clone().requires_grad_()
    formula = {
        "add": lambda: x + y,
        "elementwise_mul": lambda: x * y,
        "mul": lambda: x * y,
        "relu": lambda: x.relu(),
        "reduce_sum": lambda: x.sum(1),
        "matmul": lambda: x @ y.t(),
    }[name]()
    formula.backward(weight)
    gradient = made.tensor.grad
    assert type(gradient.carrier) is TiledEvictable and gradient.layout == made.tensor.layout
    compact = gradient.carrier.project(gradient, TileSelection([range(2), range(3)])).wait()
    assert torch.allclose(plain(tiled, compact), x.grad, atol=1e-5)
    if y.grad is not None:
        assert torch.allclose(plain(tiled, other.grad), y.grad, atol=1e-5)
    if capacity:
        for carrier in (made.carrier, gradient.carrier):
            assert carrier.stats().peak_resident_tiles <= capacity


@pytest.mark.spec("A72", "A108", "OPS.available")
@pytest.mark.parametrize("dtype", [sw.Float32, sw.BFloat16])
@pytest.mark.parametrize("name", SIX)
def test_capacity_and_residency_change_no_bit(tiled, name, dtype):
    values = torch.randn(6, 9).to(dtype.torch())
    other_values = torch.randn(54).to(dtype.torch())
    results = set()
    for capacity, resident in ((None, True), (None, False), (1, False), (3, True), (9, True)):
        made = matrix(tiled, values, (3, 3), (2, 3), dtype=dtype, primary_capacity=capacity)
        if resident:
            made.carrier.promote(TileSet([(2, 2), (0, 1), (1, 0)]))
        other = sw.Tensor(sw.from_torch(other_values).carrier, 0, sw.Layout(made.tensor.shape))
        found = SIX[name](made.tensor, other)
        data = bytearray(found.carrier.nbytes())
        found.carrier.load_bytes(0, memoryview(data))
        results.add(bytes(data))
        assert made.carrier.stats().peak_resident_tiles <= (capacity or 9)
    assert len(results) == 1


@pytest.mark.spec("A9", "OPS.whole")
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_random_matrices_layouts_and_two_tiled_operands(tiled, data):
    rows, columns, depth = (data.draw(st.sampled_from([1, 2, 4, 6])) for _ in range(3))

    def random(r, c):
        tile = [data.draw(st.sampled_from([d for d in (1, 2, 3, 4, 6) if n % d == 0])) for n in (r, c)]
        layout = data.draw(
            st.sampled_from([TiledEvictable.canonical_layout, TiledEvictable.row_major_layout])
        )
        count = (r // tile[0]) * (c // tile[1])
        values = torch.randint(-4, 5, (r, c)).float()
        capacity = data.draw(st.integers(1, count))
        return matrix(
            tiled, values, (r // tile[0], c // tile[1]), tile, layout, primary_capacity=capacity
        ), values

    a, x = random(rows, depth)
    b, y = random(columns, depth)
    assert torch.equal(plain(tiled, sw.matmul(a.tensor, b.tensor)), x @ y.t())
    x.requires_grad_(), y.requires_grad_()
    root = sw.matmul(a.tensor, b.tensor)
    root.backward(sw.ones(root.shape))
    (x @ y.t()).sum().backward()
    for made, wanted in ((a, x.grad), (b, y.grad)):
        gradient = made.tensor.grad
        compact = gradient.carrier.project(
            gradient, TileSelection([range(n) for n in made.carrier.grid_shape])
        ).wait()
        assert torch.equal(plain(tiled, compact), wanted)


@pytest.mark.parametrize("capacity", [None, 1])
def test_broadcasts(tiled, capacity):
    values, wide = torch.randn(1, 4), torch.randn(3, 4)
    made = tiled.make((1, 2), (1, 2), primary_capacity=capacity, layout=lambda c: sw.Layout((1, 4), (0, 1)))
    made.tiers["secondary"].store_bytes(0, memoryview(values.view(-1).numpy().tobytes()))
    other = sw.from_torch(wide)
    for name, formula in (("add", lambda a, b: a + b), ("mul", lambda a, b: a * b)):
        made.tensor.grad = other.grad = None
        result = SIX[name](made.tensor, other)
        x, y = values.clone().requires_grad_(), wide.clone().requires_grad_()
        expected = formula(x, y)
        assert torch.equal(tiled.by_mode(result), expected.detach())
        result.backward(sw.ones(result.shape))
        expected.sum().backward()
        gradient = made.tensor.grad
        compact = gradient.carrier.project(gradient, TileSelection([[0], [0, 1]])).wait()
        assert torch.allclose(tiled.by_mode(compact), x.grad) and torch.allclose(
            tiled.by_mode(other.grad), y.grad
        )


def test_generic_primaries_compute_by_the_reference(tiled):
    made = tiled.make((2, 2), (2, 2), prototype=lambda n: sw.Generic([0.0] * n), primary_capacity=1)
    full = tiled.dense(made.tensor, made.values)
    found = sw.matmul(made.tensor, made.tensor)
    assert type(found.carrier) is sw.Generic and torch.equal(tiled.by_mode(found), full @ full.t())
    found.backward(sw.Tensor(sw.Generic([1.0] * 16), 0, sw.Layout(found.shape)))
    assert type(made.tensor.grad.carrier) is TiledEvictable


def test_shapes_that_do_not_fit_one_another(tiled):
    made = matrix(tiled, torch.randn(4, 6))
    with pytest.raises(ValueError):
        sw.add(made.tensor, sw.ones((4, 6)))
    with pytest.raises(ValueError):
        sw.matmul(made.tensor, sw.ones((2, 5)))


@pytest.mark.parametrize("name", ["relu", "mul"])
def test_a_tiled_gradient_of_a_dense_result(tiled, name):
    """Only the gradient is gathered, which is as large as the result is; no operand is. Oracle: torch."""
    values, weights = torch.randn(4, 6), torch.randn(4, 6)
    made, gradient = matrix(tiled, values, primary_capacity=2), matrix(tiled, weights, primary_capacity=2)
    result = sw.relu(made.tensor) if name == "relu" else sw.mul(made.tensor, 3.0)
    x = values.clone().requires_grad_()
    (x.relu() if name == "relu" else x * 3.0).backward(weights)
    result.backward(gradient.tensor)
    found = made.tensor.grad
    every = TileSelection([range(n) for n in made.carrier.grid_shape])
    assert torch.equal(plain(tiled, found.carrier.project(found, every).wait()), x.grad)
    assert made.carrier.stats().peak_resident_tiles <= 2
