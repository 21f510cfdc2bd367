"""Whether the memory of an argument holds its values, which is all that a library sees."""

from __future__ import annotations

from typing import Any

# torch is imported where it is first needed: importing the runtime must not load it.

__all__ = ["obstacle"]


def obstacle(value: Any) -> str | None:
    """What keeps a library from using ``value``, and what to pass instead; None where nothing does.

    Says nothing on dtype, shape and strides, which the library checks itself. Thread-safe.
    """
    import torch

    if isinstance(value, torch.Tensor):
        return _tensor_obstacle(value, torch)
    flags = getattr(value, "flags", None)
    if getattr(flags, "writeable", True) is False:
        return "is read-only, and such arrays are not handed over; pass a copy"
    return None


def _tensor_obstacle(value: Any, torch: Any) -> str | None:
    if value.is_meta:
        return "is on the meta device and has no data; pass a tensor that has"
    if type(value).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
        return f"is a {type(value).__name__}, which has no memory of its own; pass a plain torch.Tensor"
    if value.is_nested:
        return "is nested; pass .to_padded_tensor(0.0)"
    if value.layout is not torch.strided:
        return f"is {str(value.layout).removeprefix('torch.')}; pass .to_dense()"
    if value.is_quantized:
        return "is quantized; pass .dequantize()"
    if value.is_neg():
        return "is a negated view of its memory; pass .resolve_neg()"
    if value.is_conj():
        return "is a conjugated view of its memory; pass .resolve_conj()"
    return None if _has_memory(value) else "is a tensor that torch transforms; call outside of torch.func"


def _has_memory(value: Any) -> bool:
    try:
        value.data_ptr()
    except RuntimeError:
        return False
    return True
