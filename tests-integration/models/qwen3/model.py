"""Decoders of the Qwen3 family as one typed tensor program, for prefill and decode with a cache.

Pre-norm layers: grouped-query attention with normalised queries and keys and rotary positions, then a gated
feed-forward block. Caches are values: a step takes them and returns the new ones.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from tilefoundry import func, module
from tilefoundry.dsl import ConstTensor, DimVar, Tensor, tf
from tilefoundry.ir.core.module import Module


@dataclass(frozen=True, slots=True)
class Size:
    """What distinguishes one decoder of the family from another."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocabulary: int
    positions: int
    rope_theta: float = 1e6
    eps: float = 1e-6
    dtype: str = "bf16"


def decoder(size: Size, block: Callable[[Size, DimVar], Module] | None = None) -> Module:
    """The program of one size; ``forward(ids, positions, cur_pos, count, cos, sin, caches)`` is a step.

    ``block(size, S)`` makes another feed-forward block than the dense one, with its norm and its residual.
    """
    hidden, ffn, dtype, eps = size.hidden, size.ffn, size.dtype, size.eps
    heads, kv_heads, dim, limit = size.heads, size.kv_heads, size.head_dim, size.positions
    S = DimVar("S", 1, limit + 1)

    @module(entry="attend")
    class Attention:
        """Grouped-query attention over the cache, with its residual."""

        @func
        def attend(
            x: Tensor[(1, S, hidden), dtype],
            positions: Tensor[(S,), "i32"],
            cur_pos: Tensor[(), "i32"],
            count: Tensor[(), "i32"],
            cos: Tensor[(limit, dim), "f32"],
            sin: Tensor[(limit, dim), "f32"],
            keys: Tensor[(1, limit, kv_heads, dim), dtype],
            values: Tensor[(1, limit, kv_heads, dim), dtype],
            input_gain: ConstTensor[(hidden,), dtype],
            w_q: ConstTensor[(hidden, heads * dim), dtype],
            w_k: ConstTensor[(hidden, kv_heads * dim), dtype],
            w_v: ConstTensor[(hidden, kv_heads * dim), dtype],
            w_o: ConstTensor[(heads * dim, hidden), dtype],
            q_gain: ConstTensor[(dim,), dtype],
            k_gain: ConstTensor[(dim,), dtype],
        ) -> tuple[
            Tensor[(1, S, hidden), dtype],
            Tensor[(1, limit, kv_heads, dim), dtype],
            Tensor[(1, limit, kv_heads, dim), dtype],
        ]:
            normed = tf.rms_norm(x, input_gain, eps=eps)
            q = tf.rms_norm(tf.reshape(normed @ w_q, (1, S, heads, dim)), q_gain, eps=eps)
            k = tf.rms_norm(tf.reshape(normed @ w_k, (1, S, kv_heads, dim)), k_gain, eps=eps)
            v = tf.reshape(normed @ w_v, (1, S, kv_heads, dim))
            q, k = tf.rope(q, k, cos, sin, positions)
            keys = tf.cache_update(keys, cur_pos, count, k)
            values = tf.cache_update(values, cur_pos, count, v)
            by_head = [tf.transpose(t, (0, 2, 1, 3)) for t in (q, keys, values)]
            mixed = tf.attention(by_head[0], by_head[1], by_head[2], cur_pos + count, causal=True)
            merged = tf.reshape(tf.transpose(mixed, (0, 2, 1, 3)), (1, S, heads * dim))
            return x + merged @ w_o, keys, values

        @attend.converter("w_q")
        def transpose_q(
            q_weight: Tensor[(heads * dim, hidden), dtype],
        ) -> Tensor[(hidden, heads * dim), dtype]:
            return tf.transpose(q_weight, (1, 0))

        @attend.converter("w_k")
        def transpose_k(
            k_weight: Tensor[(kv_heads * dim, hidden), dtype],
        ) -> Tensor[(hidden, kv_heads * dim), dtype]:
            return tf.transpose(k_weight, (1, 0))

        @attend.converter("w_v")
        def transpose_v(
            v_weight: Tensor[(kv_heads * dim, hidden), dtype],
        ) -> Tensor[(hidden, kv_heads * dim), dtype]:
            return tf.transpose(v_weight, (1, 0))

        @attend.converter("w_o")
        def transpose_o(
            o_weight: Tensor[(hidden, heads * dim), dtype],
        ) -> Tensor[(heads * dim, hidden), dtype]:
            return tf.transpose(o_weight, (1, 0))

    @module(entry="feed_forward")
    class FeedForward:
        """Gated feed-forward block with its residual."""

        @func
        def feed_forward(
            x: Tensor[(1, S, hidden), dtype],
            ffn_gain: ConstTensor[(hidden,), dtype],
            w_gate: ConstTensor[(hidden, ffn), dtype],
            w_up: ConstTensor[(hidden, ffn), dtype],
            w_down: ConstTensor[(ffn, hidden), dtype],
        ) -> Tensor[(1, S, hidden), dtype]:
            normed = tf.rms_norm(x, ffn_gain, eps=eps)
            return x + (tf.silu(normed @ w_gate) * (normed @ w_up)) @ w_down

        @feed_forward.converter("w_gate")
        def transpose_gate(gate_weight: Tensor[(ffn, hidden), dtype]) -> Tensor[(hidden, ffn), dtype]:
            return tf.transpose(gate_weight, (1, 0))

        @feed_forward.converter("w_up")
        def transpose_up(up_weight: Tensor[(ffn, hidden), dtype]) -> Tensor[(hidden, ffn), dtype]:
            return tf.transpose(up_weight, (1, 0))

        @feed_forward.converter("w_down")
        def transpose_down(down_weight: Tensor[(hidden, ffn), dtype]) -> Tensor[(ffn, hidden), dtype]:
            return tf.transpose(down_weight, (1, 0))

    chosen = FeedForward if block is None else block(size, S)

    @module
    class Layer:
        """One decoder layer: two blocks chained by ``forward``."""

        attention = Attention
        mlp = chosen

        def forward(self, x, positions, cur_pos, count, cos, sin, keys, values):
            x, keys, values = self.attention(x, positions, cur_pos, count, cos, sin, keys, values)
            return self.mlp(x), keys, values

    @module
    class Decoder:
        """Embedding, layers, final norm and output projection."""

        layers = tuple(Layer.renamed(f"layer{i}") for i in range(size.layers))

        @func
        def embed(
            ids: Tensor[(1, S), "i64"], table: ConstTensor[(size.vocabulary, hidden), dtype]
        ) -> Tensor[(1, S, hidden), dtype]:
            return tf.index_select(table, ids, dim=0)

        @func
        def head(
            x: Tensor[(1, S, hidden), dtype],
            final_gain: ConstTensor[(hidden,), dtype],
            w_head: ConstTensor[(size.vocabulary, hidden), dtype],
        ) -> Tensor[(1, S, size.vocabulary), dtype]:
            return tf.rms_norm(x, final_gain, eps=eps) @ tf.transpose(w_head, (1, 0))

        def forward(self, ids, positions, cur_pos, count, cos, sin, caches):
            x = self.embed(ids)
            updated = []
            for layer, (keys, values) in zip(self.modules, caches, strict=True):
                x, keys, values = layer(x, positions, cur_pos, count, cos, sin, keys, values)
                updated.append((keys, values))
            return self.head(x), tuple(updated)

        def init_caches(self, *, device):
            shape = (1, limit, kv_heads, dim)
            zeros = {"dtype": getattr(torch, TORCH_NAMES[dtype]), "device": device}
            return tuple(
                (torch.zeros(shape, **zeros), torch.zeros(shape, **zeros)) for _ in range(size.layers)
            )

        def prepare_inputs_for_generation(self, input_ids, step, caches, *, device):
            ids = input_ids[step : step + 1].reshape(1, 1).to(device)
            return step_inputs(size, ids, step, caches)

        def append_cache(self, caches, updated):
            return updated

    return Decoder


TORCH_NAMES = {"f32": "float32", "bf16": "bfloat16"}


def rope_tables(size: Size, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosines and sines f32 [positions, head_dim] of the rotary angles."""
    exponent = torch.arange(0, size.head_dim, 2, dtype=torch.float32) / size.head_dim
    angles = torch.arange(size.positions, dtype=torch.float32)[:, None] * (1.0 / size.rope_theta**exponent)
    both = torch.cat((angles, angles), dim=-1).to(device)
    return both.cos(), both.sin()


def step_inputs(size: Size, ids: torch.Tensor, start: int, caches) -> tuple:
    """``forward``'s arguments for tokens ``ids`` i64 [1, n] at positions ``start ..``."""
    count = ids.shape[1]
    positions = torch.arange(start, start + count, dtype=torch.int32, device=ids.device)
    scalars = (torch.tensor(v, dtype=torch.int32, device=ids.device) for v in (start, count))
    return (ids, positions, *scalars, *rope_tables(size, ids.device), caches)
