"""Slot numbers as index tensors, kept between requests because residency rarely changes.

On a device an index is copied from page-locked memory on the stream that uses it, so that nothing waits; it is
therefore kept per stream. One that was made by ``settle_index`` serves every stream, a captured one too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..torch_storage import plain_torch

if TYPE_CHECKING:
    import torch

KEPT = 1024
"""Index tensors kept per process."""

_by_stream: dict[Any, tuple[torch.Tensor, torch.Tensor]] = {}
_settled: dict[Any, torch.Tensor] = {}


def index_tensor(indices: tuple[int, ...], device: torch.device) -> torch.Tensor | None:
    """``indices`` on the device, for the current stream; None where making it would break a graph capture."""
    import torch

    found = _settled.get((indices, device))
    if found is not None:
        return found
    if device.type != "cuda":
        return settle_index(indices, device)
    key = (indices, torch._C._cuda_getCurrentRawStream(device.index))
    kept = _by_stream.get(key)
    if kept is None:
        if torch.cuda.is_current_stream_capturing():
            return None
        with plain_torch():
            staged = torch.tensor(indices, dtype=torch.int64, device="cpu", pin_memory=True)
            kept = staged.to(device, non_blocking=True), staged
        _keep(_by_stream, key, kept)
    return kept[0]


def settle_index(indices: tuple[int, ...], device: torch.device) -> torch.Tensor:
    """``indices`` on the device, complete when this returns."""
    import torch

    with plain_torch():
        made = torch.tensor(indices, dtype=torch.int64, device=device)
    _keep(_settled, (indices, device), made)
    return made


def _keep(cache: dict[Any, Any], key: Any, value: Any) -> None:
    if len(cache) >= KEPT:
        # The oldest has long been read by whatever used it.
        cache.pop(next(iter(tuple(cache))), None)
    cache[key] = value
