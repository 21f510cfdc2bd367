"""Write one safetensors shard and its index, tensor by tensor."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from typing import Any

from tilefoundry.ir.safetensors_header import encode_header, tensor_nbytes

__all__ = ["INDEX_NAME", "SHARD_NAME", "write_checkpoint"]

SHARD_NAME = "model-00001-of-00001.safetensors"
INDEX_NAME = "model.safetensors.index.json"


def write_checkpoint(
    folder: str, layout: Sequence[tuple[str, str, tuple[int, ...]]], tensors: Iterable[Any]
) -> None:
    """Write ``tensors`` and the index into ``folder`` and flush both to disk.

    Args:
        folder: an existing folder.
        layout: (key, dtype code, shape) of every tensor, which fixes all offsets.
        tensors: CPU tensors of just that type, in that order; each is dropped once written.
    """
    prefix, _ = encode_header({key: (code, shape) for key, code, shape in layout}, {"format": "pt"})
    with open(os.path.join(folder, SHARD_NAME), "wb", buffering=0) as file:
        _write_all(file.fileno(), memoryview(prefix))
        for tensor in tensors:
            _write_all(file.fileno(), tensor_bytes(tensor))
        os.fsync(file.fileno())
    total = sum(tensor_nbytes(code, shape) for _, code, shape in layout)
    index = {"metadata": {"total_size": total}, "weight_map": {key: SHARD_NAME for key, _, _ in layout}}
    with open(os.path.join(folder, INDEX_NAME), "wb", buffering=0) as file:
        _write_all(file.fileno(), memoryview(json.dumps(index, indent=2).encode()))
        os.fsync(file.fileno())


def tensor_bytes(tensor: Any) -> memoryview:
    """The bytes of a CPU tensor in row-major order, without a copy where it is contiguous."""
    import torch  # here, not at the top: importing the IR must not load torch

    flat = tensor.contiguous().reshape(-1)
    return memoryview(flat.view(torch.uint8).numpy()) if flat.numel() else memoryview(b"")


def _write_all(handle: int, data: memoryview) -> None:
    while data:
        data = data[os.write(handle, data) :]
