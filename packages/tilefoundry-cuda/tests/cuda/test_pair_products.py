"""Two products of the same few rows in one launch. Oracle: the evaluator, with the bounds of rounding and of sums; for
what is paired, the programs read by hand."""

from __future__ import annotations

import pytest
import torch

from tilefoundry import func, jit, lower
from tilefoundry.codegen import explain
from tilefoundry.codegen.cuda.statements import TilePair, inner_statements
from tilefoundry.dsl import Tensor, tf
from tilefoundry.evaluator import evaluate
from tilefoundry.target import CudaTarget

from .emulating import emulate

H200 = CudaTarget("nvidia.h200_sxm")
K, N = 96, 40


@func
def gated(
    x: Tensor[(1, K), "bf16"], gate: Tensor[(N, K), "bf16"], up: Tensor[(N, K), "bf16"]
) -> Tensor[(1, N), "bf16"]:
    return tf.silu(x @ tf.transpose(gate, (1, 0))) * (x @ tf.transpose(up, (1, 0)))


@func
def batched(
    x: Tensor[(2, 3, 30), "f32"], gate: Tensor[(2, 7, 30), "f32"], up: Tensor[(2, 7, 30), "f32"]
) -> tuple[Tensor[(2, 3, 7), "f32"], Tensor[(2, 3, 7), "f32"]]:
    above = x @ tf.transpose(up, (0, 2, 1))
    return above, tf.sigmoid(x @ tf.transpose(gate, (0, 2, 1))) + above


@func
def wide(
    x: Tensor[(2, 16), "f16"], gate: Tensor[(8200, 16), "f16"], up: Tensor[(8200, 16), "f16"]
) -> Tensor[(2, 8200), "f16"]:
    return tf.relu(x @ tf.transpose(gate, (1, 0))) * (x @ tf.transpose(up, (1, 0)))


@func
def both_kept(
    x: Tensor[(8, K), "f32"], a: Tensor[(N, K), "f32"], b: Tensor[(N, K), "f32"]
) -> tuple[Tensor[(8, N), "f32"], Tensor[(8, N), "f32"]]:
    return x @ tf.transpose(a, (1, 0)), x @ tf.transpose(b, (1, 0))


@func
def other_rows(
    x: Tensor[(1, K), "bf16"], y: Tensor[(1, K), "bf16"], a: Tensor[(N, K), "bf16"], b: Tensor[(N, K), "bf16"]
) -> Tensor[(1, N), "bf16"]:
    return tf.silu(x @ tf.transpose(a, (1, 0))) * (y @ tf.transpose(b, (1, 0)))


@func
def other_place(
    x: Tensor[(2, K), "f32"], a: Tensor[(N, K), "f32"], b: Tensor[(N, K), "f32"]
) -> tuple[Tensor[(2, N), "f32"], Tensor[(2, N), "f32"]]:
    """The second reads of the first what another thread has."""
    above = x @ tf.transpose(a, (1, 0))
    return above, x @ tf.transpose(b, (1, 0)) + above[0:1]


@func
def along_columns(
    x: Tensor[(1, K), "bf16"], a: Tensor[(K, N), "bf16"], b: Tensor[(K, N), "bf16"]
) -> Tensor[(1, N), "bf16"]:
    return tf.silu(x @ a) * (x @ b)


@func
def many_rows(
    x: Tensor[(64, K), "bf16"], a: Tensor[(N, K), "bf16"], b: Tensor[(N, K), "bf16"]
) -> Tensor[(64, N), "bf16"]:
    return tf.silu(x @ tf.transpose(a, (1, 0))) * (x @ tf.transpose(b, (1, 0)))


def launches(program):
    """(kernels, pairs among them) of the lowered program."""
    lowered = lower(program, target=H200)
    kernels = [f for f in lowered.functions if f is not lowered.entry_function()]
    return len(kernels), sum(isinstance(stmt, TilePair) for k in kernels for stmt in inner_statements(k.body))


@pytest.mark.parametrize("program", (gated, batched, wide, both_kept), ids=lambda program: program.name)
def test_products_alike_are_one_launch(program):
    assert launches(program) == (1, 1)


@pytest.mark.parametrize(
    "program", (other_rows, other_place, along_columns, many_rows), ids=lambda program: program.name
)
def test_others_stay_apart(program):
    assert launches(program) == (2, 0)


def given(program, device="cpu"):
    torch.manual_seed(0)
    kinds = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
    return [torch.randn(p.type.shape, device=device).to(kinds[p.type.dtype.name]) for p in program.params]


def check(run, program, device="cpu"):
    """Sums of k products in f32 differ by their order; a result is rounded once, what lies between once more."""
    tensors = given(program, device)
    found, wanted = run(*tensors), evaluate(program, *(tensor.cpu() for tensor in tensors))
    pairs = zip(found, wanted, strict=True) if isinstance(wanted, tuple) else [(found, wanted)]
    for one, other in pairs:
        close = 2e-5 if other.dtype is torch.float32 else 2**-6
        torch.testing.assert_close(one.cpu(), other, atol=8 * close, rtol=close)


@pytest.mark.parametrize("program", (gated, batched), ids=lambda program: program.name)
def test_pairs_compute_both(program):
    check(emulate(program), program)


def test_explain_shows_one_launch_for_both():
    first, second = explain(gated, target=H200).kernels
    assert first.launch is not None and first.launch == second.launch


@pytest.mark.gpu
@pytest.mark.parametrize("program", (gated, batched, wide, both_kept), ids=lambda program: program.name)
def test_pairs_compute_both_on_a_gpu(program):
    run = jit(program, target="cuda")
    assert len(run.kernels) == 1
    check(run, program, "cuda")
