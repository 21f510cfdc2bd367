"""for statements: one loop node, carried values, unrolling. Oracle: the same loop in Python on torch tensors."""

# ruff: noqa: B007
# The programs in this file are DSL source, written as a user writes them.
from __future__ import annotations

import pytest
import torch

from tilefoundry.dsl import DimVar, Tensor, func, tf, tile
from tilefoundry.evaluator import evaluate
from tilefoundry.ir.core.expr import For, Var
from tilefoundry.ir.errors import DslError
from tilefoundry.ir.types import DimVar as IrDimVar
from tilefoundry.ir.types import scalar

N = DimVar("N", 1, 100)


def loops(function):
    return [stmt for stmt in function.stmts() if isinstance(stmt, For)]


@pytest.mark.spec("dsl.loops")
def test_a_range_is_one_node_whose_carries_are_the_rebound_names():
    @func
    def f(x: Tensor[(N,), "f32"]) -> Tensor[(N,), "f32"]:
        a = x * 2.0
        b = x
        c = x + 1.0
        for i in range(2, 9, 3):
            t = a + c
            b = b * t
            a = t - b
        return a + b

    (loop,) = loops(f)
    assert (loop.kind, loop.start, loop.stop, loop.step, loop.over) == ("range", 2, 9, 3, None)
    assert loop.index == Var(scalar("i64"), "i")
    assert [carry.initial.name for carry in loop.carries] == ["x", "a"]
    x = torch.rand(4)
    a, b, c = x * 2, x, x + 1
    for _ in range(2, 9, 3):
        t = a + c
        b = b * t
        a = t - b
    torch.testing.assert_close(evaluate(f, x), a + b)


def test_a_swap_in_a_loop():
    @func
    def f(a: Tensor[(N,), "f32"], b: Tensor[(N,), "f32"]) -> Tensor[(N,), "f32"]:
        for _ in range(3):
            a, b = b, a + b
        return a - b

    a, b = torch.rand(3), torch.rand(3)
    x, y = a, b
    for _ in range(3):
        x, y = y, x + y
    torch.testing.assert_close(evaluate(f, a, b), x - y)


def test_extents_of_a_loop_may_be_dims():
    @func
    def f(x: Tensor[(N, 3), "f32"]) -> Tensor[(3,), "f32"]:
        total = tf.zeros(Tensor[(3,), "f32"])
        for i in range(N):
            total += x[i] * tf.cast(i, "f32")
        return total

    (loop,) = loops(f)
    assert loop.stop == N
    x = torch.rand(5, 3)
    torch.testing.assert_close(evaluate(f, x), (x * torch.arange(5.0)[:, None]).sum(0))


def test_a_loop_over_no_iteration_keeps_the_initial_value():
    @func
    def f(x: Tensor[(N,), "f32"]) -> Tensor[(N,), "f32"]:
        for i in range(0):
            x = x + 1.0
        return x

    assert evaluate(f, torch.tensor([5.0])).item() == 5


