"""``T.attention`` in CUDA kernels. Oracle: the plain formula in torch, in float64, with bounds from the element types;
kernels run on an emulated block, or on the GPU."""

from __future__ import annotations

import linecache

import pytest
import torch

from tilefoundry import func, jit, lower
from tilefoundry.codegen.cuda.authored import NotFollowed
from tilefoundry.codegen.cuda.authored.refusal import PlacementWarning
from tilefoundry.dsl import DimVar, T, Tensor, Topology, module, prim_func
from tilefoundry.target import CudaTarget

from .emulating import emulate
from .runners import compile_device_code

H200 = CudaTarget("nvidia.h200_sxm")
S, L = DimVar("S", 1, 1025), DimVar("L", 1, 4097)
P, K = DimVar("P", 1, 1025), DimVar("K", 1, 4097)


@prim_func
def causal(
    q: Tensor[(2, 4, S, 64), "bf16"],
    k: Tensor[(2, 2, L, 64), "bf16"],
    v: Tensor[(2, 2, L, 64), "bf16"],
    y: Tensor[(2, 4, S, 64), "bf16"],
):
    for b, h, i, d, o in T.attention(q, k, v, causal=True):
        y[b, h, i, d] = o


@prim_func
def in_parts(
    q: Tensor[(2, 4, S, 32), "f16"],
    k: Tensor[(2, 2, L, 32), "f16"],
    v: Tensor[(2, 2, L, 16), "f16"],
    n: Tensor[(2,), "i32"],
    scale: Tensor[(16,), "f32"],
    y: Tensor[(2, S, 4, 16), "f32"],
):
    for b, h, i, d, o in T.attention(q, k, v, n, causal=True, window=9, softcap=3.0, split_kv=3):
        if i > 0:
            y[b, i, h, d] = o * scale[d]
        else:
            y[b, i, h, d] = o


@prim_func
def odd_dims(
    q: Tensor[(1, 3, S, 24), "f32"],
    k: Tensor[(1, 3, L, 24), "i8"],
    v: Tensor[(1, 3, L, 10), "f32"],
    n: Tensor[(), "i64"],
    y: Tensor[(1, 3, S, 10), "f32"],
):
    wide = (T.cast(k[b, h, i, d], "f32") * 0.25 for b, h, i, d in T.elements((1, 3, L, 24), "f32"))
    for b, h, i, d, o in T.attention(q, wide, v, n, scale=0.5):
        y[b, h, i, d] = o + 1.0


@prim_func
def turned(
    q: Tensor[(1, S, 2, 80), "bf16"],
    k: Tensor[(1, L, 2, 80), "bf16"],
    v: Tensor[(1, L, 2, 48), "bf16"],
    y: Tensor[(1, S, 2, 48), "f32"],
):
    queries = T.tensor_view(q, (1, 2, S, 80), (0, 80, 160, 1))
    keys = T.tensor_view(k, (1, 2, L, 80), (0, 80, 160, 1))
    halved = (T.cast(v[b, i, h, d], "f32") * 0.5 for b, h, i, d in T.elements((1, 2, L, 48), "bf16"))
    for b, h, i, d, o in T.attention(queries, keys, halved):
        y[b, i, h, d] = o


@module(entry="host")
class Hosted:
    @prim_func
    def once(
        q: Tensor[(1, 2, P, 40), "f64"],
        k: Tensor[(1, 1, K, 40), "f64"],
        y: Tensor[(1, 2, P, 40), "f64"],
    ):
        for b, h, i, d, o in T.attention(q, k, k, causal=True, split_kv=2):
            y[b, h, i, d] = o

    @prim_func
    def host(
        q: Tensor[(1, 2, S, 40), "f64"], k: Tensor[(1, 1, L, 40), "f64"], y: Tensor[(1, 2, S, 40), "f64"]
    ):
        held = T.alloc_tensor(Tensor[(1, 2, S, 40), "f64"])
        T.launch(once, q, k, held)
        T.launch(once, held, k, y)


