"""Calls whose variant only the entry's call decides. Oracle: the evaluator, which chooses as it runs; cuts that are
stated here."""

from __future__ import annotations

import pytest
import torch

from tilefoundry import evaluate, func, module
from tilefoundry.dsl import DimVar, DimVarRangePat, Tensor, ceildiv, tf, tile
from tilefoundry.inspection import as_script
from tilefoundry.ir.core.module import Module
from tilefoundry.ir.errors import LoweringError
from tilefoundry.ir.passes import InlineCalls

K = DimVar("K", 1, 100)
M = DimVar("M", 1, 40)
N = DimVar("N", 1, 60)


@module(entry="same")
class V:
    @func
    def pick(x: Tensor[(K,), "f32"]) -> Tensor[(K,), "f32"]:
        pass

    @pick.specialize(DimVarRangePat("K", 1, 8))
    def few(x: Tensor[(K,), "f32"]) -> Tensor[(K,), "f32"]:
        return x + 1.0

    @pick.specialize(DimVarRangePat("K", 8, 50))
    def some(x: Tensor[(K,), "f32"]) -> Tensor[(K,), "f32"]:
        return x * 2.0

    @pick.specialize(DimVarRangePat("K", 50, 100))
    def many(x: Tensor[(K,), "f32"]) -> Tensor[(K,), "f32"]:
        return x * x

    @func
    def same(x: Tensor[(N,), "f32"]) -> Tensor[(N,), "f32"]:
        return pick(pick(x))

    @func
    def scaled(x: Tensor[(M,), "f32"]) -> Tensor[(2 * M + 1,), "f32"]:
        return pick(tf.concat(x, x, tf.zeros(Tensor[(1,), "f32"]), axis=0))

    @func
    def both(
        x: Tensor[(N,), "f32"], y: Tensor[(M,), "f32"]
    ) -> tuple[Tensor[(N,), "f32"], Tensor[(M,), "f32"], Tensor[(N,), "f32"]]:
        return pick(x), pick(y), pick(x)

    @func
    def rounded(x: Tensor[(N, 3), "f32"]) -> Tensor[(ceildiv(N, 4),), "f32"]:
        return pick(tf.zeros(Tensor[(ceildiv(N, 4),), "f32"]))

    @func
    def tiled(x: Tensor[(N,), "f32"]) -> Tensor[(N,), "f32"]:
        y = x
        for i in tile(N, 16):
            y = tf.insert_slice(y, pick(x[i]), (i,))
        return y

    @func
    def outer(x: Tensor[(N,), "f32"]) -> Tensor[(N,), "f32"]:
        pass

    @outer.specialize(DimVarRangePat("N", 1, 20))
    def low(x: Tensor[(N,), "f32"]) -> Tensor[(N,), "f32"]:
        return pick(x) - 1.0

    @outer.specialize(DimVarRangePat("N", 20, 60))
    def high(x: Tensor[(N,), "f32"]) -> Tensor[(N,), "f32"]:
        return tf.neg(pick(x))


def inlined(entry: str):
    return InlineCalls().run(Module("V", V.functions, entry)).entry_function()


def ranges(function) -> list[tuple[str, int, int]]:
    return [(v.pattern.name, v.pattern.lo, v.pattern.hi) for v in function.variants]


@pytest.mark.spec("passes.inline.variants")
def test_the_entry_is_cut_where_the_callee_is():
    assert ranges(inlined("same")) == [("N", 1, 8), ("N", 8, 50), ("N", 50, 60)]
    # 2 * M + 1 passes 8 at M = 4 and 50 at M = 25
    assert ranges(inlined("scaled")) == [("M", 1, 4), ("M", 4, 25), ("M", 25, 40)]
    assert ranges(inlined("outer")) == [("N", 1, 8), ("N", 8, 20), ("N", 20, 50), ("N", 50, 60)]


@pytest.mark.spec("passes.inline.variants")
@pytest.mark.parametrize(
    ("entry", "sizes"),
    [
        ("same", [(1,), (7,), (8,), (49,), (50,), (59,)]),
        ("scaled", [(1,), (3,), (4,), (24,), (25,), (39,)]),
        ("outer", [(1,), (7,), (8,), (19,), (20,), (49,), (50,), (59,)]),
        ("both", [(1, 1), (7, 8), (8, 7), (50, 39), (59, 1)]),
    ],
)
def test_each_range_has_the_values_of_its_variant(entry, sizes):
    flat, written = inlined(entry), V.function_named(entry)[0]
    for size in sizes:
        inputs = [torch.randn(n) for n in size]
        got, wanted = evaluate(flat, *inputs), evaluate(written, *inputs)
        for one, other in zip(_tensors(got), _tensors(wanted), strict=True):
            assert torch.equal(one, other), (entry, size)


def _tensors(result):
    return result if isinstance(result, tuple) else (result,)


@pytest.mark.spec("passes.inline.variants")
def test_two_extents_choose_one_inside_of_the_other():
    both = inlined("both")
    assert ranges(both) == [("N", 1, 8), ("N", 8, 50), ("N", 50, 60)]
    for variant in both.variants:
        assert ranges(variant.function) == [("M", 1, 8), ("M", 8, 40)]
    assert as_script(both).count('DimVarRangePat("M", 8, 40)') == 3


@pytest.mark.spec("passes.inline.variants")
@pytest.mark.parametrize("entry", ["rounded", "tiled"])
def test_an_extent_that_is_rounded_or_a_loops_chooses_no_variant(entry):
    with pytest.raises(
        LoweringError, match=r"pick: which variant runs depends on K = .*; call it as the entry"
    ):
        inlined(entry)
