"""Model files as users write them, against the public import paths alone, as text; ``test_user_models`` runs them."""

LATENT = '''
"""Latent attention: low-rank queries and keys, one rotary key for all heads, caches in and out, two score groups."""
from __future__ import annotations

from types import SimpleNamespace

from tilefoundry import func, module
from tilefoundry.dsl import ConstTensor, Tensor, tf
from tilefoundry.dsl.tf import *
from tilefoundry.ir.types.dim import DimVar
from tilefoundry.ir.types.shard import Topology
from tilefoundry.target import CudaTarget

config = SimpleNamespace(hidden=16, heads=3, nope=4, rope=2, v=5, q_rank=6, kv_rank=8, layers=2, length=12)
_DT = "f32"
_QK = config.nope + config.rope
_PAIR = config.nope + config.v
_KV_A = config.kv_rank + config.rope
_H = config.heads
C = DimVar("ctx_len", 1, config.length)
S = 1


@module(entry="decoder_layer")
class Layer:
    @func
    def norm(
        hidden: Tensor[(1, S, config.hidden), _DT], gamma: ConstTensor[(config.hidden,), _DT]
    ) -> Tensor[(1, S, config.hidden), _DT]:
        x32 = tf.cast(hidden, dtype="f32")
        variance = tf.reduce(x32 * x32, axes=(-1,), keepdim=True, kind="mean")
        return tf.cast(x32 * tf.rsqrt(variance + 1e-5), dtype=_DT) * gamma

    @func
    def latent_attention(
        hidden: Tensor[(1, S, config.hidden), _DT],
        gamma: ConstTensor[(config.hidden,), _DT],
        w_q_a: ConstTensor[(1, config.hidden, config.q_rank), _DT],
        w_q_b: ConstTensor[(1, config.q_rank, _H * _QK), _DT],
        w_kv_a: ConstTensor[(1, config.hidden, _KV_A), _DT],
        w_kv_b: ConstTensor[(1, config.kv_rank, _H * _PAIR), _DT],
        cos_cache: Tensor[(config.length, config.rope), _DT],
        sin_cache: Tensor[(config.length, config.rope), _DT],
        pos_ids: Tensor[(S,), "i32"],
        k_cache: Tensor[(1, C, _H, _QK), _DT],
        v_cache: Tensor[(1, C, _H, config.v), _DT],
        scale: Tensor[(1, 1, 1, 1), _DT],
        w_o: ConstTensor[(1, _H * config.v, config.hidden), _DT],
    ):
        x = norm(hidden, gamma)
        q = tf.reshape(tf.matmul(tf.matmul(x, w_q_a), w_q_b), new_shape=(1, S, _H, _QK))
        q_nope = q[:, :, :, : config.nope]
        q_rope = q[:, :, :, config.nope : _QK]
        squeezed = tf.matmul(x, w_kv_a)
        kv = tf.reshape(tf.matmul(squeezed[:, :, : config.kv_rank], w_kv_b), new_shape=(1, S, _H, _PAIR))
        k_nope, v_new = kv[:, :, :, : config.nope], kv[:, :, :, config.nope :]
        k_rope = tf.reshape(squeezed[:, :, config.kv_rank :], new_shape=(1, S, 1, config.rope))
        q_turned, k_turned = tf.rope(q_rope, k_rope, cos_cache, sin_cache, pos_ids)
        query = tf.concat(q_nope, q_turned, axis=-1) * scale
        k_new = tf.concat(k_nope, tf.repeat_interleave(k_turned, repeats=_H, axis=2), axis=-1)

        k_ctx = tf.reshape(tf.transpose(k_cache, perm=(0, 2, 1, 3)), new_shape=(1, 1, _H, C, _QK))
        v_ctx = tf.reshape(tf.transpose(v_cache, perm=(0, 2, 1, 3)), new_shape=(1, 1, _H, C, config.v))
        q_e = tf.reshape(query, new_shape=(1, S, _H, 1, _QK))
        old = tf.reduce(q_e * k_ctx, axes=(-1,), keepdim=True, kind="sum")
        new = tf.reduce(query * k_new, axes=(-1,), keepdim=True, kind="sum")
        peak = tf.max(tf.reduce(old, axes=(-2,), keepdim=False, kind="max"), new)
        p_old = tf.exp(old - tf.reshape(peak, new_shape=(1, S, _H, 1, 1)))
        p_new = tf.exp(new - peak)
        total = tf.reduce(p_old, axes=(-2,), keepdim=False, kind="sum") + p_new
        weighted = tf.reduce(p_old * v_ctx, axes=(-2,), keepdim=False, kind="sum") + p_new * v_new
        out = tf.matmul(tf.reshape(weighted / total, new_shape=(1, S, _H * config.v)), w_o)
        return out, k_new, v_new

    @latent_attention.converter("w_q_a")
    def _(q_down: Tensor[(config.q_rank, config.hidden), _DT]):
        return tf.reshape(tf.transpose(q_down, perm=(1, 0)), new_shape=(1, config.hidden, config.q_rank))

    @latent_attention.converter("w_kv_a")
    def _(kv_down: Tensor[(config.kv_rank, config.hidden), _DT], k_down: Tensor[(config.rope, config.hidden), _DT]):
        both = tf.transpose(tf.concat(kv_down, k_down, axis=0), perm=(1, 0))
        return tf.reshape(both, new_shape=(1, config.hidden, _KV_A))

    @func
    def decoder_layer(
        hidden: Tensor[(1, S, config.hidden), _DT],
        gamma: ConstTensor[(config.hidden,), _DT],
        w_q_a: ConstTensor[(1, config.hidden, config.q_rank), _DT],
        w_q_b: ConstTensor[(1, config.q_rank, _H * _QK), _DT],
        w_kv_a: ConstTensor[(1, config.hidden, _KV_A), _DT],
        w_kv_b: ConstTensor[(1, config.kv_rank, _H * _PAIR), _DT],
        cos_cache: Tensor[(config.length, config.rope), _DT],
        sin_cache: Tensor[(config.length, config.rope), _DT],
        pos_ids: Tensor[(S,), "i32"],
        k_cache: Tensor[(1, C, _H, _QK), _DT],
        v_cache: Tensor[(1, C, _H, config.v), _DT],
        scale: Tensor[(1, 1, 1, 1), _DT],
        w_o: ConstTensor[(1, _H * config.v, config.hidden), _DT],
    ):
        out, k_new, v_new = latent_attention(
            hidden, gamma, w_q_a, w_q_b, w_kv_a, w_kv_b, cos_cache, sin_cache, pos_ids, k_cache, v_cache, scale, w_o
        )
        return hidden + out * 0.5, k_new, v_new


@module(target=CudaTarget("nvidia.h200_sxm"), topologies=(Topology("cta", 132), Topology("thread", 512)))
class Latent:
    layers = tuple(Layer.renamed(f"layer{index}") for index in range(config.layers))

    @func
    def embed(table: ConstTensor[(20, config.hidden), _DT], token_ids: Tensor[(S,), "i64"]):
        return tf.reshape(tf.index_select(table, token_ids, dim=0), new_shape=(1, S, config.hidden))

    def forward(self, token_ids, cos_cache, sin_cache, pos_ids, scale, caches):
        hidden, entries = self.embed(token_ids), []
        for layer, (k_cache, v_cache) in zip(self.modules, caches, strict=True):
            hidden, *entry = layer(hidden, cos_cache, sin_cache, pos_ids, k_cache, v_cache, scale)
            entries.append(tuple(entry))
        return hidden, tuple(entries)

    def append_cache(self, caches, fresh):
        import torch

        return tuple(
            tuple(torch.cat(pair, dim=1) for pair in zip(cache, new, strict=True))
            for cache, new in zip(caches, fresh, strict=True)
        )
'''

