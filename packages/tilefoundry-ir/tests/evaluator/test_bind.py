"""Arguments are checked before anything runs. Oracle: the message that names subject, actual and expected."""

from __future__ import annotations

import sys

import pytest
import torch

from tilefoundry import evaluate, func, module
from tilefoundry.dsl import DimVar, Tensor, tf
from tilefoundry.ir.errors import EvaluationError

N, M = DimVar("N", 1, 9), DimVar("M", 1, 9)


@func
def scale(x: Tensor[(N, 4), "f32"], y: Tensor[(N,), "f32"]) -> Tensor[(N, 4), "f32"]:
    return x * tf.reshape(y, (N, 1))


@func
def halves(x: Tensor[(2 * N, 3), "f32"]) -> Tensor[(N, 3), "f32"]:
    return tf.slice(x, (N, 0), sizes=(N, 3))


@func
def joined(x: Tensor[(N + M,), "f32"], y: Tensor[(N,), "f32"]) -> Tensor[(M,), "f32"]:
    return tf.slice(x, (N,), sizes=(M,))


@func
def codes(x: Tensor[(4,), "f4e2m1"]) -> Tensor[(4,), "f32"]:
    return tf.cast(x, "f32")


def f32(*shape: int) -> torch.Tensor:
    return torch.ones(shape)


@pytest.mark.spec("eval.checks-first")
@pytest.mark.parametrize(
    ("args", "error", "message"),
    [
        ((), TypeError, r"scale takes 2 arguments \(x, y\), got 0"),
        ((f32(2, 4), f32(2), f32(2)), TypeError, "got 3"),
        ((f32(2, 4), [1.0, 2.0]), TypeError, r"scale: y must be a torch.Tensor of f32\[N\], got list"),
        (
            (f32(2, 4).double(), f32(2)),
            EvaluationError,
            r"x is f64, declared f32\[N, 4\]; convert it with .to\(\)",
        ),
        ((f32(8), f32(2)), EvaluationError, r"x has shape \(8,\), declared f32\[N, 4\]: ranks differ"),
        ((f32(2, 5), f32(2)), EvaluationError, "axis 1 is 5, expected 4"),
        ((f32(2, 4), f32(3)), EvaluationError, "y gives N = 3, but x gave 2"),
        ((f32(9, 4), f32(9)), EvaluationError, r"x gives N = 9, outside its range \[1, 9\)"),
        ((f32(2, 4), f32(2).to("meta")), EvaluationError, "must sit on one device, got x on cpu, y on meta"),
        (
            (f32(2, 4).to(torch.complex64), f32(2)),
            EvaluationError,
            "complex64 has no DType; the dtypes are f32",
        ),
    ],
)
def test_refusals(args, error, message):
    with pytest.raises(error, match=message):
        evaluate(scale, *args)


def test_dims_inside_expressions_are_solved():
    x = torch.arange(12.0).reshape(4, 3)
    assert torch.equal(evaluate(halves, x), x[2:])
    with pytest.raises(EvaluationError, match=r"axis 0 is 5, expected N \* 2"):
        evaluate(halves, f32(5, 3))
    with pytest.raises(EvaluationError, match="axis 0 is 18"):
        evaluate(halves, f32(18, 3))
    x = torch.arange(5.0)
    assert torch.equal(evaluate(joined, x, x[:2]), x[2:])
    with pytest.raises(EvaluationError, match="axis 0 is 2"):
        evaluate(joined, f32(2), f32(2))


def test_codes_of_four_bits_come_as_bytes():
    assert evaluate(codes, torch.tensor([0, 1, 7, 15], dtype=torch.uint8)).tolist() == [0, 0.5, 6, -6]
    with pytest.raises(EvaluationError, match="x is i8, declared f4e2m1"):
        evaluate(codes, torch.zeros(4, dtype=torch.int8))


def test_a_module_of_one_function_stands_for_it():
    @module(entry="twice")
    class One:
        @func
        def twice(x: Tensor[(2,), "f32"]) -> Tensor[(2,), "f32"]:
            return x + x

    assert evaluate(One, f32(2)).tolist() == [2, 2]


def test_other_things_are_refused():
    @module(entry="a")
    class Two:
        @func
        def a(x: Tensor[(2,), "f32"]) -> Tensor[(2,), "f32"]:
            return x + x

        @func
        def b(x: Tensor[(2,), "f32"]) -> Tensor[(2,), "f32"]:
            return x * x

    with pytest.raises(TypeError, match=r"the module 'Two' holds a, b: call Two.<function>\(...\)"):
        evaluate(Two, f32(2))
    with pytest.raises(
        TypeError, match=r"evaluate takes a Function \(decorate it with @func\), got function"
    ):
        evaluate(test_other_things_are_refused)


def test_gradients_are_not_recorded_and_arguments_not_written():
    x, y = f32(2, 4).requires_grad_(), f32(2).requires_grad_()
    out = evaluate(scale, x, y)
    assert not out.requires_grad and x.grad is None and torch.equal(x, f32(2, 4))


def test_without_torch_the_extra_that_brings_it_is_named(monkeypatch):
    """Oracle: an import of torch fails, as where the extra was left out."""
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'tilefoundry-ir\[eval\]'"):
        evaluate(halves, object())
