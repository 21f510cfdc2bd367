"""Checkpoint folders for tests, written with the safetensors library."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import save_file

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"


def write_single(folder: Path, tensors: Mapping[str, torch.Tensor]) -> Path:
    """One unsharded file."""
    folder.mkdir(parents=True, exist_ok=True)
    save_file(dict(tensors), str(folder / SINGLE))
    return folder


def write_sharded(folder: Path, shards: Mapping[str, Mapping[str, torch.Tensor]]) -> Path:
    """Several files and their index."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, tensors in shards.items():
        save_file(dict(tensors), str(folder / name))
    write_index(folder, {key: name for name, tensors in shards.items() for key in tensors})
    return folder


def write_index(folder: Path, weight_map: object) -> None:
    """An index with this weight map."""
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
