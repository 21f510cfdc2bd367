"""The last step of a read: apply an alias's transform and see that it kept its promises."""

from __future__ import annotations

from typing import Any

from tilefoundry.runtime.resource.alias import Leaf

# torch is imported where it is first needed: importing the runtime must not load it.

__all__ = ["finished"]


def finished(leaf: Leaf, raw: Any) -> Any:
    """``raw`` after ``leaf.read``, dense and in memory of its own.

    Args:
        leaf: the resolution; without ``read`` the tensor passes through.
        raw: the tensor as stored, in memory that nobody else holds.

    Raises:
        TypeError: ``read`` gave no tensor, another element type or another device.
    """
    if leaf.read is None:
        return raw
    import torch

    out = leaf.read(raw)
    if not isinstance(out, torch.Tensor):
        raise TypeError(f"{leaf.key}: its Preprocessed.read must return a tensor, got {type(out).__name__}")
    if out.dtype is not raw.dtype or out.device != raw.device:
        raise TypeError(
            f"{leaf.key}: its Preprocessed.read turned {raw.dtype} on {raw.device} "
            f"into {out.dtype} on {out.device}; "
            'it may only rearrange, change precision in a weight converter (@function.converter("weight"))'
        )
    whole = out.is_contiguous() and out.numel() == raw.numel()
    return out if whole else out.contiguous() if not out.is_contiguous() else out.clone()
