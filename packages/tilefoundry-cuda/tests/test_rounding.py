"""Compiled code adds up in a wide type and rounds once; an explicit cast rounds where it stands.

Oracle: exact results of inputs that a sum in the narrow type, or a cast that is left out, gets wrong; each test says
what that would give.
"""

from __future__ import annotations

import pytest
import torch

from tilefoundry import func, jit
from tilefoundry.dsl import Tensor, tf
from tilefoundry.evaluator import evaluate

N = 4096
"""Ones: in bf16 a running sum of them stays at 256, in f16 at 2048."""


@func
def sums(
    x: Tensor[(2, N), "bf16"], h: Tensor[(2, N), "f16"], d: Tensor[(1, 3), "f64"], i: Tensor[(1, N), "i8"]
) -> tuple[
    Tensor[(2, 1), "bf16"],
    Tensor[(2, 1), "bf16"],
    Tensor[(2, 1), "f16"],
    Tensor[(1, 1), "f64"],
    Tensor[(1, 1), "i8"],
]:
    return (
        tf.reduce(x, axes=(1,), keepdim=True, kind="sum"),
        tf.reduce(x, axes=(1,), keepdim=True, kind="mean"),
        tf.reduce(h, axes=(1,), keepdim=True, kind="sum"),
        tf.reduce(d, axes=(1,), keepdim=True, kind="sum"),
        tf.reduce(i, axes=(1,), keepdim=True, kind="sum"),
    )


@func
def products(
    x: Tensor[(2, N), "bf16"], w: Tensor[(N, 8), "bf16"], h: Tensor[(2, N), "f16"], v: Tensor[(N, 8), "f16"]
) -> tuple[Tensor[(2, 8), "bf16"], Tensor[(2, 8), "f16"]]:
    return x @ w, h @ v


@func
def rows(
    x: Tensor[(2, N), "bf16"], g: Tensor[(N,), "bf16"], b: Tensor[(N,), "bf16"]
) -> tuple[Tensor[(2, N), "bf16"], Tensor[(2, N), "bf16"], Tensor[(2, N), "bf16"]]:
    return tf.softmax(x), tf.rms_norm(x, g, eps=0.0), tf.layer_norm(x, g, b, eps=1.0)


@func
def casts(x: Tensor[(4, 256), "f32"]) -> tuple[Tensor[(4, 256), "f32"], Tensor[(4, 256), "f32"]]:
    return tf.cast(tf.cast(x * 1.0, "bf16"), "f32"), tf.cast(tf.cast(x + 0.0, "f16"), "f32") * 2.0


@func
def narrowed(
    d: Tensor[(6,), "f64"], i: Tensor[(6,), "i64"]
) -> tuple[Tensor[(6,), "bf16"], Tensor[(6,), "f16"], Tensor[(6,), "fp8e5m2"], Tensor[(6,), "bf16"]]:
    return tf.cast(d, "bf16"), tf.cast(d, "f16"), tf.cast(d, "fp8e5m2"), tf.cast(i, "bf16")


def check_sums(run, device: str) -> None:
    """In bf16 sum and mean would be 256 and 1/16; in f32 the third number of d would be lost."""
    given = [
        torch.ones(2, N, dtype=torch.bfloat16),
        torch.ones(2, N, dtype=torch.float16),
        torch.tensor([[2.0**40, 1.0, 2.0**-8]], dtype=torch.float64),
        torch.ones(1, N, dtype=torch.int8) * 3,
    ]
    total, mean, half, double, whole = (t.cpu() for t in run(*(t.to(device) for t in given)))
    assert (
        total.tolist() == [[4096.0]] * 2 and mean.tolist() == [[1.0]] * 2 and half.tolist() == [[4096.0]] * 2
    )
    assert double.item() == 2.0**40 + 1.0 + 2.0**-8
    assert whole.item() == 3 * N % 256  # 0: integer sums keep their type and wrap


def check_products(run, device: str) -> None:
    """In bf16 they would be 256, in f16 2048."""
    kinds = (torch.bfloat16, torch.float16)
    given = [torch.ones(shape, dtype=kind) for kind in kinds for shape in ((2, N), (N, 8))]
    for out in run(*(t.to(device) for t in given)):
        assert bool((out == 4096.0).all())


def check_rows(run, device: str) -> None:
    """Sums in bf16 would give 1/256, a root mean square of 1/4 and with it 4, and a mean of 1/16."""
    ones, zeros = torch.ones(N, dtype=torch.bfloat16), torch.zeros(N, dtype=torch.bfloat16)
    given = (torch.ones(2, N, dtype=torch.bfloat16), ones, zeros)
    soft, norm, layer = (t.cpu() for t in run(*(t.to(device) for t in given)))
    assert bool((soft == 1 / N).all()) and bool((norm == 1.0).all()) and bool((layer == 0.0).all())


def check_casts(run, device: str) -> None:
    x = torch.randn(4, 256)
    once, twice = (t.cpu() for t in run(x.to(device)))
    assert torch.equal(once, x.bfloat16().float()) and not torch.equal(once, x)
    assert torch.equal(twice, x.half().float() * 2.0)


def check_narrowed(run, device: str) -> None:
    """Each value lies next to a tie of its result type, so near that a float would be the tie itself: rounding to a
    float first would give the other neighbour. The last integer is a tie, which goes to the even one."""
    near, tie = 2.0**-40, 2**24 + 2**16
    d = [
        1 + 2**-8 + near,
        -(1 + 2**-8 + near),
        1 + 2**-11 + near,
        65520 - 1e-9,
        1 + 2**-3 + near,
        61440 - 1e-9,
    ]
    i = [tie + 1, -(tie + 1), 2**62 + 2**54 + 1, 2**53 + 2**45 + 1, tie - 1, tie]
    given = torch.tensor(d, dtype=torch.float64), torch.tensor(i)
    brain, half, byte, whole = (t.cpu().double().tolist() for t in run(*(t.to(device) for t in given)))
    assert brain[:2] == [1 + 2**-7, -(1 + 2**-7)]
    assert half[2:4] == [1 + 2**-10, 65504.0]
    assert byte[4:] == [1.25, 57344.0]
    assert whole == [2**24 + 2**17, -(2**24 + 2**17), 2**62 + 2**55, 2**53 + 2**46, 2**24, 2**24]


CHECKS = [
    (sums, check_sums),
    (products, check_products),
    (rows, check_rows),
    (casts, check_casts),
    (narrowed, check_narrowed),
]


@pytest.mark.spec("numbers.rounding")
@pytest.mark.parametrize(("program", "check"), CHECKS, ids=lambda one: getattr(one, "name", ""))
def test_the_evaluator_adds_wide_and_rounds_once(program, check):
    check(lambda *tensors: evaluate(program, *tensors), "cpu")


@pytest.mark.spec("numbers.rounding")
@pytest.mark.parametrize(("program", "check"), CHECKS, ids=lambda one: getattr(one, "name", ""))
def test_the_cpu_target_adds_wide_and_rounds_once(program, check):
    check(jit(program, target="cpu"), "cpu")


@pytest.mark.gpu
@pytest.mark.spec("numbers.rounding")
@pytest.mark.parametrize(("program", "check"), CHECKS, ids=lambda one: getattr(one, "name", ""))
def test_the_cuda_target_adds_wide_and_rounds_once(program, check):
    check(jit(program, target="cuda"), "cuda")