@module(entry="f")
class Called:
    @prim_func(topologies=(Topology("cta", 1), Topology("thread", 128)))
    def once(q: Tensor[(1, 2, P, 8), "f32"], y: Tensor[(1, 2, P, 8), "f32"]):
        for b, h, i, d, o in T.attention(q, q, q, split_kv=2):
            y[b, h, i, d] = o

    @func
    def f(x: Tensor[(1, 2, P, 8), "f32"]) -> Tensor[(1, 2, P, 8), "f32"]:
        y = once(x * 2.0)
        return y + 1.0


def attended(q, k, v, lengths=None, *, scale=None, causal=False, window=None, softcap=None):
    """The formula, in float64."""
    q, k, v = q.double(), k.double(), v.double()
    per = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(per, 1), v.repeat_interleave(per, 1)
    out = torch.zeros(*q.shape[:3], v.shape[3], dtype=torch.float64, device=q.device)
    for b in range(q.shape[0]):
        length = k.shape[2] if lengths is None else int(lengths.reshape(-1)[b if lengths.numel() > 1 else 0])
        scores = q[b] @ k[b, :, :length].transpose(1, 2) * (q.shape[3] ** -0.5 if scale is None else scale)
        if softcap is not None:
            scores = softcap * torch.tanh(scores / softcap)
        if causal:
            key = torch.arange(length, device=q.device)
            at = torch.arange(q.shape[2], device=q.device)[:, None] + length - q.shape[2]
            seen = (key <= at) & (key > at - window if window is not None else key <= at)
            scores = scores.masked_fill(~seen, float("-inf"))
        out[b] = torch.softmax(scores, -1).nan_to_num(0.0) @ v[b, :, :length]
    return out


def _random(device, *shape):
    return torch.randn(*shape, device=device)


def _causal(device, s=37, keys=80):
    q, k, v = _random(device, 2, 4, s, 64), _random(device, 2, 2, keys, 64), _random(device, 2, 2, keys, 64)
    q, k, v = q.bfloat16(), k.bfloat16(), v.bfloat16()
    return (q, k, v), attended(q, k, v, causal=True)


def _in_parts(device, s=37, keys=90):
    q, k, v = _random(device, 2, 4, s, 32), _random(device, 2, 2, keys, 32), _random(device, 2, 2, keys, 16)
    q, k, v = q.half(), k.half(), v.half()
    n, scale = torch.tensor([keys - 7, 20], device=device, dtype=torch.int32), _random(device, 16)
    out = attended(q, k, v, n, causal=True, window=9, softcap=3.0)
    out[:, :, 1:] *= scale
    return (q, k, v, n, scale), out.transpose(1, 2)


def _odd_dims(device, s=11, keys=45):
    q, v = _random(device, 1, 3, s, 24), _random(device, 1, 3, keys, 10)
    k = torch.randint(-8, 8, (1, 3, keys, 24), device=device, dtype=torch.int8)
    n = torch.tensor(keys - 4, device=device)
    return (q, k, v, n), attended(q, k * 0.25, v, n, scale=0.5) + 1


def _turned(device, s=70, keys=100):
    q, k, v = _random(device, 1, s, 2, 80), _random(device, 1, keys, 2, 80), _random(device, 1, keys, 2, 48)
    q, k, v = q.bfloat16(), k.bfloat16(), v.bfloat16()
    heads = (x.transpose(1, 2) for x in (q, k, v.float() / 2))
    return (q, k, v), attended(*heads).transpose(1, 2)


def _hosted(device, s=9, keys=70):
    q, k = _random(device, 1, 2, s, 40).double(), _random(device, 1, 1, keys, 40).double()
    return (q, k), attended(attended(q, k, k, causal=True), k, k, causal=True)


def _called(device, s=9, keys=0):
    x = _random(device, 1, 2, s, 8)
    return (x,), attended(2 * x, 2 * x, 2 * x) + 1


CASES = {
    "causal": (causal, _causal),
    "in_parts": (in_parts, _in_parts),
    "odd_dims": (odd_dims, _odd_dims),
    "turned": (turned, _turned),
    "hosted": (Hosted, _hosted),
    "called": (Called, _called),
}