EXPERTS = '''
"""Sparse experts: a router child, stacked expert weights, tokens grouped by expert."""
from __future__ import annotations

from tilefoundry import func, module
from tilefoundry.dsl import *

T_, H, I, E, K = DimVar("tokens", 1, 64), 8, 6, 4, 2
L = T_ * K


@module(entry="routing")
class Router:
    @func
    def routing(tokens: Tensor[(T_, H), "f32"], w_router: ConstTensor[(E, H), "f32"]):
        logits = tokens @ tf.transpose(w_router, perm=(1, 0))
        top, experts = tf.topk(logits, k=K, axis=-1)
        return tf.softmax(top, axis=-1), experts


@module(entry="experts")
class Experts:
    router = Router

    @func
    def experts(
        rows: Tensor[(L, H), "f32"],
        offsets: Tensor[(E + 1,), "i32"],
        w_gate: ConstTensor[(E, H, I), "f32"],
        w_up: ConstTensor[(E, H, I), "f32"],
        w_down: ConstTensor[(E, I, H), "f32"],
    ) -> Tensor[(L, H), "f32"]:
        gate = tf.grouped_matmul(rows, w_gate, offsets)
        up = tf.grouped_matmul(rows, w_up, offsets)
        return tf.grouped_matmul(tf.silu(gate) * up, w_down, offsets)

    @experts.converter("w_gate")
    def _(gate_proj: Tensor[(E, I, H), "f32"]):
        return tf.transpose(gate_proj, perm=(0, 2, 1))

    @func
    def mix(
        like: Tensor[(T_, H), "f32"],
        rows: Tensor[(L, H), "f32"],
        weights: Tensor[(L, 1), "f32"],
        token: Tensor[(L,), "i64"],
    ) -> Tensor[(T_, H), "f32"]:
        return tf.index_add(tf.full_like(like, value=0.0), token, rows * weights, dim=0)

    def forward(self, tokens):
        import torch

        weights, experts = self.router.routing(tokens)
        order = experts.reshape(-1).argsort(stable=True)
        counts = torch.bincount(experts.reshape(-1), minlength=4)
        offsets = torch.cat([counts.new_zeros(1), counts.cumsum(0)]).to(torch.int32)
        token = order // experts.shape[1]
        rows = self.experts(tokens[token], offsets)
        return self.mix(tokens, rows, weights.reshape(-1, 1)[order], token)
'''

