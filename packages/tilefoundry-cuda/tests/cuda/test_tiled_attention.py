"""``tf.attention`` of many queries, which goes by tiles on matrix instructions. Oracle: the plain formula in torch, in
float64, with bounds from the element types."""

from __future__ import annotations

import pytest
import torch

from tilefoundry import CompilerOptions, func, jit, lower
from tilefoundry.codegen.cuda import BACKEND
from tilefoundry.dsl import DimVar, Tensor, tf
from tilefoundry.target import CudaTarget

from .emulating import emulate
from .test_prim_attention import attended

H200 = CudaTarget("nvidia.h200_sxm")
S, L = DimVar("S", 1, 2049), DimVar("L", 1, 4097)


@func
def prefill(
    q: Tensor[(2, S, 4, 32), "bf16"],
    k: Tensor[(2, 2, L, 32), "bf16"],
    v: Tensor[(2, 2, L, 48), "bf16"],
    n: Tensor[(2,), "i64"],
) -> Tensor[(2, 4, S, 48), "bf16"]:
    return tf.attention(tf.transpose(q, (0, 2, 1, 3)), k, v, n, causal=True, window=70, softcap=4.0)


@func
def whole(
    q: Tensor[(1, 3, 40, 64), "f16"], k: Tensor[(1, 3, 40, 64), "f16"]
) -> Tensor[(1, 3, 40, 64), "f16"]:
    return tf.attention(q, k, k, scale=0.2)


@func
def decode(
    q: Tensor[(1, 8, 1, 64), "bf16"], k: Tensor[(1, 4, 512, 64), "bf16"]
) -> Tensor[(1, 8, 1, 64), "bf16"]:
    return tf.attention(q, k, k)


def _prefill(device, s, keys):
    q = torch.randn(2, s, 4, 32, device=device).bfloat16()
    k = torch.randn(2, 2, keys, 32, device=device).bfloat16()
    v = torch.randn(2, 2, keys, 48, device=device).bfloat16()
    n = torch.tensor([keys, max(keys - 9, 0)], device=device)
    want = attended(q.transpose(1, 2), k, v, n, causal=True, window=70, softcap=4.0)
    return prefill, (q, k, v, n), want


def _whole(device, *_):
    q, k = (torch.randn(1, 3, 40, 64, device=device).half() for _ in range(2))
    return whole, (q, k), attended(q, k, k, scale=0.2)


def _check(case, build, device, *sizes):
    torch.manual_seed(0)
    program, given, want = case(device, *sizes)
    made = build(program)(*given)
    unit = 2**-8 if made.dtype is torch.bfloat16 else 2**-10
    torch.testing.assert_close(made.double(), want, rtol=unit, atol=1e-5)


@pytest.mark.emulated
@pytest.mark.parametrize("case", (_prefill, _whole))
def test_on_an_emulated_block(case):
    _check(case, emulate, "cpu", 19, 90)


@pytest.mark.gpu
@pytest.mark.parametrize("sizes", ((1, 1), (1, 777), (100, 100), (2048, 2048), (300, 4000)), ids=str)
def test_prefill_on_the_gpu(sizes):
    _check(_prefill, lambda program: jit(program, target="cuda"), "cuda", *sizes)


@pytest.mark.gpu
def test_every_key_on_the_gpu():
    _check(_whole, lambda program: jit(program, target="cuda"), "cuda")


@pytest.mark.parametrize(("program", "tiled"), ((prefill, True), (whole, True), (decode, False)))
def test_few_queries_read_keys_as_a_stream_and_many_go_by_tiles(program, tiled):
    (text,) = BACKEND.emit(lower(program, target=H200), H200, CompilerOptions()).parts.devices
    assert ("ops::attention_task<" in text) == tiled
    assert ("TILEFOUNDRY_ATTENTION_BLOCKS" in text) != tiled
