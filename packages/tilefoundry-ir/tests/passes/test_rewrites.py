"""What each target-neutral pass does. Oracle: the evaluator on the program before and after, and op counts."""

# ruff: noqa: F841
# The programs in this file are DSL source with values that nothing uses, for passes to remove.
from __future__ import annotations

import pytest
import torch

from tilefoundry.dsl import (
    ConstTensor,
    DimVar,
    DimVarRangePat,
    Mesh,
    Tensor,
    Topology,
    func,
    module,
    tf,
    tile,
)
from tilefoundry.evaluator import evaluate
from tilefoundry.ir.core.expr import Bind, Call, For, FunctionCall
from tilefoundry.ir.core.module import Module
from tilefoundry.ir.errors import LoweringError
from tilefoundry.ir.passes import (
    PARAM_PATHS,
    BindShapes,
    Canonicalise,
    InlineCalls,
    Pipeline,
    RemoveDeadCode,
    UnrollLoops,
)

N, K = DimVar("N", 1, 100), DimVar("K", 1, 50)
W = torch.tensor([1.0, -2.0, 0.5, 3.0])


@module(entry="step")
class Layer:
    @func
    def scaled(x: Tensor[(K, 4), "f32"], w: ConstTensor[(4,), "f32"]) -> Tensor[(K, 4), "f32"]:
        return x * w

    @func
    def step(x: Tensor[(K, 4), "f32"], w: ConstTensor[(4,), "f32"]) -> Tensor[(K, 4), "f32"]:
        return scaled(x, w) + scaled(x * 2.0, w)


@module(entry="run", topologies=(Topology("cta", 4),))
class Net:
    layers = tuple(Layer.renamed(f"layer{i}") for i in range(2))

    @func
    def run(x: Tensor[(8, 4), "f32"], bias: ConstTensor[(4,), "f32"]) -> Tensor[(8, 4), "f32"]:
        for layer in layers:
            x = layer(x)
        x = layers[0].scaled(x)
        return x + bias


def ops(module: Module, name: str) -> list[str]:
    stmts = module.lookup(name).stmts()
    return [s.value.op.name for s in stmts if isinstance(s, Bind) and isinstance(s.value, Call)]


@pytest.mark.spec("passes.inline")
def test_calls_are_inlined_and_childrens_weights_follow_once_by_path():
    flat = Pipeline((InlineCalls(),)).run(Net)
    run = flat.entry_function()
    assert flat.functions == (run,) and flat.modules == ()
    assert not any(isinstance(getattr(s, "value", None), FunctionCall) for s in run.stmts())
    assert flat.metadata[PARAM_PATHS] == ("x", "bias", "layer0.w", "layer1.w")
    assert [p.is_const for p in run.params] == [False, True, True, True]
    assert flat.topologies == (Topology("cta", 4),)
    x = torch.randn(8, 4)
    bias, w0, w1 = W + 1, W, W - 1
    torch.testing.assert_close(evaluate(run, x, bias, w0, w1), x * 3 * w0 * 3 * w1 * w0 + bias)


@pytest.mark.spec("passes.inline")
def test_a_static_extent_or_a_matching_range_selects_the_variant_of_a_callee():
    @module(entry="both")
    class V:
        @func
        def pick(x: Tensor[(K,), "f32"]) -> Tensor[(K,), "f32"]:
            pass

        @pick.specialize(DimVarRangePat("K", 1, 8))
        def small(x: Tensor[(K,), "f32"]) -> Tensor[(K,), "f32"]:
            return x * 2.0

        @pick.specialize(DimVarRangePat("K", 8, 50))
        def large(x: Tensor[(K,), "f32"]) -> Tensor[(K,), "f32"]:
            return x * 3.0

        @func
        def both(
            x: Tensor[(4,), "f32"], y: Tensor[(9,), "f32"]
        ) -> tuple[Tensor[(4,), "f32"], Tensor[(9,), "f32"]]:
            return pick(x), pick(y)

        @func
        def late(x: Tensor[(K,), "f32"]) -> Tensor[(K,), "f32"]:
            return pick(x)

    x, y = torch.ones(4), torch.ones(9)
    a, b = evaluate(InlineCalls().run(V).entry_function(), x, y)
    assert a.tolist() == [2] * 4 and b.tolist() == [3] * 9
    late = InlineCalls().run(Module("V", V.functions, "late")).entry_function()
    assert [variant.pattern for variant in late.variants] == [
        variant.pattern for variant in V.function_named("pick")[0].variants
    ]
    assert evaluate(late, x).tolist() == [2] * 4 and evaluate(late, y).tolist() == [3] * 9


