# ruff: noqa: F821  # the DSL reads dtype names and members of the class body as source
"""The model: embed a token, mix it with a running mean of the context, project to logits."""

import torch

from tilefoundry import func, module
from tilefoundry.dsl import ConstTensor, DimVar, Tensor, tf

VOCABULARY, WIDTH = 32, 16
C = DimVar("C", 1, 64)


@module(entry="mix")
class Mixer:
    @func
    def mix(
        x: Tensor[(1, WIDTH), "f32"],
        cache: Tensor[(C, WIDTH), "f32"],
        w_x: ConstTensor[(WIDTH, WIDTH), "f32"],
        w_c: ConstTensor[(WIDTH, WIDTH), "f32"],
        gain: ConstTensor[(WIDTH,), "f32"],
    ) -> Tensor[(1, WIDTH), "f32"]:
        mean = tf.reduce(cache, axes=(0,), keepdim=True, kind="mean")
        mixed = tf.silu(tf.matmul(x, w_x)) + tf.matmul(mean, w_c)
        return tf.rms_norm(mixed, gain, eps=1e-6)

    @mix.converter("w_x")
    def w_x_from(x_proj: Tensor[(WIDTH, WIDTH), "f32"]) -> Tensor[(WIDTH, WIDTH), "f32"]:
        return tf.transpose(x_proj, (1, 0))


@module(entry="step")
class TinyLM:
    mixer = Mixer

    @func
    def step(
        token: Tensor[(1,), "i64"],
        cache: Tensor[(C, WIDTH), "f32"],
        table: ConstTensor[(VOCABULARY, WIDTH), "f32"],
    ) -> tuple[Tensor[(1, VOCABULARY), "f32"], Tensor[(1, WIDTH), "f32"]]:
        x = tf.index_select(table, token, dim=0)
        y = mixer(x, cache)
        logits = tf.matmul(y, tf.transpose(table, (1, 0)))
        return logits, y

    def init_caches(self, *, device):
        return torch.zeros(1, WIDTH, device=device)

    def prepare_inputs_for_generation(self, input_ids, step, caches, *, device):
        return input_ids[step : step + 1].to(device, copy=True), caches

    def append_cache(self, cache, new):
        return torch.cat((cache, new))
