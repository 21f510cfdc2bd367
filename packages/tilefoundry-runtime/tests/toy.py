"""Small programs that the runtime's tests share, with the numpy formulas that they stand for."""

from __future__ import annotations

import numpy as np
import torch

from tilefoundry import func, module
from tilefoundry.dsl import ConstTensor, DimVar, Tensor

N = DimVar("N", 1, 64)


@module(entry="scale")
class Leaf:
    @func
    def scale(
        x: Tensor[(N, 4), "f32"], w: ConstTensor[(4,), "f32"], b: ConstTensor[(4,), "f32"]
    ) -> Tensor[(N, 4), "f32"]:
        return x * w + b

    @func
    def shift(x: Tensor[(N, 4), "f32"], b: ConstTensor[(4,), "f32"]) -> Tensor[(N, 4), "f32"]:
        return x + b


@module(entry="step")
class Tree:
    """Two copies of one layer around a weight of the root's own."""

    left = Leaf
    right = Leaf

    @func
    def step(x: Tensor[(N, 4), "f32"], gain: ConstTensor[(4,), "f32"]) -> Tensor[(N, 4), "f32"]:
        return right(left(x) * gain)


@module()
class Steps:
    """No entry: orchestration methods do the work, the generation methods of a causal model among them."""

    leaf = Leaf

    @func
    def double(x: Tensor[(N, 4), "f32"]) -> Tensor[(N, 4), "f32"]:
        return x + x

    def forward(self, x, cache):
        y = self.leaf.scale(self.double(x))
        return y, self.append_cache(cache, y)

    def init_caches(self, *, device):
        return torch.zeros(0, 4, device=device)

    def append_cache(self, cache, new):
        return torch.cat((cache, new))

    def prepare_inputs_for_generation(self, input_ids, step, caches, *, device):
        token = input_ids[step].reshape(1, 1).to(device)
        return token.to(torch.float32).expand(1, 4).contiguous(), caches


@module()
class Parts:
    """Neither an entry nor a forward method."""

    @func
    def one(x: Tensor[(N, 4), "f32"]) -> Tensor[(N, 4), "f32"]:
        return x

    def helper(self, x):
        return self.one(x)


def tree_weights(seed: int = 0) -> dict[str, torch.Tensor]:
    """Every weight of ``Tree``, by dotted path."""
    generator = torch.Generator().manual_seed(seed)
    names = ("gain", "left.w", "left.b", "right.w", "right.b")
    return {name: torch.randn(4, generator=generator) for name in names}


def tree_value(x: torch.Tensor, weights: dict[str, torch.Tensor]) -> np.ndarray:
    """``Tree``'s formula in numpy float64."""
    w = {name: tensor.double().numpy() for name, tensor in weights.items()}
    inner = (x.double().numpy() * w["left.w"] + w["left.b"]) * w["gain"]
    return inner * w["right.w"] + w["right.b"]