PLACED = '''
"""Placed by hand: tiles over CTAs, rows over warps, partial sums, variants by length."""
from __future__ import annotations

from tilefoundry import func, module
from tilefoundry.dsl import *

N = DimVar("n", 1, 4096)
K = 64


@module(entry="step", topologies=(Topology("cta", ceildiv(N, 4)), Topology("thread", 128)))
class Placed:
    @func
    def softmax_rows(x: Tensor[(N, K), "f32"]) -> Tensor[(N, K), "f32"]:
        y = tf.zeros(Tensor[(N, K), "f32"])
        with Mesh(("cta", "thread"), (ceildiv(N, 4), 4, 32), ("b", "w", "t")) as c:
            for i in tile(N, 4, over=c.b):
                r = tf.reshard(x[i, :], (4 @ c.w, K @ c.t), "rmem")
                top = tf.reshard(tf.reduce(r, axes=(-1,), kind="max"), (4 @ c.w, 1), "rmem")
                e = tf.exp(r - top)
                total = tf.reshard(tf.reduce(e, axes=(-1,), kind="sum"), (4 @ c.w, 1), "rmem")
                y = tf.insert_slice(y, tf.reshard(e / total, (4, K), "gmem"), (i, 0))
        return y

    @func
    def scale_rows(x: Tensor[(N, K), "f32"], s: Tensor[(K,), "f32"]) -> Tensor[(N, K), "f32"]:
        pass

    @scale_rows.specialize(DimVarRangePat("n", 1, 128))
    def _(x: Tensor[(N, K), "f32"], s: Tensor[(K,), "f32"]) -> Tensor[(N, K), "f32"]:
        return x * s

    @scale_rows.specialize(DimVarRangePat("n", 128, 4096))
    def _(x: Tensor[(N, K), "f32"], s: Tensor[(K,), "f32"]) -> Tensor[(N, K), "f32"]:
        acc = tf.full_like(x, value=0.0)
        for t in tf.tile(K, 16):
            b0 = t
            acc = tf.insert_slice(acc, x[:, b0 : b0 + 16] * s[b0 : b0 + 16], (0, t))
        return acc

    @func
    def split_sum(x: Tensor[(8, K), "f32"]) -> Tensor[(8, 1), "f32"]:
        with Mesh(("thread",), layout=(4, 32), names=("w", "t")) as m:
            r = tf.reshard(x, (8, K @ m.t), "rmem")
            unused = tf.zeros(Tensor[(32 @ m.t, K), "f32", "smem"])
            return tf.reshard(tf.reduce(r, axes=(-1,), kind="sum"), (8, 1), "gmem")

    @func
    def step(x: Tensor[(N, K), "f32"], s: Tensor[(K,), "f32"]) -> Tensor[(N, K), "f32"]:
        return scale_rows(softmax_rows(x), s)
'''

