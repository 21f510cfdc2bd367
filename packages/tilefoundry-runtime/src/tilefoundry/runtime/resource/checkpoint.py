"""A safetensors folder: which shard holds which key, and the shards, opened when first needed."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping
from pathlib import PurePosixPath, PureWindowsPath
from types import MappingProxyType
from typing import Any

from tilefoundry.ir.errors import CheckpointError, UnknownNameError
from tilefoundry.ir.safetensors_header import read_header
from tilefoundry.runtime.resource.dict_resource import absent
from tilefoundry.runtime.resource.shard import Shard

__all__ = ["Checkpoint"]

_INDEX = "model.safetensors.index.json"
_SINGLE = "model.safetensors"
_LFS_MARK = b"version https://git-lfs"


class Checkpoint:
    """The files of one folder. Thread-safe; at most one handle per shard, kept until the object goes.

    Args:
        folder: holds either an index with its shards, or one ``model.safetensors``. The index wins.

    Raises:
        FileNotFoundError: no such folder, a file in its place, or neither of the two in it.
        CheckpointError: a malformed index, a path in it that leaves the folder, or a damaged single file.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = os.fspath(folder)
        self._lock = threading.Lock()
        self._shards: dict[str, Shard] = {}
        if os.path.isfile(self.folder):
            raise FileNotFoundError(
                f"{self.folder} is a file, no folder; give the folder that holds {_SINGLE}, or {_INDEX} with its shards"
            )
        if not os.path.isdir(self.folder):
            raise FileNotFoundError(f"{self.folder} is no folder; give the checkpoint's directory")
        index = os.path.join(self.folder, _INDEX)
        single = os.path.join(self.folder, _SINGLE)
        if os.path.exists(index):
            self.source, table = index, _read_index(index)
        elif os.path.exists(single):
            self.source, table = single, dict.fromkeys(read_header(single).tensors, _SINGLE)
        else:
            raise FileNotFoundError(
                f"{self.folder} holds no safetensors checkpoint: neither {_INDEX} nor {_SINGLE} is there"
            )
        self.weight_map: Mapping[str, str] = MappingProxyType(table)

    def shard_of(self, key: str) -> Shard:
        """The opened shard that holds ``key``.

        Raises:
            KeyError: the checkpoint does not list the key, or the shard does not hold it.
            FileNotFoundError: the shard is missing.
            CheckpointError: the shard is damaged.
        """
        if key not in self.weight_map:
            raise UnknownNameError(absent(key, self.weight_map, self.source))
        shard = self._open(self.weight_map[key])
        if key not in shard.header.tensors:
            raise UnknownNameError(
                f"{self.source} says that {shard.path} holds {key!r}, but it does not; the index is stale"
            )
        return shard

    def _open(self, name: str) -> Shard:
        with self._lock:
            if name not in self._shards:
                path = os.path.join(self.folder, name)
                if not os.path.exists(path):
                    raise FileNotFoundError(self._missing(name, path))
                self._shards[name] = Shard(path)
            return self._shards[name]

    def _missing(self, name: str, path: str) -> str:
        keys = [key for key, shard in self.weight_map.items() if shard == name]
        shown = ", ".join(keys[:5]) + (f" and {len(keys) - 5} more" if len(keys) > 5 else "")
        return f"the shard {path} is missing; {self.source} puts {shown} there; complete the download"


def _read_index(path: str) -> dict[str, str]:
    with open(path, "rb") as file:
        text = file.read()
    if text.startswith(_LFS_MARK):
        raise CheckpointError(f"{path} is a Git-LFS pointer, not the index; fetch it with git lfs pull")
    table = _parse(path, text)
    weight_map = table.get("weight_map") if isinstance(table, dict) else None
    if not isinstance(weight_map, dict):
        raise CheckpointError(f"{path} has no weight_map object; it is no safetensors index")
    for key, value in weight_map.items():
        problem = _path_problem(value)
        if problem:
            raise CheckpointError(
                f"{path}: weight_map[{key!r}] = {value!r} {problem}; "
                "a shard is a relative path inside the folder"
            )
    return weight_map


def _parse(path: str, text: bytes) -> Any:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        out = dict(pairs)
        if len(out) != len(pairs):
            seen: set[str] = set()
            twice = sorted({key for key, _ in pairs if key in seen or seen.add(key)})
            raise CheckpointError(
                f"{path} lists {', '.join(map(repr, twice))} more than once; each key has one shard"
            )
        return out

    try:
        return json.loads(text.decode("utf-8"), object_pairs_hook=unique)
    except CheckpointError:
        raise
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} is no JSON: {error}") from None


def _path_problem(value: object) -> str | None:
    if not isinstance(value, str):
        return "is no string"
    if not value or "\0" in value:
        return "is no file name"
    for flavour in (PurePosixPath(value), PureWindowsPath(value)):
        if flavour.is_absolute() or flavour.drive or flavour.root:
            return "is an absolute path"
        if ".." in flavour.parts:
            return "leaves the checkpoint's folder"
    return None if PurePosixPath(value).parts else "is no file name"
