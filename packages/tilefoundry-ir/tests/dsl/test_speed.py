"""One definition is read once: parsing and typing a 28-layer decoder takes less than 2 s on two cores."""

# ruff: noqa: E501
# The programs in this file are DSL source, written as a user writes them.
from __future__ import annotations

import time

import pytest

DECODER = """
B = DimVar("B", 1, 9); S = DimVar("S", 1, 513); L = DimVar("L", 1, 4097)
H = 1024; HEADS = 16; KV = 8; D = 128; FFN = 3072

@module(entry="layer")
class Layer:
    @func
    def attention(x: Tensor[(B, S, H), "bf16"], cos: Tensor[(S, D), "f32"], sin: Tensor[(S, D), "f32"], wq: ConstTensor[(H, HEADS * D), "bf16"], wk: ConstTensor[(H, KV * D), "bf16"], wv: ConstTensor[(H, KV * D), "bf16"], wo: ConstTensor[(HEADS * D, H), "bf16"], gq: ConstTensor[(D,), "bf16"], gk: ConstTensor[(D,), "bf16"]) -> Tensor[(B, S, H), "bf16"]:
        q = tf.transpose(tf.rms_norm(tf.reshape(x @ wq, (B, S, HEADS, D)), gq, eps=1e-6), (0, 2, 1, 3))
        k = tf.transpose(tf.rms_norm(tf.reshape(x @ wk, (B, S, KV, D)), gk, eps=1e-6), (0, 2, 1, 3))
        v = tf.transpose(tf.reshape(x @ wv, (B, S, KV, D)), (0, 2, 1, 3))
        half = D // 2
        qf = tf.cast(q, "f32")
        q = tf.cast(qf * cos + tf.concat(-qf[..., half:], qf[..., :half], axis=-1) * sin, "bf16")
        kf = tf.cast(k, "f32")
        k = tf.cast(kf * cos + tf.concat(-kf[..., half:], kf[..., :half], axis=-1) * sin, "bf16")
        k = tf.repeat_interleave(k, repeats=HEADS // KV, axis=1)
        v = tf.repeat_interleave(v, repeats=HEADS // KV, axis=1)
        scores = tf.cast(q @ tf.transpose(k, (0, 1, 3, 2)), "f32") * D**-0.5
        p = tf.cast(tf.softmax(scores, axis=-1), "bf16")
        return tf.reshape(tf.transpose(p @ v, (0, 2, 1, 3)), (B, S, HEADS * D)) @ wo

    @func
    def mlp(x: Tensor[(B, S, H), "bf16"], gate: ConstTensor[(H, FFN), "bf16"], up: ConstTensor[(H, FFN), "bf16"], down: ConstTensor[(FFN, H), "bf16"]) -> Tensor[(B, S, H), "bf16"]:
        return (tf.silu(x @ gate) * (x @ up)) @ down

    @func
    def layer(x: Tensor[(B, S, H), "bf16"], cos: Tensor[(S, D), "f32"], sin: Tensor[(S, D), "f32"], wq: ConstTensor[(H, HEADS * D), "bf16"], wk: ConstTensor[(H, KV * D), "bf16"], wv: ConstTensor[(H, KV * D), "bf16"], wo: ConstTensor[(HEADS * D, H), "bf16"], gq: ConstTensor[(D,), "bf16"], gk: ConstTensor[(D,), "bf16"], g1: ConstTensor[(H,), "bf16"], g2: ConstTensor[(H,), "bf16"], gate: ConstTensor[(H, FFN), "bf16"], up: ConstTensor[(H, FFN), "bf16"], down: ConstTensor[(FFN, H), "bf16"]) -> Tensor[(B, S, H), "bf16"]:
        x = x + attention(tf.rms_norm(x, g1, eps=1e-6), cos, sin, wq, wk, wv, wo, gq, gk)
        return x + mlp(tf.rms_norm(x, g2, eps=1e-6), gate, up, down)

@module(entry="decode")
class Decoder:
    layers = tuple(Layer.renamed(f"layer{i}") for i in range(28))

    @func
    def decode(ids: Tensor[(B, S), "i64"], cos: Tensor[(S, D), "f32"], sin: Tensor[(S, D), "f32"], embed: ConstTensor[(151936, H), "bf16"], g: ConstTensor[(H,), "bf16"]) -> Tensor[(B, S, 151936), "bf16"]:
        x = tf.index_select(embed, ids, dim=0)
        for layer in layers:
            x = layer(x, cos, sin)
        return tf.rms_norm(x, g, eps=1e-6) @ tf.transpose(embed, (1, 0))
"""


@pytest.mark.spec("dsl.speed")
def test_a_28_layer_decoder_is_read_in_two_seconds(run):
    took = []
    # The best of three: other work on the machine only ever adds.
    for _ in range(3):
        start = time.perf_counter()
        decoder = run(DECODER)["Decoder"]
        took.append(time.perf_counter() - start)
        assert len(decoder.modules) == 28
    assert min(took) < 2.0, f"{min(took):.2f} s"