@pytest.mark.spec("passes.inline")
def test_what_cannot_be_inlined_is_refused_by_name():
    @func
    def base(x: Tensor[(4,), "f32"]) -> Tensor[(4,), "f32"]:
        pass

    @func
    def calls(x: Tensor[(4,), "f32"]) -> Tensor[(4,), "f32"]:
        return base(x)

    with pytest.raises(
        LoweringError, match=r"base has no body; give it one, or add variants with @base\.specialize"
    ):
        InlineCalls().run(Module("M", (calls,), "calls"))


@pytest.mark.spec("passes.dead-code")
def test_what_no_result_needs_is_gone():
    @module(entry="f")
    class M:
        @func
        def f(x: Tensor[(N,), "f32"]) -> Tensor[(N,), "f32"]:
            unused = tf.exp(x)
            also = unused + 1.0
            lost = x
            for _ in range(3):
                lost = lost * 2.0
            kept = x
            for _ in range(2):
                inner = tf.sin(kept)
                kept = kept + 1.0
            return kept

    clean = Pipeline((RemoveDeadCode(),)).run(M)
    assert ops(M, "f").count("exp") == 1 and ops(M, "f").count("sin") == 1
    assert ops(clean, "f") == ["add"]
    x = torch.randn(5)
    torch.testing.assert_close(evaluate(clean.lookup("f"), x), x + 2)


@pytest.mark.spec("passes.canonicalise")
def test_equal_calls_are_made_once_and_moves_collapse():
    @module(entry="f")
    class M:
        @func
        def f(x: Tensor[(N, 4), "f32"]) -> Tensor[(4, N), "f32"]:
            a = tf.exp(x)
            b = tf.exp(x)
            t = tf.transpose(tf.transpose(a + b, (1, 0)), (1, 0))
            r = tf.reshape(tf.reshape(t, (4, N)), (N, 4))
            return tf.transpose(tf.cast(r, "f32"), (1, 0))

    short = Pipeline((Canonicalise(), RemoveDeadCode())).run(M)
    assert ops(short, "f") == ["exp", "add", "transpose"]
    x = torch.randn(3, 4)
    torch.testing.assert_close(evaluate(short.lookup("f"), x), 2 * x.exp().T)


@pytest.mark.spec("passes.unroll")
def test_short_loops_are_written_out_with_the_index_a_constant():
    @module(entry="f")
    class M:
        @func
        def f(x: Tensor[(10, 4), "f32"], y: Tensor[(N, 4), "f32"]) -> Tensor[(4,), "f32"]:
            total = tf.zeros(Tensor[(4,), "f32"])
            for i in range(3):
                total = total + x[i] * tf.cast(i, "f32")
            for j in tile(10, 4):
                total = total + tf.reduce(x[j, :], axes=(0,), keepdim=False, kind="sum")
            for n in range(N):
                total = total + y[n]
            return total

    flat = Pipeline((UnrollLoops(),)).run(M)
    assert sum(isinstance(s, For) for s in flat.lookup("f").stmts()) == 1
    kept = Pipeline((UnrollLoops(limit=2),)).run(M)
    assert sum(isinstance(s, For) for s in kept.lookup("f").stmts()) == 3
    x, y = torch.randn(10, 4), torch.randn(6, 4)
    expected = x[1] + 2 * x[2] + x.sum(0) + y.sum(0)
    for made in (flat, kept):
        torch.testing.assert_close(evaluate(made.lookup("f"), x, y), expected)


