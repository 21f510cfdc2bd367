"""The sentence encoder all-MiniLM-L6-v2 as a typed tensor program.

Six post-norm transformer layers over token, position and segment embeddings, then a masked mean over the
tokens and an L2 normalisation, so that the dot product of two results is their cosine similarity.
"""

from tilefoundry import func, module
from tilefoundry.dsl import ConstTensor, DimVar, Tensor, tf

LAYERS = 6
HIDDEN = 384
HEADS = 12
HEAD_DIM = HIDDEN // HEADS
FFN = 1536
VOCABULARY = 30522
POSITIONS = 512
EPS = 1e-12
MASKED = -1e30

B = DimVar("B", 1, 4097)
S = DimVar("S", 1, POSITIONS + 1)


@module(entry="embed")
class Embeddings:
    """Sum of token, position and segment embeddings, normalised."""

    @func
    def embed(
        ids: Tensor[(B, S), "i64"],
        word: ConstTensor[(VOCABULARY, HIDDEN), "f32"],
        position: ConstTensor[(POSITIONS, HIDDEN), "f32"],
        segment: ConstTensor[(2, HIDDEN), "f32"],
        embed_gain: ConstTensor[(HIDDEN,), "f32"],
        embed_bias: ConstTensor[(HIDDEN,), "f32"],
    ) -> Tensor[(B, S, HIDDEN), "f32"]:
        summed = tf.index_select(word, ids, dim=0) + position[0:S] + segment[0]
        return tf.layer_norm(summed, embed_gain, embed_bias, axis=-1, eps=EPS)


@module(entry="attend")
class Attention:
    """Multi-head self-attention with its residual and norm."""

    @func
    def attend(
        x: Tensor[(B, S, HIDDEN), "f32"],
        bias: Tensor[(B, 1, 1, S), "f32"],
        w_qkv: ConstTensor[(HIDDEN, 3 * HIDDEN), "f32"],
        b_qkv: ConstTensor[(3 * HIDDEN,), "f32"],
        w_out: ConstTensor[(HIDDEN, HIDDEN), "f32"],
        b_out: ConstTensor[(HIDDEN,), "f32"],
        attention_gain: ConstTensor[(HIDDEN,), "f32"],
        attention_bias: ConstTensor[(HIDDEN,), "f32"],
    ) -> Tensor[(B, S, HIDDEN), "f32"]:
        qkv = tf.transpose(tf.reshape(x @ w_qkv + b_qkv, (B, S, 3, HEADS, HEAD_DIM)), (2, 0, 3, 1, 4))
        query, key, value = [qkv[i] for i in range(3)]
        scores = query @ tf.transpose(key, (0, 1, 3, 2)) * HEAD_DIM**-0.5 + bias
        mixed = tf.softmax(scores, axis=-1) @ value
        merged = tf.reshape(tf.transpose(mixed, (0, 2, 1, 3)), (B, S, HIDDEN))
        return tf.layer_norm(x + (merged @ w_out + b_out), attention_gain, attention_bias, axis=-1, eps=EPS)

    @attend.converter("w_qkv")
    def fuse_weights(
        query_weight: Tensor[(HIDDEN, HIDDEN), "f32"],
        key_weight: Tensor[(HIDDEN, HIDDEN), "f32"],
        value_weight: Tensor[(HIDDEN, HIDDEN), "f32"],
    ) -> Tensor[(HIDDEN, 3 * HIDDEN), "f32"]:
        return tf.transpose(tf.concat(query_weight, key_weight, value_weight, axis=0), (1, 0))

    @attend.converter("b_qkv")
    def fuse_biases(
        query_bias: Tensor[(HIDDEN,), "f32"],
        key_bias: Tensor[(HIDDEN,), "f32"],
        value_bias: Tensor[(HIDDEN,), "f32"],
    ) -> Tensor[(3 * HIDDEN,), "f32"]:
        return tf.concat(query_bias, key_bias, value_bias, axis=0)

    @attend.converter("w_out")
    def transpose_out(out_weight: Tensor[(HIDDEN, HIDDEN), "f32"]) -> Tensor[(HIDDEN, HIDDEN), "f32"]:
        return tf.transpose(out_weight, (1, 0))


@module(entry="layer")
class Layer:
    """Attention, then the feed-forward block with its residual and norm."""

    attention = Attention

    @func
    def layer(
        x: Tensor[(B, S, HIDDEN), "f32"],
        bias: Tensor[(B, 1, 1, S), "f32"],
        w_up: ConstTensor[(HIDDEN, FFN), "f32"],
        b_up: ConstTensor[(FFN,), "f32"],
        w_down: ConstTensor[(FFN, HIDDEN), "f32"],
        b_down: ConstTensor[(HIDDEN,), "f32"],
        ffn_gain: ConstTensor[(HIDDEN,), "f32"],
        ffn_bias: ConstTensor[(HIDDEN,), "f32"],
    ) -> Tensor[(B, S, HIDDEN), "f32"]:
        attended = attention(x, bias)
        inner = tf.gelu(attended @ w_up + b_up, approximate="none")
        return tf.layer_norm(attended + (inner @ w_down + b_down), ffn_gain, ffn_bias, axis=-1, eps=EPS)

    @layer.converter("w_up")
    def transpose_up(up_weight: Tensor[(FFN, HIDDEN), "f32"]) -> Tensor[(HIDDEN, FFN), "f32"]:
        return tf.transpose(up_weight, (1, 0))

    @layer.converter("w_down")
    def transpose_down(down_weight: Tensor[(HIDDEN, FFN), "f32"]) -> Tensor[(FFN, HIDDEN), "f32"]:
        return tf.transpose(down_weight, (1, 0))


@module(entry="encode")
class MiniLM:
    """Token ids and attention mask to unit-length sentence embeddings."""

    embeddings = Embeddings
    layers = tuple(Layer.renamed(f"layer{i}") for i in range(LAYERS))

    @func
    def encode(ids: Tensor[(B, S), "i64"], mask: Tensor[(B, S), "i64"]) -> Tensor[(B, HIDDEN), "f32"]:
        keep = tf.cast(mask, "f32")
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
