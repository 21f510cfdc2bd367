"""Reverse mode: accumulation, saved versions, freeing, modes, views. Oracle: hand-derived numbers."""

from __future__ import annotations

import threading

import pytest

import strideweave as sw
from strideweave.testing import Fault, fail_at

pytestmark = pytest.mark.spec("autograd")


def scalar(x):
    """The sum of a flat tensor as a tensor of one value."""
    return sw.reduce_sum(sw.reshape(x, (x.size(), 1)), "a b -> b")


def test_gradients_accumulate_over_paths_and_backwards():
    x = sw.tensor([1.0, 2.0, 3.0])
    y = scalar(x * x + x)
    y.backward(retain_graph=True)
    assert x.grad.tolist() == [3.0, 5.0, 7.0]
    y.backward()
    assert x.grad.tolist() == [6.0, 10.0, 14.0]


def test_one_node_per_operation_with_its_inputs():
    x, w = sw.tensor([1.0, 2.0]), sw.tensor([3.0, 4.0])
    y = x * w
    assert y.autograd_ctx.inputs() == (x, w) and y.autograd_ctx.name == "mul"
    assert x.autograd_ctx is None and x.is_leaf() and not y.is_leaf()
    ints = sw.tensor([1, 2], dtype=sw.Int32)
    assert (ints + ints).autograd_ctx is None and not (ints + ints).is_differentiable()


def test_modes_are_per_thread_and_nest():
    seen = []
    with sw.no_grad():
        assert not sw.is_grad_enabled() and (sw.tensor([1.0]) * 2).autograd_ctx is None
        thread = threading.Thread(target=lambda: seen.append(sw.is_grad_enabled()))
        thread.start()
        thread.join()
        with sw.enable_grad():
            assert (sw.tensor([1.0]) * 2).autograd_ctx is not None
        assert not sw.is_grad_enabled()
    assert sw.is_grad_enabled() and seen == [True]
    with sw.set_grad_enabled(False):
        assert not sw.tensor([1.0]).is_differentiable()
    assert sw.is_grad_enabled()

    @sw.no_grad()
    def inner():
        return sw.is_grad_enabled()

    assert inner() is False and inner() is False and sw.is_grad_enabled()


def test_a_write_between_forward_and_backward_is_refused_and_nothing_written():
    x, w = sw.tensor([1.0, 2.0]), sw.tensor([3.0, 4.0])
    y = scalar(x * w)
    w.carrier.set_value(0, 9.0)
    with pytest.raises(RuntimeError, match="written after"):
        y.backward()
    assert x.grad is None and w.grad is None
    z = scalar(x + w)
    w.carrier.set_value(0, 1.0)
    z.backward()
    assert x.grad.tolist() == [1.0, 1.0], "add saves no value, so a write does not matter"


def test_a_torch_write_to_shared_memory_is_noticed():
    import torch

    memory = torch.tensor([1.0, 2.0])
    x = sw.from_torch(memory)
    y = scalar(x * x)
    memory.add_(1)
    with pytest.raises(RuntimeError, match="written after"):
        y.backward()
    assert x.grad is None


def test_releasing_a_saved_value_is_noticed():
    x, w = sw.tensor([1.0]), sw.tensor([2.0])
    y = x * w
    w.carrier.release()
    with pytest.raises(RuntimeError, match="released"):
        y.backward()
    assert x.grad is None


def test_a_freed_graph_is_refused():
    x = sw.tensor([1.0])
    y = x * x
    y.backward()
    with pytest.raises(RuntimeError, match="retain_graph"):
        y.backward()
    assert x.grad.tolist() == [2.0]


def test_backward_checks_its_arguments():
    x = sw.tensor([1.0, 2.0])
    y = x * x
    with pytest.raises(ValueError, match="several values"):
        y.backward()
    with pytest.raises(TypeError, match="create_graph"):
        y.backward(sw.ones(2), create_graph=True)
    with pytest.raises(TypeError, match="expected a Tensor"):
        y.backward([1.0, 1.0])
    with pytest.raises(TypeError, match="BFloat16"):
        y.backward(sw.ones(2, dtype=sw.BFloat16))
    with pytest.raises(ValueError, match="shape"):
        y.backward(sw.ones((2, 1)))
    with pytest.raises(ValueError, match="shape"):
        y.backward(sw.ones(3))
    with sw.no_grad(), pytest.raises(RuntimeError, match="wants no gradient"):
        (x * x).backward(sw.ones(2))
    assert x.grad is None
    y.backward(sw.ones(2))
    assert x.grad.tolist() == [2.0, 4.0]


def test_retain_grad_and_grad_function():
    x = sw.tensor([2.0])
    y = x * 3
    y.retain_grad()
    z = y * y
    gy, gx, none = sw.grad(z, (y, x, sw.tensor([1.0])), retain_graph=True)
    assert gy.tolist() == [12.0] and gx.tolist() == [36.0] and none is None
    assert x.grad is None and y.grad is None
    z.backward()
    assert y.grad.tolist() == [12.0] and x.grad.tolist() == [36.0]
    with pytest.raises(RuntimeError, match="wants no gradient"):
        sw.tensor([1], dtype=sw.Int32).retain_grad()