KERNELS = '''
"""Statement-level kernels and their host."""
from __future__ import annotations

from tilefoundry import module, prim_func
from tilefoundry.dsl import *
from tilefoundry.target import CudaTarget

M = DimVar("m", 1, 4096)


@module(entry="host", target=CudaTarget("nvidia.h200_sxm"))
class Kernels:
    @prim_func(topologies=(Topology("cta", 8), Topology("thread", 64)))
    def multiply(a: Tensor[(16, 16), "bf16"], b: Tensor[(16, 8), "bf16"], c: Tensor[(16, 8), "f32"]):
        acc = T.alloc_tensor(Tensor[(16, 8), "f32", None, "rmem"])
        left = T.alloc_tensor(Tensor[(16, 16), "bf16", None, "smem"])
        right = T.alloc_tensor(Tensor[(16, 8), "bf16", None, "smem"])
        T.fill(acc, 0.0)
        with Mesh(("thread",), (2, 32), ("w", "t")) as m:
            T.copy_async(a, left)
            T.copy_async(b, right)
            T.cp_async_commit()
            T.cp_async_wait(0)
            T.sync(m)
            with m[0:1] as first:
                T.mma(acc, left, right, atom="m16n8k16")
                T.sync(first)
        T.copy(acc, c)

    @prim_func(topologies=(Topology("cta", 132), Topology("thread", 384)))
    def gated(
        x: Tensor[(M, 64), "bf16"],
        gate: Tensor[(64, 96), "bf16"],
        up: Tensor[(64, 96), "i8"],
        scale: Tensor[(96,), "f32"],
        y: Tensor[(M, 96), "bf16"],
    ):
        wide = (T.cast(up[k, j], "f32") * scale[j] for k, j in T.elements((64, 96), "bf16"))
        for i, j, g, u in T.contract(x, (gate, wide), tile=(128, 96, 64), stages=4, cluster=(2, 1), persistent=True):
            y[i, j] = T.silu(g) * u

    @prim_func
    def host(
        a: Tensor[(16, 16), "bf16"],
        b: Tensor[(16, 8), "bf16"],
        x: Tensor[(M, 64), "bf16"],
        gate: Tensor[(64, 96), "bf16"],
        up: Tensor[(64, 96), "i8"],
        scale: Tensor[(96,), "f32"],
        c: Tensor[(16, 8), "f32"],
        y: Tensor[(M, 96), "bf16"],
    ):
        T.launch(multiply, a, b, c, grid=8, block=64)
        T.launch(gated, x, gate, up, scale, y, cluster=2, programmatic=True)
'''