def test_the_index_computes_as_an_extent_and_as_a_scalar():
    @func
    def f(x: Tensor[(12,), "f32"]) -> Tensor[(2,), "f32"]:
        total = tf.zeros(Tensor[(2,), "f32"])
        for i in range(5):
            window = x[2 * i + 1 : 2 * i + 3]
            total = total + tf.where(i < 3, window, window * tf.cast((i * i - 1) // 3, "f32"))
        return total

    x = torch.rand(12)
    expected = sum(x[2 * i + 1 : 2 * i + 3] * (1.0 if i < 3 else (i * i - 1) // 3) for i in range(5))
    torch.testing.assert_close(evaluate(f, x), expected)


def test_nested_loops():
    @func
    def f(x: Tensor[(4, 3), "f32"]) -> Tensor[(), "f32"]:
        total = tf.zeros(Tensor[(), "f32"])
        for i in range(4):
            row = tf.zeros(Tensor[(), "f32"])
            for j in range(i, 3):
                row = row + x[i, j]
            total = total + row * row
        return total

    x = torch.rand(4, 3)
    expected = sum(x[i, i:].sum() ** 2 for i in range(4))
    torch.testing.assert_close(evaluate(f, x), expected)


def test_a_name_bound_afresh_in_the_body_may_change_its_type():
    @func
    def f(x: Tensor[(N,), "f32"]) -> Tensor[(N,), "f32"]:
        t = x > 0.0
        y = tf.where(t, x, 0.0)
        for _ in range(2):
            t = y * y
            y = y + t
        return y

    (loop,) = loops(f)
    assert len(loop.carries) == 1
    x = torch.randn(5)
    y = x.clamp(min=0)
    for _ in range(2):
        y = y + y * y
    torch.testing.assert_close(evaluate(f, x), y)


@pytest.mark.spec("dsl.loops")
@pytest.mark.parametrize("rows", [4, 7, 1, 3])
def test_tiles_are_windows_and_the_last_one_is_cut(rows):
    @func
    def f(x: Tensor[(N, 3), "f32"]) -> tuple[Tensor[(N, 3), "f32"], Tensor[(3,), "f32"]]:
        y = tf.zeros(Tensor[(N, 3), "f32"])
        top = tf.full_like(x[0], -1.0e30)
        for i in tile(N, 4):
            top = tf.maximum(top, tf.reduce(x[i, :], axes=(0,), keepdim=False, kind="max"))
            y = tf.insert_slice(y, x[i, :] * 2.0 + tf.zeros(Tensor[(i.extent, 3), "f32"]), (i, 0))
        return y, top

    (loop,) = loops(f)
    assert (loop.kind, loop.start, loop.stop, loop.step) == ("tile", 0, N, 4)
    assert loop.window == IrDimVar("i_extent", 1, 5, cut=True)
    x = torch.randn(rows, 3)
    y, top = evaluate(f, x)
    assert torch.equal(y, x * 2)
    assert torch.equal(top, x.max(0).values)


def test_tiles_that_divide_the_extent_are_never_cut():
    @func
    def f(x: Tensor[(4 * N, 2), "f32"]) -> Tensor[(4, 2), "f32"]:
        total = tf.zeros(Tensor[(4, 2), "f32"])
        for i in tile(4 * N, 4):
            total = total + x[i]
        return total

    assert loops(f)[0].window is None
    x = torch.rand(12, 2)
    torch.testing.assert_close(evaluate(f, x), x.reshape(3, 4, 2).sum(0))


def test_a_static_sequence_unrolls():
    @func
    def f(x: Tensor[(N,), "f32"]) -> Tensor[(N,), "f32"]:
        for k, scale in enumerate((2.0, 3.0)):
            x = x * scale + float(k)
        return x

    assert loops(f) == []
    assert evaluate(f, torch.tensor([1.0])).item() == 7


def test_the_parts_of_a_tuple_value_unroll():
    @func
    def f(x: Tensor[(N, 4), "f32"]) -> Tensor[(N, 2), "f32"]:
        y = tf.zeros(Tensor[(N, 2), "f32"])
        for part in tf.split(x, 1, 2):
            y = y * 2.0 + part
        return y

    x = torch.rand(3, 4)
    torch.testing.assert_close(evaluate(f, x), x[:, :2] * 2 + x[:, 2:])


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("for i in x: x = x", "a tensor does not fall into parts"),
        ("for i in 5: x = x", "a tuple or a list is needed here, got 5"),
        ("for i in range(x): x = x", "range is Python code and cannot take tensors"),
        ("for i in range(1.5): x = x", "range runs over ints and extents"),
        ("for i in range(1, 2, 0): x = x", "the step of range must be at least 1"),
        ("for i in range(-2, 2): x = x", "starts below 0"),
        ("for i in range(K): x = x", "no parameter's shape gives the extent K"),
        ("for i, j in range(4): x = x", "gives one index; name it with one name"),
        ("for i in range(4): x = x[0:2]", r"x is f32\[4\] before the loop and f32\[2\] after one iteration"),
        ("for i in range(4): x = x > 0.0", "x is f32.* before the loop and bool"),
        ("for i in range(4): x = 3", "before the loop and 3 after one iteration"),
        ("for i in range(4): n = x * 1.0", "n starts as the Python number 0 and the loop makes it a tensor"),
        ("for i in range(4): n = n + 1", "the loop changes n from 0 to 1"),
        ("for i in range(4): y = x\n    x = y", "y is bound inside the loop at line 7 only"),
        ("for i in range(4): x = x\n    x = x[i]", "i is bound inside the loop at line 7 only"),
        ("for i in range(4): return x", "return inside a loop"),
        ("for i in range(4): break", "break is not part of the DSL|this Break"),
        ("for i in range(4): x = x\n    else: x = x", "for ... else"),
        ("for i in tile(8, 4): x = x + x[i]", "i runs over 8, axis 0 has the extent 4"),
        ("for i in tile(4, 0): x = x", "the step of tile must be at least 1"),
        ("for i in tile(4, 2): x = x + i", r"\+ takes tensors and numbers"),
        ("for i in tile(4, 2, over=3): x = x", "over takes an axis of a mesh"),
        ("x = [x for i in range(K)][0]", "cannot be unrolled"),
    ],
)
def test_refused_loops(run, body, message):
    with pytest.raises(DslError, match=message):
        run(
            f"""\
K = DimVar("K", 1, 100)
@func
def f(x: Tensor[(4,), "f32"]):
    n = 0
    {body}
    return x
"""
        )
