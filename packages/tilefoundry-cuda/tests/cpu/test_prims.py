"""Statement-level programs on the CPU target. Oracles: torch for results, the stated refusal for the rest."""

from __future__ import annotations

import pytest
import torch

from tilefoundry import jit, lower, module, prim_func
from tilefoundry.dsl import DimVar, Mesh, T, Tensor, Topology, tf
from tilefoundry.ir.errors import UnsupportedError

N = DimVar("N", 1, 1000)


@prim_func
def loops(x: Tensor[(N, 4), "f32"], k: Tensor[(N,), "i64"], y: Tensor[(N, 4), "f32"], z: Tensor[(N,), "f32"]):
    for begin, end in T.parallel(N, cost=4):
        for i in range(begin, end):
            total = T.accumulator("sum", "f32")
            top = T.accumulator("max", "f32")
            for j in T.vectorized(4):
                v = tf.exp(x[i, j]) * 2.0
                total += v
                top += v
                y[i, j] = T.select((v > 1.0) & ~(v > 4.0), v, T.cast(i + 2 * j, "f32"))
            if (total > 8.0) | (k[i] == 2):
                z[i] = total / 2.0
            else:
                z[i] = top


@pytest.mark.spec("statements.cpu")
def test_loops_accumulators_and_branches():
    x, k = torch.randn(33, 4), torch.randint(0, 4, (33,))
    x[5, 2] = float("nan")
    y, z = jit(loops, target="cpu")(x, k)
    v = torch.exp(x) * 2.0
    at = (torch.arange(33)[:, None] + 2 * torch.arange(4)).float()
    torch.testing.assert_close(y, torch.where((v > 1) & ~(v > 4), v, at))
    wanted = torch.where((v.sum(1) > 8) | (k == 2), v.sum(1) / 2, v.amax(1))
    torch.testing.assert_close(z, wanted, equal_nan=True)


@prim_func
def tiles(x: Tensor[(N, 4), "f32"], w: Tensor[(4,), "f32"], y: Tensor[(N, 4), "f32"], z: Tensor[(4,), "f32"]):
    held = T.alloc_tensor(Tensor[(4,), "f32"])
    T.fill(held, 0.5)
    T.binary(x, held, y, kind="mul")
    T.unary(y, y, kind="exp")
    T.clamp(y, y, min_val=0.5, max_val=2.0)
    T.relu(y, y)
    for i in range(N):
        T.rms_norm(y[i], w, y[i], eps=1e-6)
    T.reduce(y, z, axes=(0,), kind="max")


@pytest.mark.spec("statements.cpu")
def test_tile_ops_on_views():
    x, w = torch.randn(7, 4), torch.rand(4)
    y, z = jit(tiles, target="cpu")(x, w)
    wanted = torch.nn.functional.rms_norm(torch.exp(x * 0.5).clamp(0.5, 2.0).relu(), (4,), w, 1e-6)
    torch.testing.assert_close(y, wanted)
    torch.testing.assert_close(z, wanted.amax(0))


@module(entry="host")
class Launching:
    @prim_func
    def double(x: Tensor[(N, 4), "f32"], y: Tensor[(N, 4), "f32"]):
        T.binary(x, x, y, kind="add")

    @prim_func
    def host(x: Tensor[(N, 4), "f32"], y: Tensor[(N, 4), "f32"]):
        T.launch(double, x, y)


@pytest.mark.spec("statements.cpu")
def test_a_host_launches_kernels():
    x = torch.randn(5, 4)
    torch.testing.assert_close(jit(Launching, target="cpu")(x), x + x)


@prim_func(topologies=(Topology("cta", 1), Topology("thread", 32)))
def synced(x: Tensor[(N, 4), "f32"], y: Tensor[(N, 4), "f32"]):
    with Mesh(("thread",), (32,), ("t",)) as m:
        T.copy(x, y)
        T.sync(m)


@prim_func
def staged(x: Tensor[(8, 4), "f32"], y: Tensor[(8, 4), "f32"]):
    T.copy_async(x, y)
    T.cp_async_commit()


@prim_func
def contracted(x: Tensor[(8, 4), "f32"], w: Tensor[(4, 8), "f32"], y: Tensor[(8, 8), "f32"]):
    for i, j, a in T.contract(x, w):
        y[i, j] = a


@prim_func
def attended(q: Tensor[(1, 4, N, 8), "f32"], k: Tensor[(1, 2, N, 8), "f32"], y: Tensor[(1, N, 4, 8), "f32"]):
    for b, h, i, d, o in T.attention(q, k, k, causal=True):
        y[b, i, h, d] = o * 2.0


def test_a_host_launches_kernels_with_levels_of_their_own():
    @module(entry="host")
    class Twice:
        @prim_func(topologies=(Topology("cta", 1), Topology("thread", 32)))
        def double(x: Tensor[(N, 4), "f32"], y: Tensor[(N, 4), "f32"]):
            with Mesh(("thread",), (32,), ("t",)) as m:  # noqa: F841
                T.binary(x, x, y, "add")

        again = double

        @prim_func
        def host(x: Tensor[(N, 4), "f32"], y: Tensor[(N, 4), "f32"], z: Tensor[(N, 4), "f32"]):
            T.launch(double, x, y)
            T.launch(again.double, y, z)

    x = torch.randn(7, 4)
    y, z = jit(Twice, target="cpu")(x)
    torch.testing.assert_close(y, x * 2)
    torch.testing.assert_close(z, x * 4)


@pytest.mark.spec("statements.cpu")
def test_tile_products_and_attention():
    x, w = torch.randn(8, 4), torch.randn(4, 8)
    torch.testing.assert_close(jit(contracted, target="cpu")(x, w), x @ w)
    q, k = torch.randn(1, 4, 9, 8), torch.randn(1, 2, 9, 8)
    kk = k.repeat_interleave(2, dim=1)
    wanted = torch.nn.functional.scaled_dot_product_attention(q, kk, kk, is_causal=True)
    torch.testing.assert_close(jit(attended, target="cpu")(q, k), wanted.transpose(1, 2) * 2.0)


@prim_func
def multiplied(a: Tensor[(32, 16), "bf16"], b: Tensor[(16, 8), "bf16"], acc: Tensor[(32, 8), "f32"]):
    T.mma(acc, a, b, atom="m16n8k16")


REFUSED = {
    "multiplied": (
        multiplied,
        r"multiplied: T\.mma is not compiled for the cpu target: write the product as x @ y",
    ),
    "synced": (synced, r"synced: T\.sync is not compiled for the cpu target: .*leave it out"),
    "staged": (staged, r"staged: T\.copy_async is not compiled for the cpu target: use T\.copy"),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.spec("refused.gpu-statements")
def test_what_only_a_gpu_gives_a_meaning_is_refused_by_name(name):
    program, message = REFUSED[name]
    with pytest.raises(UnsupportedError, match=message):
        lower(program, target="cpu")
