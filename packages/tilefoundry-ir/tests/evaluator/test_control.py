"""Loops, variants, calls, instances. Oracle: plain torch code of the same program."""

from __future__ import annotations

import pytest
import torch

from tilefoundry import evaluate, func, module
from tilefoundry.dsl import ConstTensor, DimVar, DimVarRangePat, Mesh, Tensor, Topology, tf, tile
from tilefoundry.ir.core.expr import Bind, Block, MeshScope
from tilefoundry.ir.errors import EvaluationError
from tilefoundry.ir.hir.function import Function

N, K = DimVar("N", 0, 99), DimVar("K", 1, 99)


@func
def powers(x: Tensor[(2, 2), "f64"]) -> tuple[Tensor[(2, 2), "f64"], Tensor[(2, 2), "f64"]]:
    total = tf.zeros(Tensor[(2, 2), "f64"])
    power = x
    for _i in range(5):
        total = total + power
        power = tf.matmul(power, x)
    return total, power


@func
def triangle(x: Tensor[(N, 3), "f32"]) -> Tensor[(3,), "f32"]:
    total = tf.zeros(Tensor[(3,), "f32"])
    for i in range(N):
        for _j in range(i, N):
            total = total + x[i]
    return total


@func
def tiled_rows(x: Tensor[(N, 3), "f32"]) -> tuple[Tensor[(N, 3), "f32"], Tensor[(3,), "f32"]]:
    out = tf.zeros(Tensor[(N, 3), "f32"])
    total = tf.zeros(Tensor[(3,), "f32"])
    for i in tile(N, 4):
        part = x[i, :] * 2.0
        out = tf.insert_slice(out, part, (i, 0))
        total = total + tf.reduce(part, axes=(0,), keepdim=False, kind="sum")
    return out, total


def test_range_loop_carries_several_values():
    x = torch.tensor([[0.5, 0.1], [0.2, 0.3]], dtype=torch.float64)
    total, power = evaluate(powers, x)
    assert torch.allclose(total, sum(torch.linalg.matrix_power(x, k) for k in range(1, 6)))
    assert torch.allclose(power, torch.linalg.matrix_power(x, 6))


@pytest.mark.parametrize("n", [0, 1, 5])
def test_nested_loops_over_dims_and_indices(n):
    x = torch.arange(3.0 * n).reshape(n, 3)
    want = sum((x[i] * (n - i) for i in range(n)), torch.zeros(3))
    assert torch.equal(evaluate(triangle, x), want)


@pytest.mark.parametrize("n", [0, 1, 4, 6, 8, 11])
def test_the_last_tile_is_cut_at_the_edge(n):
    x = torch.arange(3.0 * n).reshape(n, 3)
    out, total = evaluate(tiled_rows, x)
    assert torch.equal(out, x * 2) and torch.equal(total, (x * 2).sum(0))


@pytest.mark.spec("eval.dispatch")
def test_variants_are_taken_by_the_value_of_their_dim():
    @func
    def f(x: Tensor[(K,), "f32"]) -> Tensor[(K,), "f32"]:
        pass

    @f.specialize(DimVarRangePat("K", 1, 8))
    def small(x: Tensor[(K,), "f32"]) -> Tensor[(K,), "f32"]:
        return x + 1.0

    @f.specialize(DimVarRangePat("K", 8, 99))
    def large(x: Tensor[(K,), "f32"]) -> Tensor[(K,), "f32"]:
        return x + 2.0

    for n in (1, 7, 8, 98):
        assert evaluate(f, torch.zeros(n)).tolist() == [1.0 if n < 8 else 2.0] * n


@module(entry="run")
class Outer:
    @module(entry="scaled")
    class inner:
        @func
        def scaled(x: Tensor[(2,), "f32"], w: ConstTensor[(2,), "f32"]) -> Tensor[(2,), "f32"]:
            return x * w

    @func
    def both(x: Tensor[(2,), "f32"]) -> tuple[Tensor[(2,), "f32"], Tensor[(2,), "f32"]]:
        return x + 1.0, x - 1.0

    @func
    def run(x: Tensor[(2,), "f32"]) -> Tensor[(2,), "f32"]:
        up, down = both(x)
        return inner(up) + down


@pytest.mark.spec("eval.constants-of-callees")
def test_calls_of_siblings_and_children():
    asked = []

    def lookup(path, name):
        asked.append((path, name))
        return torch.tensor([2.0, 3.0])

    function = Outer.lookup("run")
    got = evaluate(function, torch.tensor([1.0, 2.0]), constants=lookup)
    assert got.tolist() == [2 * 2 + 0, 3 * 3 + 1] and asked == [(("inner",), "w")]
    with pytest.raises(
        EvaluationError, match=r"inner\.scaled needs the weights of the child module inner; load a"
    ):
        evaluate(function, torch.ones(2))


def test_a_tuple_valued_op_can_be_returned_whole():
    @func
    def parts(x: Tensor[(4,), "f32"]) -> tuple[Tensor[(2,), "f32"], Tensor[(2,), "f32"]]:
        return tf.split(x, 0, 2)

    left, right = evaluate(parts, torch.arange(4.0))
    assert left.tolist() == [0, 1] and right.tolist() == [2, 3]


@func(topologies=(Topology("cta", 2), Topology("thread", 4)))
def per_instance(x: Tensor[(2, 12), "f32"]) -> Tensor[(2, 12), "f32"]:
    with Mesh(("cta", "thread"), (2, 4), ("b", "t")) as m:
        shard = tf.reshard(x, (2 @ m.b, 12 @ m.t), "rmem")
        own = tf.local(shard)
        doubled = tf.exp(own) + own
        back = tf.reshard(doubled, (2 @ m.b, 12 @ m.t), "rmem")
        return tf.reshape(tf.reshard(back, (2, 12), "gmem"), (2, 12))


@pytest.mark.spec("shard.local-stays")
def test_returning_what_one_instance_holds_is_refused():
    whole = per_instance.lookup("per_instance")
    own = next(s.target for s in whole.stmts() if isinstance(s, Bind) and s.target.name == "own")
    (scope,) = (s for s in whole.body.stmts if isinstance(s, MeshScope))
    escaping = Function("escaping", whole.params, own.type, Block((scope,), (own,)))
    with pytest.raises(
        EvaluationError, match=r"escaping returns f32\[1, 1, 3\] .* fold it into a global value"
    ):
        evaluate(escaping, torch.zeros(2, 12))


def test_ops_run_per_instance_on_what_each_holds():
    x = torch.randn(2, 12)
    assert torch.allclose(evaluate(per_instance, x), x.exp() + x)
