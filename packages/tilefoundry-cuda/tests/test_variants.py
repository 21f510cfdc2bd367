"""Calls of functions whose variant the entry's call decides. Oracle: the evaluator, which chooses as it runs."""

from __future__ import annotations

import pytest
import torch

from tilefoundry import compile, evaluate, func, jit, module
from tilefoundry.dsl import ConstTensor, DimVar, DimVarRangePat, Tensor, tf
from tilefoundry.target import CudaTarget

TARGETS = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
K = DimVar("K", 1, 400)
M = DimVar("M", 1, 40)
N = DimVar("N", 1, 300)


@module(entry="pick")
class Block:
    """Few rows are added to, many are normalised."""

    @func
    def pick(x: Tensor[(K, 64), "f32"], w: ConstTensor[(64, 64), "f32"]) -> Tensor[(K, 64), "f32"]:
        pass

    @pick.specialize(DimVarRangePat("K", 1, 8))
    def few(x: Tensor[(K, 64), "f32"], w: ConstTensor[(64, 64), "f32"]) -> Tensor[(K, 64), "f32"]:
        return x @ w

    @pick.specialize(DimVarRangePat("K", 8, 400))
    def many(x: Tensor[(K, 64), "f32"], w: ConstTensor[(64, 64), "f32"]) -> Tensor[(K, 64), "f32"]:
        return tf.softmax(x) + 1.0


@module(entry="step")
class Net:
    first = Block
    second = Block.renamed("second")

    @func
    def step(
        x: Tensor[(N, 64), "f32"], y: Tensor[(M, 64), "f32"]
    ) -> tuple[Tensor[(N, 64), "f32"], Tensor[(2 * M, 64), "f32"]]:
        return second(first(x)), first(tf.concat(y, y, axis=0))


def _weights() -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    return {"first.w": torch.randn(64, 64), "second.w": torch.randn(64, 64)}


@pytest.mark.spec("variants.calls")
@pytest.mark.parametrize("target", TARGETS)
def test_a_call_runs_the_variant_of_its_extents(target):
    weights = {name: value.to(target) for name, value in _weights().items()}
    bound = jit(Net, target=target).bind(weights)
    for n, m in [(1, 1), (7, 4), (8, 3), (9, 39), (299, 20)]:
        x, y = torch.randn(n, 64), torch.randn(m, 64)
        wanted = _wanted(x, y)
        for got, want in zip(bound(x.to(target), y.to(target)), wanted, strict=True):
            torch.testing.assert_close(got.cpu(), want, rtol=1e-4, atol=1e-3)


def _wanted(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """By the rule of ``Block``, its two variants evaluated one by one."""
    weights = _weights()

    def block(value: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return evaluate(Block.function_named("pick")[0], value, weight)

    first, second = weights["first.w"], weights["second.w"]
    return block(block(x, first), second), block(torch.cat([y, y]), first)


@pytest.mark.spec("variants.calls")
def test_a_cuda_library_holds_every_choice():
    compiled = compile(Net, target=CudaTarget("nvidia.h200_sxm"))
    host = compiled.source.split("// host\n")[1]
    assert host.count("if (N >= 1 && N < 8)") == 1 and host.count("if (M >= 4 && M < 40)") == 2
    assert compiled.type.constants == ((2, "first.w"), (3, "second.w"))