def _check(run, name, device, **sizes):
    torch.manual_seed(0)
    program, case = CASES[name]
    given, wanted = case(device, **sizes)
    compiled = run(program)
    made = compiled(*given)
    # One rounding of the result; sums of f32 to a few of its last places.
    unit = {torch.bfloat16: 2**-8, torch.float32: 2e-6, torch.float64: 1e-14}[made.dtype]
    torch.testing.assert_close(made.double(), wanted, rtol=unit, atol=4e-6 if unit > 1e-10 else 1e-14)
    assert torch.equal(compiled(*given), made)


@pytest.mark.emulated
@pytest.mark.parametrize("name", CASES)
def test_on_an_emulated_block(name):
    _check(emulate, name, "cpu")


@pytest.mark.gpu
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("sizes", ((), (1, 1), (1, 600), (64, 64), (130, 1000), (300, 40)), ids=str)
def test_on_the_gpu(name, sizes):
    s, keys = sizes or (None, None)
    given = {} if s is None else {"s": s, "keys": max(keys, 30) if name == "in_parts" else max(keys, 5)}
    _check(lambda program: jit(program, target="cuda"), name, "cuda", **given)


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("name", ["causal", "in_parts", "odd_dims"])
def test_attention_compiles(name, arch):
    assert compile_device_code(CASES[name][0], arch) == 1


def test_what_the_runtime_chooses_itself_is_said_in_a_warning():
    @prim_func
    def f(q: Tensor[(1, 1, S, 64), "bf16"], y: Tensor[(1, 1, S, 64), "bf16"]):
        for b, h, i, d, o in T.attention(q, q, q, tile=(64, 64), stages=2, split_kv=2):
            y[b, h, i, d] = o

    message = r"f: T.attention: tile=\(64, 64\), stages=2 change nothing on CUDA"
    with pytest.warns(PlacementWarning, match=message) as seen:
        lower(f, target=H200)
    (warning,) = seen
    line = linecache.getline(warning.filename, warning.lineno)
    assert line.strip() == "for b, h, i, d, o in T.attention(q, q, q, tile=(64, 64), stages=2, split_kv=2):"


def test_dims_that_no_block_holds_are_refused_by_name():
    @prim_func
    def wide(q: Tensor[(1, 1, 4, 2048), "f32"], y: Tensor[(1, 1, 4, 2048), "f32"]):
        for b, h, i, d, o in T.attention(q, q, q):
            y[b, h, i, d] = o

    @prim_func
    def open_dim(q: Tensor[(1, 1, 4, S), "f32"], y: Tensor[(1, 1, 4, S), "f32"]):
        for b, h, i, d, o in T.attention(q, q, q, scale=1.0):
            y[b, h, i, d] = o

    refused = ((wide, "dims from 1 to 1024 of f32 on CUDA, got 2048 of q"), (open_dim, "needs a static dim"))
    for program, message in refused:
        with pytest.raises(NotFollowed, match=message):
            lower(program, target=H200)


def test_statements_beside_it_are_refused_by_name():
    @prim_func
    def both(q: Tensor[(1, 1, S, 64), "f32"], y: Tensor[(1, 1, S, 64), "f32"], z: Tensor[(4,), "f32"]):
        T.fill(z, 0.0)
        for b, h, i, d, o in T.attention(q, q, q):
            y[b, h, i, d] = o

    with pytest.raises(
        NotFollowed, match=r"both: T\.attention .* shares its CUDA kernel with no other statement"
    ):
        lower(both, target=H200)


@pytest.mark.gpu
def test_a_captured_call_reads_lengths_anew():
    """One graph serves every length that lies in device memory."""
    (q, k, v, n, scale), _ = _in_parts("cuda", s=1, keys=300)
    run, y = jit(in_parts, target="cuda"), torch.empty(2, 1, 4, 16, device="cuda")
    run(q, k, v, n, scale, y)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run(q, k, v, n, scale, y)
    for lengths in ((300, 1), (0, 128), (64, 65)):
        n.copy_(torch.tensor(lengths, dtype=torch.int32))
        graph.replay()
        want = attended(q, k, v, n, causal=True, window=9, softcap=3.0).transpose(1, 2)
        torch.testing.assert_close(y.double(), want, rtol=2e-6, atol=4e-6)
