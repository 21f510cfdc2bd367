"""Greedy generation over any step of ``TinyLM``: its reading, its twin, or a library with its weights bound."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tilefoundry.runtime import SafetensorsResource, load_compiled

from .model import TinyLM
from .twin import TinyLMTwin

__all__ = ["Server", "by_library", "by_twin"]


class Server:
    """Owns ids and caches; the model makes its own inputs.

    Args:
        step: takes what ``prepare_inputs_for_generation`` gives.
        model: holds the generation methods.
    """

    def __init__(self, step: Callable[..., Any], model: Any) -> None:
        self.step, self.model = step, model

    def generate(self, prompt: list[int], count: int) -> list[int]:
        """The prompt's greedy continuation."""
        ids = torch.tensor(prompt)
        caches = self.model.init_caches(device="cpu")
        for step in range(len(prompt) + count - 1):
            inputs = self.model.prepare_inputs_for_generation(ids[: step + 1], step, caches, device="cpu")
            logits, new = self.step(*inputs)
            caches = self.model.append_cache(caches, new)
            if step + 1 >= len(prompt):
                ids = torch.cat((ids, logits.argmax(-1)))
        return ids.tolist()


def by_twin(weights: str) -> Server:
    """A server on hand-written kernels."""
    twin = TinyLMTwin()
    twin.load(SafetensorsResource(weights, device="cpu"))
    return Server(twin, twin)


def by_library(weights: str, library: str) -> Server:
    """A server on a library that ``CompiledModule.save`` wrote."""
    reading = TinyLM.load(SafetensorsResource(weights, device="cpu"))
    return Server(load_compiled(library).bind(reading), reading)
