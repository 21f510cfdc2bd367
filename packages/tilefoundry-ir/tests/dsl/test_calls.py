"""Calls of sibling functions: arguments, extents, results. Oracle: the inlined formula on torch tensors."""

from __future__ import annotations

import pytest
import torch

from tilefoundry.dsl import ConstTensor, DimVar, Tensor, func, tf
from tilefoundry.evaluator import evaluate
from tilefoundry.ir.core.expr import FunctionCall
from tilefoundry.ir.errors import DslError
from tilefoundry.ir.types import TensorType

N = DimVar("N", 1, 100)
M = DimVar("M", 1, 200)


@func
def scaled(
    x: Tensor[(N, 4), "f32"], w: ConstTensor[(4,), "f32"], s: Tensor[(), "f32"]
) -> Tensor[(4, N), "f32"]:
    return tf.transpose(x * w * s, (1, 0))


@pytest.mark.spec("dsl.sibling-and-child-calls")
def test_a_sibling_takes_all_its_params_and_matches_extents():
    @func
    def f(x: Tensor[(M, 4), "f32"], w: ConstTensor[(4,), "f32"]) -> Tensor[(4, 16), "f32"]:
        return scaled(x[0:16], w, s=2.0)

    call = f.stmts()[1].value
    assert isinstance(call, FunctionCall)
    assert (call.callee, call.path, call.enters_child) == (scaled, ("scaled",), False)
    assert call.type == TensorType((4, 16), "f32")
    x, w = torch.randn(20, 4), torch.randn(4)
    torch.testing.assert_close(evaluate(f, x, w), (x[:16] * w * 2).T)


def test_an_extent_that_only_an_expression_mentions_is_solved():
    @func
    def halves(x: Tensor[(2 * N + 1,), "f32"]) -> Tensor[(N,), "f32"]:
        return x[0:N]

    @func
    def f(x: Tensor[(9,), "f32"]) -> Tensor[(4,), "f32"]:
        return halves(x)

    assert evaluate(f, torch.arange(9.0)).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("g(x)", r"g takes 2 arguments \(a, b\), got 1: b missing"),
        ("g(x, x, x)", "g takes 2 arguments"),
        ("g(x, c=x)", "there is no 'c'"),
        ("g(x, a=x)", "a is given by position and by keyword"),
        ("g(x, tf.cast(x, 'f16'))", r"g: b is f32\[N\], got f16\[8\]; use tf.cast"),
        ("g(x, y)", "g: b makes N = 7, an argument before it made it 8"),
        ("g(y, y[0])", r"ranks differ"),
        ("g(x, 1.0)", r"g: b is f32\[N\], got 1.0"),
        ("g(x, (x, x))", r"g: b is f32\[N\], got"),
        ("g(z, z)", r"makes N = 10, which lies in \[10, 11\), but N is declared \[1, 10\)"),
        ("h(x)", r"h: a is f32\[2 \* N\]|h: a is f32\[N \* 2\]"),
        ("tf.exp(g(x, x), g)", "too many|attribute"),
    ],
)
def test_refused_calls(run, call, message):
    names = {}
    with pytest.raises(DslError, match=message):
        if call.startswith("h"):
            call = call.replace("x", "y")
        run(
            f"""
            N = DimVar("N", 1, 10)
            @func
            def g(a: Tensor[(N,), "f32"], b: Tensor[(N,), "f32"]):
                return a + b
            @func
            def h(a: Tensor[(2 * N,), "f32"]):
                return a
            @func
            def f(x: Tensor[(8,), "f32"], y: Tensor[(7,), "f32"], z: Tensor[(10,), "f32"]):
                return {call}
            """,
            **names,
        )


@pytest.mark.spec("dsl.calls-above")
def test_calls_reach_only_what_is_defined_above(run):
    with pytest.raises(DslError, match="later is not defined here; a body sees only what is defined above"):
        run(
            """
            @func
            def f(x: Tensor[(8,), "f32"]):
                return later(x)
            @func
            def later(x: Tensor[(8,), "f32"]):
                return x
            """
        )


def test_a_function_is_not_called_from_python():
    with pytest.raises(TypeError, match=r"tilefoundry.evaluate\(scaled"):
        scaled(torch.zeros(2, 4))
