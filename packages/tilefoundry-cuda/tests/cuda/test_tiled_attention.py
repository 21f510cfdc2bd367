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


@func
def fetched(
    q: Tensor[(2, S, 6, 128), "bf16"], k: Tensor[(2, 2, L, 128), "bf16"], v: Tensor[(2, 2, L, 64), "bf16"]
) -> Tensor[(2, 6, S, 64), "bf16"]:
    return tf.attention(tf.transpose(q, (0, 2, 1, 3)), k, v, causal=True)


@func
def fetched_in_windows(
    q: Tensor[(1, 3, S, 64), "f16"], k: Tensor[(1, 3, L, 64), "f16"], v: Tensor[(1, 3, L, 128), "f16"]
) -> Tensor[(1, 3, S, 128), "f16"]:
    return tf.attention(q, k, v, causal=True, window=200, softcap=5.0)


@func
def fetched_whole(
    q: Tensor[(1, 4, S, 64), "bf16"], k: Tensor[(1, 1, L, 64), "bf16"], v: Tensor[(1, 1, L, 64), "bf16"]
) -> Tensor[(1, 4, S, 64), "bf16"]:
    return tf.attention(q, k, v, scale=-0.2)


@func
def counted(
    q: Tensor[(1, 4, S, 64), "bf16"], k: Tensor[(1, 1, L, 64), "bf16"], n: Tensor[(), "i32"]
) -> Tensor[(1, 4, S, 64), "bf16"]:
    return tf.attention(q, k, k, n)


@func
def few(
    q: Tensor[(1, 4, 16, 64), "bf16"], k: Tensor[(1, 1, L, 64), "bf16"]
) -> Tensor[(1, 4, 16, 64), "bf16"]:
    return tf.attention(q, k, k)


def _fetched(device, s, keys):
    q = torch.randn(2, s, 6, 128, device=device).bfloat16()
    k = torch.randn(2, 2, keys, 128, device=device).bfloat16()
    v = torch.randn(2, 2, keys, 64, device=device).bfloat16()
    return fetched, (q, k, v), attended(q.transpose(1, 2), k, v, causal=True)


def _fetched_in_windows(device, s, keys):
    q, k = (torch.randn(1, 3, n, 64, device=device).half() for n in (s, keys))
    v = torch.randn(1, 3, keys, 128, device=device).half()
    return fetched_in_windows, (q, k, v), attended(q, k, v, causal=True, window=200, softcap=5.0)


def _fetched_whole(device, s, keys):
    q, k, v = (torch.randn(1, h, n, 64, device=device).bfloat16() for h, n in ((4, s), (1, keys), (1, keys)))
    return fetched_whole, (q, k, v), attended(q, k, v, scale=-0.2)


FETCHED = (_fetched, _fetched_in_windows, _fetched_whole)


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
@pytest.mark.parametrize("case", (_prefill, _whole, _fetched))
def test_on_an_emulated_block(case):
    _check(case, emulate, "cpu", 19, 90)


@pytest.mark.gpu
@pytest.mark.parametrize("sizes", ((1, 1), (1, 777), (100, 100), (2048, 2048), (300, 4000)), ids=str)
def test_prefill_on_the_gpu(sizes):
    _check(_prefill, lambda program: jit(program, target="cuda"), "cuda", *sizes)


@pytest.mark.gpu
@pytest.mark.parametrize("case", FETCHED)
@pytest.mark.parametrize(
    "sizes", ((1, 1), (70, 70), (129, 300), (300, 77), (2048, 2048), (100, 4000)), ids=str
)
def test_many_queries_on_the_gpu(case, sizes):
    _check(case, lambda program: jit(program, target="cuda"), "cuda", *sizes)


@pytest.mark.gpu
def test_rows_that_start_anywhere_on_the_gpu():
    program, given, _ = _fetched_whole("cuda", 190, 260)
    # Neither the first element nor the rows are at multiples of 16 bytes, which shared copies need.
    shifted = [
        torch.empty(x.numel() + 1, device="cuda", dtype=x.dtype)[1:].view(x.shape).copy_(x) for x in given
    ]
    made = jit(program, target="cuda")(*shifted)
    torch.testing.assert_close(made, jit(program, target="cuda")(*given), rtol=0, atol=0)


@pytest.mark.gpu
def test_every_key_on_the_gpu():
    _check(_whole, lambda program: jit(program, target="cuda"), "cuda")


@pytest.mark.parametrize(("program", "tiled"), ((prefill, True), (whole, True), (decode, False)))
def test_few_queries_read_keys_as_a_stream_and_many_go_by_tiles(program, tiled):
    (text,) = BACKEND.emit(lower(program, target=H200), H200, CompilerOptions()).parts.devices
    assert ("ops::attention_task<" in text) == tiled
    assert ("TILEFOUNDRY_ATTENTION_BLOCKS" in text) != tiled


@pytest.mark.parametrize(
    ("program", "threads"),
    (
        (fetched, 384),
        (fetched_in_windows, 384),
        (fetched_whole, 384),
        (counted, 128),
        (few, 128),
        (prefill, 128),
    ),
)
def test_plain_operands_of_full_rows_are_fetched_by_a_warpgroup(program, threads):
    """Dims of 64 and 128 in memory, all keys, and more queries than one warpgroup's."""
    (text,) = BACKEND.emit(lower(program, target=H200), H200, CompilerOptions()).parts.devices
    assert f"ops::attention<{threads}>(" in text
    assert ("TILEFOUNDRY_DYNAMIC_SHARED" in text) == (threads == 384)
