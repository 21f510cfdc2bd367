"""Sentence encoders of the BERT family as one typed tensor program; ``MiniLM`` is all-MiniLM-L6-v2.

Post-norm transformer layers over token, position and segment embeddings, then a masked mean over the tokens
and an L2 normalisation, so that the dot product of two results is their cosine similarity.
"""

from dataclasses import dataclass

from tilefoundry import func, module
from tilefoundry.dsl import ConstTensor, DimVar, Tensor, tf
from tilefoundry.ir.core.module import Module

EPS = 1e-12
MASKED = -1e30


@dataclass(frozen=True, slots=True)
class Size:
    """What distinguishes one encoder of the family from another."""

    layers: int
    hidden: int
    heads: int
    ffn: int
    vocabulary: int
    positions: int
    dtype: str = "f32"


def encoder(size: Size) -> Module:
    """The program of one size: ``encode(ids, mask) -> unit-length embeddings [batch, hidden]``."""
    hidden, dtype = size.hidden, size.dtype
    head_dim = hidden // size.heads
    B = DimVar("B", 1, 4097)
    S = DimVar("S", 1, size.positions + 1)

    @module(entry="embed")
    class Embeddings:
        """Sum of token, position and segment embeddings, normalised."""

        @func
        def embed(
            ids: Tensor[(B, S), "i64"],
            word: ConstTensor[(size.vocabulary, hidden), dtype],
            position: ConstTensor[(size.positions, hidden), dtype],
            segment: ConstTensor[(2, hidden), dtype],
            embed_gain: ConstTensor[(hidden,), dtype],
            embed_bias: ConstTensor[(hidden,), dtype],
        ) -> Tensor[(B, S, hidden), dtype]:
            summed = tf.index_select(word, ids, dim=0) + position[0:S] + segment[0]
            return tf.layer_norm(summed, embed_gain, embed_bias, axis=-1, eps=EPS)

    @module(entry="attend")
    class Attention:
        """Multi-head self-attention with its residual and norm."""

        @func
        def attend(
            x: Tensor[(B, S, hidden), dtype],
            bias: Tensor[(B, 1, 1, S), dtype],
            w_qkv: ConstTensor[(hidden, 3 * hidden), dtype],
            b_qkv: ConstTensor[(3 * hidden,), dtype],
            w_out: ConstTensor[(hidden, hidden), dtype],
            b_out: ConstTensor[(hidden,), dtype],
            attention_gain: ConstTensor[(hidden,), dtype],
            attention_bias: ConstTensor[(hidden,), dtype],
        ) -> Tensor[(B, S, hidden), dtype]:
            qkv = tf.transpose(
                tf.reshape(x @ w_qkv + b_qkv, (B, S, 3, size.heads, head_dim)), (2, 0, 3, 1, 4)
            )
            query, key, value = [qkv[i] for i in range(3)]
            scores = query @ tf.transpose(key, (0, 1, 3, 2)) * head_dim**-0.5 + bias
            mixed = tf.softmax(scores, axis=-1) @ value
            merged = tf.reshape(tf.transpose(mixed, (0, 2, 1, 3)), (B, S, hidden))
            return tf.layer_norm(
                x + (merged @ w_out + b_out), attention_gain, attention_bias, axis=-1, eps=EPS
            )

        @attend.converter("w_qkv")
        def fuse_weights(
            query_weight: Tensor[(hidden, hidden), dtype],
            key_weight: Tensor[(hidden, hidden), dtype],
            value_weight: Tensor[(hidden, hidden), dtype],
        ) -> Tensor[(hidden, 3 * hidden), dtype]:
            return tf.transpose(tf.concat(query_weight, key_weight, value_weight, axis=0), (1, 0))

        @attend.converter("b_qkv")
        def fuse_biases(
            query_bias: Tensor[(hidden,), dtype],
            key_bias: Tensor[(hidden,), dtype],
            value_bias: Tensor[(hidden,), dtype],
        ) -> Tensor[(3 * hidden,), dtype]:
            return tf.concat(query_bias, key_bias, value_bias, axis=0)

        @attend.converter("w_out")
        def transpose_out(out_weight: Tensor[(hidden, hidden), dtype]) -> Tensor[(hidden, hidden), dtype]:
            return tf.transpose(out_weight, (1, 0))

    @module(entry="layer")
    class Layer:
        """Attention, then the feed-forward block with its residual and norm."""

        attention = Attention

        @func
        def layer(
            x: Tensor[(B, S, hidden), dtype],
            bias: Tensor[(B, 1, 1, S), dtype],
            w_up: ConstTensor[(hidden, size.ffn), dtype],
            b_up: ConstTensor[(size.ffn,), dtype],
            w_down: ConstTensor[(size.ffn, hidden), dtype],
            b_down: ConstTensor[(hidden,), dtype],
            ffn_gain: ConstTensor[(hidden,), dtype],
            ffn_bias: ConstTensor[(hidden,), dtype],
        ) -> Tensor[(B, S, hidden), dtype]:
            attended = attention(x, bias)
            inner = tf.gelu(attended @ w_up + b_up, approximate="none")
            return tf.layer_norm(attended + (inner @ w_down + b_down), ffn_gain, ffn_bias, axis=-1, eps=EPS)

        @layer.converter("w_up")
        def transpose_up(up_weight: Tensor[(size.ffn, hidden), dtype]) -> Tensor[(hidden, size.ffn), dtype]:
            return tf.transpose(up_weight, (1, 0))

        @layer.converter("w_down")
        def transpose_down(
            down_weight: Tensor[(hidden, size.ffn), dtype],
        ) -> Tensor[(size.ffn, hidden), dtype]:
            return tf.transpose(down_weight, (1, 0))

    @module(entry="encode")
    class MiniLM:
        """Token ids and attention mask to unit-length sentence embeddings."""

        embeddings = Embeddings
        layers = tuple(Layer.renamed(f"layer{i}") for i in range(size.layers))

        @func
        def encode(ids: Tensor[(B, S), "i64"], mask: Tensor[(B, S), "i64"]) -> Tensor[(B, hidden), dtype]:
            keep = tf.cast(mask, dtype)
            bias = tf.reshape((1.0 - keep) * MASKED, (B, 1, 1, S))
            x = embeddings(ids)
            for layer in layers:
                x = layer(x, bias)
            weight = tf.reshape(keep, (B, S, 1))
            total = tf.reduce(x * weight, axes=(1,), keepdim=False, kind="sum")
            count = tf.clamp(tf.reduce(weight, axes=(1,), keepdim=False, kind="sum"), min_val=1e-9)
            pooled = total / count
            norm = tf.sqrt(tf.reduce(pooled * pooled, axes=(-1,), keepdim=True, kind="sum"))
            return pooled / tf.clamp(norm, min_val=1e-12)

    return MiniLM


MINILM = Size(layers=6, hidden=384, heads=12, ffn=1536, vocabulary=30522, positions=512)
MiniLM = encoder(MINILM)