def test_a_distributed_tile_that_the_edge_cuts_is_written_out_at_its_own_size():
    @module(entry="f")
    class M:
        @func
        def f(x: Tensor[(10, 64), "f32"]) -> Tensor[(10, 64), "f32"]:
            y = tf.zeros(Tensor[(10, 64), "f32"])
            with Mesh(("cta", "thread"), (8, 4, 32), ("b", "w", "t")) as c:
                for i in tile(10, 4, over=c.b):
                    r = tf.exp(tf.reshard(x[i], (4 @ c.w, 64 @ c.t), "rmem"))
                    y = tf.insert_slice(y, tf.reshard(r, (4, 64), "gmem"), (i, 0))
            return y

    flat = Pipeline((UnrollLoops(),)).run(M).lookup("f")
    calls = [s.value for s in flat.stmts() if isinstance(s, Bind) and isinstance(s.value, Call)]
    layouts = [call.type.layout for call in calls if call.op.name == "exp"]
    assert [layout.shape for layout in layouts] == [(4, 32, 2), (4, 32, 2), (2, 64)]
    x = torch.randn(10, 64)
    torch.testing.assert_close(evaluate(flat, x), x.exp())


@pytest.mark.spec("passes.bind-shapes")
def test_extents_are_fixed_everywhere():
    @module(entry="f")
    class M:
        @func
        def f(x: Tensor[(N, K), "f32"]) -> Tensor[(K, 2 * N), "f32"]:
            both = tf.concat(x, x, axis=0)
            for i in range(N):
                both = both + tf.reshape(x[i], (1, K))
            return tf.transpose(both, (1, 0))

    made = Pipeline((BindShapes((("N", 3),)),)).run(M)
    f = made.lookup("f")
    assert [v.name for v in f.dim_vars()] == ["K"]
    assert (str(f.params[0].type), str(f.result)) == ("f32[3, K]", "f32[K, 6]")
    assert [s.stop for s in f.stmts() if isinstance(s, For)] == [3]
    x = torch.randn(3, 5)
    torch.testing.assert_close(evaluate(f, x), evaluate(M.lookup("f"), x))
    both = Pipeline((BindShapes((("N", 3), ("K", 5))),)).run(M).lookup("f")
    assert both.dim_vars() == () and not any(f"DimVar(name={n!r}" in repr(both.body) for n in ("N", "K"))
    torch.testing.assert_close(evaluate(both, x), evaluate(M.lookup("f"), x))


@pytest.mark.spec("passes.bind-shapes")
def test_a_fixed_extent_settles_the_variant_and_its_range_holds():
    @func
    def pick(x: Tensor[(N,), "f32"]) -> Tensor[(N,), "f32"]:
        pass

    @pick.specialize(DimVarRangePat("N", 1, 8))
    def small(x: Tensor[(N,), "f32"]) -> Tensor[(N,), "f32"]:
        return x * 2.0

    @pick.specialize(DimVarRangePat("N", 8, 100))
    def large(x: Tensor[(N,), "f32"]) -> Tensor[(N,), "f32"]:
        return x * 3.0

    M = Module("M", (pick,), "pick")
    for n, factor in ((7, 2), (8, 3)):
        bound = BindShapes((("N", n),)).run(M).lookup("pick")
        assert bound.variants == () and evaluate(bound, torch.ones(n)).tolist() == [factor] * n
    for n in (0, 100):
        with pytest.raises(LoweringError, match=rf"pick: N = {n} is outside its range \[1, 100\)"):
            BindShapes((("N", n),)).run(M)
    assert BindShapes((("Z", 4),)).run(M) == M


@pytest.mark.spec("passes.bind-shapes")
def test_calls_are_inlined_before_extents_are_fixed():
    with pytest.raises(LoweringError, match="calls scaled; run InlineCalls before BindShapes"):
        BindShapes((("K", 4),)).run(Layer)
    flat = Pipeline((InlineCalls(), BindShapes((("K", 4),)))).run(Layer)
    x = torch.randn(4, 4)
    torch.testing.assert_close(evaluate(flat.entry_function(), x, W), x * 3 * W)


@pytest.mark.spec("passes.canonicalise")
def test_calls_that_differ_in_the_sign_of_a_zero_stay_two():
    @func
    def both(x: Tensor[(4,), "f32"]) -> tuple[Tensor[(4,), "f32"], Tensor[(4,), "f32"]]:
        return 1.0 / tf.clamp(x, 0.0, 5.0), 1.0 / tf.clamp(x, -0.0, 5.0)

    once = Pipeline((Canonicalise(),)).run(Module("both", (both,), "both"))
    got, wanted = (evaluate(f, -torch.ones(4)) for f in (once.lookup("both"), both))
    assert all(torch.equal(a, b) for a, b in zip(got, wanted, strict=True))
    assert [part[0].item() for part in got] == [float("inf"), -float("inf")]
