"""``T.contract`` in CUDA kernels. Oracle: torch formulas; kernels run on an emulated block, or on the GPU."""

from __future__ import annotations

import linecache
import warnings

import pytest
import torch

from tilefoundry import jit, lower
from tilefoundry.codegen.cuda.authored import NotFollowed
from tilefoundry.codegen.cuda.authored.refusal import PlacementWarning
from tilefoundry.dsl import DimVar, T, Tensor, Topology, module, prim_func
from tilefoundry.target import CudaTarget

from .emulating import emulate
from .runners import compile_device_code

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


@prim_func
def gated(
    x: Tensor[(M, 64), "bf16"],
    gate: Tensor[(64, 40), "bf16"],
    up: Tensor[(64, 40), "i8"],
    scale: Tensor[(40,), "f32"],
    y: Tensor[(M, 40), "bf16"],
):
    wide = (T.cast(up[k, j], "f32") * scale[j] for k, j in T.elements((64, 40), "bf16"))
    for i, j, g, u in T.contract(x, (gate, wide)):
        y[i, j] = T.silu(g) * u


@prim_func
def activated(
    x: Tensor[(2, 3, M, 24), "f32"],
    w: Tensor[(3, 16, 24), "f32"],
    y: Tensor[(2, 3, M, 16), "f32"],
    z: Tensor[(2, 3, M, 16), "f32"],
):
    low = (T.relu(x[n, h, i, k]) for n, h, i, k in T.elements((2, 3, M, 24), "f32"))
    turned = (w[h, j, k] for h, k, j in T.elements((3, 24, 16), "f32"))
    doubled = (w[0, j, k] * 2.0 for h, k, j in T.elements((3, 24, 16), "f32"))
    for n, h, i, j, a, b in T.contract(low, (turned, doubled)):
        y[n, h, i, j] = a - b
        if n == 1:
            z[n, h, i, j] = b
        else:
            z[n, h, i, j] = 0.0


@prim_func
def several(
    x: Tensor[(M, 32), "f16"],
    p: Tensor[(32, 72), "f16"],
    q: Tensor[(32, 72), "f16"],
    r: Tensor[(72, 32), "f16"],
    y: Tensor[(M, 72), "f32"],
):
    turned = T.tensor_view(r, (32, 72), (1, 32))
    for i, j, a, b, c, d in T.contract(x, (p, q, turned, p)):
        y[i, j] = a * b - c + d


@prim_func
def few_rows(
    x: Tensor[(3, 264), "bf16"],
    gate: Tensor[(264, 40), "bf16"],
    up: Tensor[(264, 40), "i8"],
    scale: Tensor[(40,), "f32"],
    y: Tensor[(3, 40), "f32"],
):
    wide = (T.cast(up[k, j], "f32") * scale[j] for k, j in T.elements((264, 40), "bf16"))
    for i, j, g, u in T.contract(x, (gate, wide)):
        y[i, j] = g - u


@prim_func
def one_row(x: Tensor[(2, 1, 264), "f32"], w: Tensor[(40, 264), "i8"], y: Tensor[(2, 1, 40), "f32"]):
    wide = (T.cast(w[j, k], "f32") * 2.0 for k, j in T.elements((264, 40), "f32"))
    for n, i, j, a in T.contract(x, wide):
        y[n, i, j] = a


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


def _gated(device):
    x, gate = torch.randn(70, 64, device=device).bfloat16(), torch.randn(64, 40, device=device).bfloat16()
    up, scale = torch.randint(-8, 8, (64, 40), device=device, dtype=torch.int8), torch.rand(40, device=device)
    x = x * 0.1
    wide = (up.float() * scale).bfloat16().float()
    return (x, gate, up, scale), (torch.nn.functional.silu(x.float() @ gate.float()) * (x.float() @ wide),)


def _activated(device):
    x, w = torch.randn(2, 3, 37, 24, device=device), torch.randn(3, 16, 24, device=device)
    a, b = x.relu() @ w.transpose(1, 2), x.relu() @ w[0].T * 2
    return (x, w), (a - b, torch.stack([torch.zeros_like(b[0]), b[1]]))


def _several(device):
    x, p, q, r = (torch.randn(*s, device=device).half() for s in ((90, 32), (32, 72), (32, 72), (72, 32)))
    a, b, c = x.float() @ p.float(), x.float() @ q.float(), x.float() @ r.float().T
    return (x, p, q, r), (a * b - c + a,)


def _few_rows(device):
    x, gate = torch.randn(3, 264, device=device).bfloat16(), torch.randn(264, 40, device=device).bfloat16()
    up, scale = (
        torch.randint(-8, 8, (264, 40), device=device, dtype=torch.int8),
        torch.rand(40, device=device),
    )
    wide = (up.float() * scale).bfloat16().float()
    return (x, gate, up, scale), (x.float() @ gate.float() - x.float() @ wide,)


def _one_row(device):
    x = torch.randn(2, 1, 264, device=device)
    w = torch.randint(-8, 8, (40, 264), device=device, dtype=torch.int8)
    return (x, w), (x @ w.float().T * 2,)


CASES = {
    "epilogue": (epilogue, _epilogue),
    "batches": (batches, _batches),
    "chained": (Chained, _chained),
    "gated": (gated, _gated),
    "activated": (activated, _activated),
    "several": (several, _several),
    "few_rows": (few_rows, _few_rows),
    "one_row": (one_row, _one_row),
}


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


def line_of(warning: warnings.WarningMessage) -> str:
    """The text of the line that a warning points at."""
    return linecache.getline(warning.filename, warning.lineno).strip()


def test_what_the_runtime_chooses_itself_is_said_in_a_warning():
    @prim_func
    def f(x: Tensor[(M, 64), "bf16"], w: Tensor[(64, 40), "bf16"], y: Tensor[(M, 40), "bf16"]):
        for i, j, s in T.contract(x, w, tile=(64, 64, 32), stages=2, split_k=2):
            y[i, j] = s

    message = (
        r"f: T.contract: tile=\(64, 64, 32\), stages=2, split_k=2 change nothing on CUDA, .* leave it out"
    )
    with pytest.warns(PlacementWarning, match=message) as seen:
        lower(f, target=H200)
    assert [line_of(one) for one in seen] == [
        "for i, j, s in T.contract(x, w, tile=(64, 64, 32), stages=2, split_k=2):"
    ]


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("name", ["gated", "activated", "several", "few_rows", "one_row"])
def test_products_that_share_a_pass_compile(name, arch):
    assert compile_device_code(CASES[name][0], arch) == 1


def test_more_operands_than_share_a_pass_are_refused_by_name():
    @prim_func
    def many(x: Tensor[(M, 64), "bf16"], w: Tensor[(64, 40), "bf16"], y: Tensor[(M, 40), "bf16"]):
        for i, j, a, b, c, d, e in T.contract(x, (w, w, w, w, w)):
            y[i, j] = a + b + c + d + e

    with pytest.raises(NotFollowed, match="among 5 right operands; at most 4 fit: give the others a kernel"):
        lower(many, target=H200)
