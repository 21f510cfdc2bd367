# ruff: noqa: F821  # the DSL reads dtype names and members of the class body as source
"""What the fault tests prepare: a small tree with a converter, and one with many weights of 4 MB."""

from __future__ import annotations

import torch

from tilefoundry import func, module
from tilefoundry.dsl import ConstTensor, DimVar, Tensor, tf
from tilefoundry.runtime import DictResource

N = DimVar("N", 1, 64)
ROWS, COLUMNS = 1024, 1024


@module(entry="layer")
class Layer:
    @func
    def layer(
        x: Tensor[(N, 4), "f32"], w: ConstTensor[(4, 4), "f32"], g: ConstTensor[(4,), "f32"]
    ) -> Tensor[(N, 4), "f32"]:
        return tf.matmul(x, w) * g

    @layer.converter("w")
    def w_from(weight: Tensor[(4, 4), "f32"]) -> Tensor[(4, 4), "f32"]:
        return tf.transpose(weight, (1, 0))


@module(entry="run")
class Small:
    layers = tuple(Layer.renamed(f"layer{i}") for i in range(2))

    @func
    def run(x: Tensor[(N, 4), "f32"]) -> Tensor[(N, 4), "f32"]:
        for layer in layers:
            x = layer(x)
        return x


@module(entry="layer")
class BigLayer:
    @func
    def layer(
        x: Tensor[(N, ROWS), "f32"], w: ConstTensor[(ROWS, COLUMNS), "f32"]
    ) -> Tensor[(N, COLUMNS), "f32"]:
        return tf.matmul(x, w)

    @layer.converter("w")
    def w_from(weight: Tensor[(COLUMNS, ROWS), "f32"]) -> Tensor[(ROWS, COLUMNS), "f32"]:
        return tf.transpose(weight, (1, 0))


def big(layers: int):
    """A Module of ``layers`` weights of 4 MB, each transposed on the way."""
    from tilefoundry.ir.core.module import Module

    return Module("Big", modules=tuple(BigLayer.renamed(f"layer{i}") for i in range(layers)))


def small_raw(value: float) -> DictResource:
    """Raw tensors for ``Small``, all of one value but for a corner that a missed transpose would move."""
    data = {}
    for i in range(2):
        weight = torch.full((4, 4), value)
        weight[0, 3] = -value
        data[f"layer{i}.weight"], data[f"layer{i}.g"] = weight, torch.full((4,), value)
    return DictResource(data)