def test_gradients_have_the_leafs_exact_class_and_type(tmp_path):
    leaf = sw.Tensor(sw.FileBacked(tmp_path / "w", 0).new_like([1.0, 2.0]), 0, sw.Layout(2))
    y = sw.move(leaf, sw.CPU(0))
    scalar(y * y).backward()
    assert type(leaf.grad.carrier) is sw.FileBacked and leaf.grad.tolist() == [2.0, 4.0]
    y2 = sw.move(leaf, sw.CPU(0))
    scalar(y2).backward()
    assert leaf.grad.tolist() == [3.0, 5.0], "accumulates across carriers that only store"
    half = sw.tensor([1.0, 2.0], dtype=sw.BFloat16)
    scalar(half * sw.tensor([1.5, 2.5])).backward()
    assert half.grad.dtype() is sw.BFloat16 and half.grad.tolist() == [1.5, 2.5]


def test_views_share_and_differentiate():
    x = sw.tensor(range(12), shape=(3, 4))
    row, block = x[1], x[0:2, 1::2]
    assert row.carrier is x.carrier and row.tolist() == [1.0, 4.0, 7.0, 10.0]
    assert block.shape.extents == (2, 2) and block.tolist() == [3.0, 4.0, 9.0, 10.0]
    (scalar(row) + scalar(block) * 10).backward()
    assert x.grad.tolist() == [0, 1, 0, 10, 11, 0, 0, 1, 0, 10, 11, 0]
    assert x[-1, -1].item() == 11.0 and x[..., 0].tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize(
    ("key", "error"),
    [(3, IndexError), ((0, 0, 0), IndexError), ("a", TypeError), (True, TypeError), (slice(0, 0), ValueError),
     (slice(None, None, -1), ValueError)],
)  # fmt: skip
def test_slices_refuse(key, error):
    with pytest.raises(error):
        sw.tensor(range(12), shape=(3, 4))[key]


def test_nested_modes_slice_by_linear_index():
    x = sw.Tensor(sw.tensor(range(26)).carrier, 0, sw.Layout(((2, 3), 4), ((3, 8), 2)))
    expected = [[x.value((i, j)) for i in range(6)] for j in range(4)]
    assert x[:, 2].tolist() == expected[2] and x[0:4:2, 1].tolist() == expected[1][0:4:2]
    with pytest.raises(ValueError):
        x[1:4, 0]


def test_rearrange_reshape_broadcast():
    x = sw.tensor(range(6), shape=(2, 3))
    t = sw.rearrange(x, "a b -> b a")
    assert t.carrier is x.carrier and t.tolist() == [0, 2, 4, 1, 3, 5]
    g = sw.rearrange(x, "a b -> (b a)")
    assert g.shape.extents == ((3, 2),) and g.tolist() == [0, 2, 4, 1, 3, 5]
    s = sw.rearrange(sw.tensor(range(6)), "(a b) -> b a", a=2)
    assert s.shape.extents == (3, 2) and s.tolist() == [0, 2, 4, 1, 3, 5]
    weights = sw.tensor([1, 10, 100, 1000, 10000, 100000], shape=(3, 2))
    scalar(t * weights).backward()
    assert x.grad.tolist() == [1, 1000, 10, 10000, 100, 100000]
    r = sw.reshape(t, 6)
    assert r.carrier is not x.carrier and r.tolist() == [0, 2, 4, 1, 3, 5], "no view exists, so a copy"
    assert sw.reshape(x, (3, 2)).carrier is x.carrier
    b = sw.broadcast_to(sw.tensor([1.0, 2.0], shape=(2, 1)), (2, 3))
    assert b.tolist() == [1, 2, 1, 2, 1, 2]
    y = sw.tensor([1.0, 2.0], shape=(2, 1))
    scalar(sw.broadcast_to(y, (2, 3))).backward()
    assert y.grad.tolist() == [3.0, 3.0]
    for bad in ("a b -> a", "a b c -> a b c", "a b -> a c", "(a b", "a b -> a b -> a"):
        with pytest.raises(ValueError):
            sw.rearrange(x, bad)
    with pytest.raises(ValueError):
        sw.reshape(x, 7)
    with pytest.raises(ValueError):
        sw.broadcast_to(x, (2, 6))


def test_a_fault_in_backward_leaves_every_gradient_and_the_graph():
    x, w = sw.tensor([1.0, 2.0]), sw.tensor([3.0, 4.0])
    y = scalar(x * w + x)
    for n in range(1, 100):
        with fail_at(n) as counter:
            try:
                y.backward(retain_graph=True)
            except Fault:
                assert x.grad is None and w.grad is None
                continue
        assert not counter.fired and n > 4, "several provider calls were made to fail"
        break
    assert x.grad.tolist() == [4.0, 5.0] and w.grad.tolist() == [1.0, 2.0]


def test_deep_graphs_do_not_recurse():
    x = sw.tensor([1.0])
    y = x
    for _ in range(3000):
        y = y + x
    y.backward()
    assert x.grad.tolist() == [3001.0]
