"""``T.contract`` in CUDA kernels. Oracle: torch formulas; kernels run on an emulated block, or on the GPU."""

from __future__ import annotations

import pytest
import torch

from tilefoundry import jit, lower
from tilefoundry.codegen.cuda.authored import NotFollowed
from tilefoundry.codegen.cuda.authored.refusal import PlacementWarning
from tilefoundry.dsl import DimVar, T, Tensor, Topology, module, prim_func
from tilefoundry.target import CudaTarget

from .emulating import emulate

H200 = CudaTarget("nvidia.h200_sxm")
M = DimVar("M", 1, 4096)


@prim_func
def epilogue(
    x: Tensor[(M, 64), "bf16"],
    w: Tensor[(64, 40), "bf16"],
    b: Tensor[(40,), "f32"],
    y: Tensor[(M, 40), "bf16"],
    z: Tensor[(M, 40), "f32"],
):
    for i, j, s in T.contract(x, w):
        y[i, j] = T.silu(s) + b[j]
        if j > 3:
            z[i, j] = s
        else:
            z[i, j] = 0.0


@prim_func
def batches(x: Tensor[(M, 3, 5, 16), "f32"], w: Tensor[(3, 16, 24), "f32"], y: Tensor[(M, 3, 5, 24), "f32"]):
    for n, h, i, j, s in T.contract(x, w):
        y[n, h, i, j] = s * 2.0


@module(entry="host")
class Chained:
    @prim_func(topologies=(Topology("cta", 4), Topology("thread", 288)))
    def up(x: Tensor[(M, 32), "bf16"], w: Tensor[(32, 48), "bf16"], y: Tensor[(M, 48), "bf16"]):
        for i, j, s in T.contract(x, w):
            y[i, j] = T.relu(s)

    @prim_func
    def host(
        x: Tensor[(M, 32), "bf16"],
        w: Tensor[(32, 48), "bf16"],
        h: Tensor[(M, 48), "bf16"],
    ):
        T.launch(up, x, w, h)


def _epilogue(device):
    x, w, b = (torch.randn(*s, device=device) for s in ((70, 64), (64, 40), (40,)))
    x, w = x.bfloat16(), (w * 0.2).bfloat16()
    s = x.float() @ w.float()
    return (x, w, b), (
        torch.nn.functional.silu(s) + b,
        torch.where(torch.arange(40, device=device) > 3, s, 0.0),
    )


def _batches(device):
    x, w = torch.randn(2, 3, 5, 16, device=device), torch.randn(3, 16, 24, device=device)
    return (x, w), ((x @ w) * 2,)


def _chained(device):
    x, w = torch.randn(9, 32, device=device).bfloat16(), torch.randn(32, 48, device=device).bfloat16()
    return (x, w), ((x.float() @ w.float()).relu(),)


CASES = {"epilogue": (epilogue, _epilogue), "batches": (batches, _batches), "chained": (Chained, _chained)}


def _check(run, name, device):
    torch.manual_seed(0)
    program, case = CASES[name]
    given, wanted = case(device)
    out = run(program)(*given)
    for made, expected in zip(out if isinstance(out, tuple) else (out,), wanted, strict=True):
        loose = made.dtype is torch.bfloat16
        tolerance = {"rtol": 1e-2, "atol": 2e-2} if loose else {"rtol": 2e-3, "atol": 2e-3}
        torch.testing.assert_close(made.float(), expected, **tolerance)


@pytest.mark.emulated
@pytest.mark.parametrize("name", CASES)
def test_on_an_emulated_block(name):
    _check(emulate, name, "cpu")


@pytest.mark.gpu
@pytest.mark.parametrize("name", CASES)
def test_on_the_gpu(name):
    _check(lambda program: jit(program, target="cuda"), name, "cuda")


def test_what_the_runtime_chooses_itself_is_said_in_a_warning():
    @prim_func
    def f(x: Tensor[(M, 64), "bf16"], w: Tensor[(64, 40), "bf16"], y: Tensor[(M, 40), "bf16"]):
        for i, j, s in T.contract(x, w, tile=(64, 64, 32), stages=2):
            y[i, j] = s

    with pytest.warns(PlacementWarning, match="the runtime chooses tiles, stages and splits"):
        lower(f, target=H200)


def test_what_has_no_call_is_refused_by_name():
    @prim_func
    def pair(x: Tensor[(M, 64), "bf16"], w: Tensor[(64, 40), "bf16"], y: Tensor[(M, 40), "bf16"]):
        for i, j, a, b in T.contract(x, (w, w)):
            y[i, j] = a * b

    @prim_func
    def widened(x: Tensor[(M, 64), "bf16"], w: Tensor[(64, 40), "i8"], y: Tensor[(M, 40), "bf16"]):
        wide = (T.cast(w[k, j], "f32") for k, j in T.elements((64, 40), "bf16"))
        for i, j, a in T.contract(x, wide):
            y[i, j] = a

    for program, message in ((pair, "among 2 right operands"), (widened, "has a prologue")):
        with pytest.raises(NotFollowed, match=message):
            lower(program, target=H200)
