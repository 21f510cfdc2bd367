"""Twins of the toy programs, and a module written by hand."""

import torch
import toy

from tilefoundry.runtime import RuntimeModule, runtime_func, runtime_module


@runtime_module(toy.Leaf)
class LeafTwin:
    @runtime_func
    def scale(self, x, w, b):
        return torch.addcmul(b, x, w)

    @runtime_func
    def shift(self, x, b):
        return x + b


@runtime_module(toy.Tree)
class TreeTwin:
    left = LeafTwin
    right = LeafTwin

    @runtime_func
    def step(self, x, gain):
        return self.right(self.left(x) * gain)


@runtime_module(toy.Steps)
class StepsTwin:
    leaf = LeafTwin

    @runtime_func
    def double(self, x):
        return 2 * x


class Recorder(RuntimeModule):
    """A hand-written module that keeps what it was loaded from."""

    def __init__(self, name, entry=None, modules=(), ir=None):
        super().__init__(name, entry, modules)
        self.seen = None

    def load(self, resource):
        self.seen = resource.prefix
        super().load(resource)

    def forward(self, *args):
        return ("ran", *args)
