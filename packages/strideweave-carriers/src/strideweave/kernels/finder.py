"""Which kernel copies permuted tensors: what an entry point gives, what ``use`` was told, or none."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import torch

GROUP = "strideweave.kernels"

WORTH = 1 << 20
"""Bytes below which a launch of another kernel gains nothing."""


class Transpose(Protocol):
    """Copies between two tensors of one shape, type and device whose unit strides are on different axes."""

    def __call__(self, target: torch.Tensor, source: torch.Tensor) -> bool:
        """``target.copy_(source)`` on the current stream; False, with nothing done, for forms it does not know."""
        ...


_lock = threading.Lock()
_chosen: list[Transpose | None] = []


def use(kernel: Transpose | None) -> None:
    """Copy with ``kernel`` from now on; None: with torch alone."""
    with _lock:
        _chosen[:] = [kernel]


def _found() -> Transpose | None:
    with _lock:
        if not _chosen:
            _chosen.append(_load())
        return _chosen[0]


def _load() -> Transpose | None:
    # Late: it brings the e-mail parser, which nothing else here needs.
    from importlib.metadata import entry_points

    for point in entry_points(group=GROUP):
        try:
            return point.load()
        except ImportError:
            # What it needs is not installed.
            continue
    return _shipped()


def _shipped() -> Transpose | None:
    """The kernel of this package, for where the package was put on the path without being installed."""
    try:
        from .triton_transpose import transpose as shipped
    except ImportError:
        return None
    return shipped


def kernel_for(target: torch.Tensor, source: torch.Tensor) -> bool:
    """Copy ``source`` to ``target`` by a kernel if there is one that is worth it; whether it did."""
    import torch

    if not target.is_cuda or target.numel() * target.element_size() < WORTH:
        return False
    kernel = _found()
    return kernel is not None and not torch.cuda.is_current_stream_capturing() and kernel(target, source)


def transpose(target: torch.Tensor, source: torch.Tensor) -> bool:
    """``target.copy_(source)``, by a kernel where there is one that is worth it; whether a kernel did it."""
    by_kernel = kernel_for(target, source)
    if not by_kernel:
        target.copy_(source)
    return by_kernel
