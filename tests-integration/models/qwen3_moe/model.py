"""The sparse feed-forward block of the Qwen3 family: a router, and experts as grouped products over sorted rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from models.qwen3.model import Size

from tilefoundry import func, module
from tilefoundry.dsl import ConstTensor, DimVar, Tensor, tf
from tilefoundry.ir.core.module import Module


@dataclass(frozen=True, slots=True)
class Sparse:
    """How many experts there are, how many a token takes, and their width."""

    experts: int
    chosen: int
    ffn: int


def sparse_block(sparse: Sparse) -> Callable[[Size, DimVar], Module]:
    """What ``decoder(size, block)`` takes for a layer with experts."""

    def block(size: Size, S: DimVar) -> Module:
        hidden, dtype, experts, chosen, ffn = (
            size.hidden,
            size.dtype,
            sparse.experts,
            sparse.chosen,
            sparse.ffn,
        )
        rows = S * chosen

        @module
        class Block:
            """Norm, routing, experts over rows sorted by expert, weighted sum, residual."""

            @func
            def route(
                x: Tensor[(1, S, hidden), dtype],
                ffn_gain: ConstTensor[(hidden,), dtype],
                w_router: ConstTensor[(experts, hidden), dtype],
            ) -> tuple[Tensor[(S, hidden), dtype], Tensor[(S, chosen), dtype], Tensor[(S, chosen), "i64"]]:
                tokens = tf.reshape(tf.rms_norm(x, ffn_gain, eps=size.eps), (S, hidden))
                odds = tf.softmax(tf.cast(tokens @ tf.transpose(w_router, (1, 0)), "f32"), axis=-1)
                top, which = tf.topk(odds, k=chosen, axis=-1)
                share = top / tf.reduce(top, axes=(-1,), keepdim=True, kind="sum")
                return tokens, tf.cast(share, dtype), which

            @func
            def run_experts(
                sorted_rows: Tensor[(rows, hidden), dtype],
                offsets: Tensor[(experts + 1,), "i32"],
                w_gate: ConstTensor[(experts, hidden, ffn), dtype],
                w_up: ConstTensor[(experts, hidden, ffn), dtype],
                w_down: ConstTensor[(experts, ffn, hidden), dtype],
            ) -> Tensor[(rows, hidden), dtype]:
                gate = tf.grouped_matmul(sorted_rows, w_gate, offsets)
                up = tf.grouped_matmul(sorted_rows, w_up, offsets)
                return tf.grouped_matmul(tf.silu(gate) * up, w_down, offsets)

            @run_experts.converter("w_gate")
            def _(gates: Tensor[(experts, ffn, hidden), dtype]):
                return tf.transpose(gates, (0, 2, 1))

            @run_experts.converter("w_up")
            def _(ups: Tensor[(experts, ffn, hidden), dtype]):
                return tf.transpose(ups, (0, 2, 1))

            @run_experts.converter("w_down")
            def _(downs: Tensor[(experts, hidden, ffn), dtype]):
                return tf.transpose(downs, (0, 2, 1))

            @func
            def mix(
                x: Tensor[(1, S, hidden), dtype],
                made: Tensor[(rows, hidden), dtype],
                share: Tensor[(rows, 1), dtype],
                token: Tensor[(rows,), "i64"],
            ) -> Tensor[(1, S, hidden), dtype]:
                flat = tf.reshape(x, (S, hidden))
                summed = tf.index_add(tf.full_like(flat, 0.0), token, made * share, dim=0)
                return x + tf.reshape(summed, (1, S, hidden))

            def forward(self, x):
                tokens, share, which = self.route(x)
                order = which.reshape(-1).argsort(stable=True)
                counts = torch.bincount(which.reshape(-1), minlength=sparse.experts)
                offsets = torch.cat((counts.new_zeros(1), counts.cumsum(0))).to(torch.int32)
                token = order // which.shape[1]
                made = self.run_experts(tokens[token], offsets)
                return self.mix(x, made, share.reshape(-1, 1)[order], token)

        return Block

    return block
