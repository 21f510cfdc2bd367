"""No two gradients share storage with one another, with what backward was given, or with the values. Oracle: a write
to one of them, after which every other is as it was.
"""

from __future__ import annotations

import pytest

import strideweave as sw
from strideweave.carriers.tiled_evictable import TiledEvictable

KINDS = ["cpu", "generic", "evictable", "tiled"]


def leaf(kind, value):
    """Four equal values on a carrier of the kind."""
    values = [float(value)] * 4
    if kind == "tiled":
        return TiledEvictable(sw.CPU(0), sw.CPU(4).new_like(values), (2,), (2,)).full_tensor()
    carrier = {
        "cpu": lambda: sw.CPU(4).new_like(values),
        "generic": lambda: sw.Generic(values),
        "evictable": lambda: sw.Evictable(sw.CPU(4).new_like(values), sw.CPU(0)),
    }[kind]()
    return sw.Tensor(carrier, 0, sw.Layout(((2, 2),)))


def first(tensor):
    return tensor.carrier.get_value(tensor.offset)


def written_one_by_one(tensors):
    """Write the first slot of each in turn: only its own value changes."""
    for k, tensor in enumerate(tensors):
        before = [first(t) for t in tensors]
        tensor.carrier.set_value(tensor.offset, 100.0 + k)
        assert [first(t) for t in tensors] == [*before[:k], 100.0 + k, *before[k + 1 :]]


@pytest.mark.parametrize("kind", KINDS)
def test_a_leaf_and_its_gradient(kind):
    x, g = leaf(kind, 1), leaf(kind, 2)
    x.backward(g)
    assert type(x.grad.carrier) is type(x.carrier) and first(x.grad) == 2.0
    written_one_by_one([x, g, x.grad])
    y = leaf(kind, 3)
    y.backward(y)
    written_one_by_one([y, y.grad])


@pytest.mark.parametrize("kind", KINDS)
def test_two_leaves_of_one_sum(kind):
    a, b = leaf(kind, 1), leaf(kind, 2)
    total = sw.add(a, b)
    g = sw.Tensor(sw.CPU(4) if kind != "generic" else sw.Generic([0.0] * 4), 0, sw.Layout(total.shape))
    if kind != "evictable":
        total.retain_grad()
    total.backward(g, retain_graph=True)
    seen = [a, b, a.grad, b.grad, g] + ([total.grad] if kind != "evictable" else [])
    written_one_by_one(seen)
    kept = first(a.grad)
    # Sums are fresh, too.
    g.carrier.set_value(0, 1.0)
    total.backward(g)
    assert first(a.grad) == kept + 1.0
    written_one_by_one([a.grad, b.grad, g])


@pytest.mark.parametrize("kind", KINDS)
def test_grad_gives_results_apart(kind):
    a, b = leaf(kind, 1), leaf(kind, 2)
    total = sw.add(a, b)
    g = sw.Tensor(sw.CPU(4) if kind != "generic" else sw.Generic([0.0] * 4), 0, sw.Layout(total.shape))
    one, two, again = sw.grad(total, [a, b, a], g)
    assert again is one
    written_one_by_one([one, two, g, a, b])


def test_views_of_one_gradient():
    x = sw.tensor(range(6), shape=(2, 3))
    y = sw.tensor(range(6), shape=(3, 2))
    total = sw.add(sw.rearrange(x, "a b -> b a"), y)
    g = sw.ones((3, 2))
    total.backward(g)
    written_one_by_one([x, y, g, x.grad, y.grad])
    assert x.grad.shape == x.shape and y.grad.shape == y.shape


@pytest.mark.parametrize("given", KINDS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_gradient_is_of_its_leafs_class_whatever_backward_began_with(kind, given):
    x, g = leaf(kind, 1), leaf(given, 2)
    x.backward(g)
    assert type(x.grad.carrier) is type(x.carrier) and first(x.grad) == 2.0
    written_one_by_one([x, g, x.grad])
