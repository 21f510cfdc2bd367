"""Tell torch that memory was written behind its back."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

# torch is imported where it is first needed: importing the runtime must not load it.

__all__ = ["version_bumper"]


@cache
def version_bumper() -> Callable[[tuple[Any, ...]], None]:
    """A function that bumps the version counters of some tensors; inference tensors have none. Thread-safe."""
    import torch

    # The public function wraps this one in checks that take longer than a small kernel.
    direct: Any = getattr(torch._C, "_increment_version", None)
    with torch.inference_mode(False):
        probe = torch.empty(0)
    before = probe._version
    try:
        direct((probe,))
    except (TypeError, RuntimeError):
        return torch.autograd.graph.increment_version
    return direct if probe._version == before + 1 else torch.autograd.graph.increment_version
