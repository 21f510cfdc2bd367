"""A safetensors checkpoint on disk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tilefoundry.runtime.resource.alias import AliasValue, Leaf, Scope
from tilefoundry.runtime.resource.checkpoint import Checkpoint
from tilefoundry.runtime.resource.finish import finished
from tilefoundry.runtime.resource.read_many import read_keys

if TYPE_CHECKING:
    import torch

# torch is imported where it is first needed: importing the runtime must not load it.

__all__ = ["SafetensorsResource"]


class SafetensorsResource:
    """The tensors of a checkpoint folder, read on demand onto one device.

    Args:
        ckpt_dir: holds ``model.safetensors.index.json`` with its shards, or one ``model.safetensors``.
        prefix: joined before every name as it is, dot included (``"model."``).
        device: where tensors are put; a bare ``"cuda"`` is the current device at construction.
        alias: canonical name -> raw name, group, ``Absolute`` or ``Preprocessed``.

    Shards are opened when first needed, one handle each, shared by all subtrees. Every read lands in fresh
    memory with the stored element type. Thread-safe. Tensors on a GPU are ready for the stream that is
    current where the read was asked for.

    Raises:
        FileNotFoundError: no such folder, a file in its place, or no checkpoint in it.
        CheckpointError: a malformed index or file.
        RuntimeError: a CUDA device where torch has none.
    """

    def __init__(
        self,
        ckpt_dir: str,
        prefix: str = "",
        device: str = "cuda",
        alias: Mapping[str, AliasValue] | None = None,
    ) -> None:
        self._scope = Scope.of(prefix, alias)
        self._device = _resolved(device)
        self._checkpoint = Checkpoint(ckpt_dir)

    @property
    def folder(self) -> str:
        """The checkpoint's folder."""
        return self._checkpoint.folder

    @property
    def prefix(self) -> str:
        """What names are joined onto."""
        return self._scope.prefix

    @property
    def alias(self) -> Mapping[str, AliasValue]:
        """The aliases in force."""
        return self._scope.alias

    @property
    def device(self) -> torch.device:
        """Where tensors are put."""
        return self._device

    def keys(self) -> tuple[str, ...]:
        """Every raw key of the checkpoint, whatever the scope."""
        return tuple(self._checkpoint.weight_map)

    def load(self, name: str) -> torch.Tensor:
        """The tensor ``name``.

        Raises:
            KeyError: the checkpoint does not hold it.
            TypeError: ``name`` is a group, or its ``Preprocessed.read`` changed the element type.
            FileNotFoundError, CheckpointError: its shard is missing or damaged.
        """
        leaf = self._scope.leaf(name)
        return finished(leaf, self._read(leaf.key))

    def load_group(self, name: str) -> tuple[torch.Tensor, ...] | None:
        """The tensors of a one-to-many ``name`` in declared order; None where ``name`` is one-to-one."""
        keys = self._scope.group(name)
        return None if keys is None else tuple(self._read(key) for key in keys)

    def read_many(self, names: Sequence[str]) -> dict[str, torch.Tensor]:
        """The tensors of many dotted paths below this scope, read in file order by several threads.

        Raises as ``load`` does, naming every absent key, before anything is read.
        """
        leaves: dict[str, Leaf] = {}
        for path in names:
            scope, name = self._scope.along(path)
            leaves[path] = scope.leaf(name)
        raw = read_keys(self._checkpoint, dict.fromkeys(leaf.key for leaf in leaves.values()), self._device)
        uses = Counter(leaf.key for leaf in leaves.values())
        out: dict[str, torch.Tensor] = {}
        for path, leaf in leaves.items():
            uses[leaf.key] -= 1
            # The last user takes the memory itself, each earlier one a copy.
            tensor = raw[leaf.key].clone() if uses[leaf.key] else raw.pop(leaf.key)
            out[path] = finished(leaf, tensor)
        return out

    def subtree(self, seg: str) -> SafetensorsResource:
        """The checkpoint one segment further down; TypeError where ``seg`` stands for no relative path."""
        view = object.__new__(SafetensorsResource)
        view._scope = self._scope.below(seg)
        view._device = self._device
        view._checkpoint = self._checkpoint
        return view

    def _read(self, key: str) -> Any:
        return self._checkpoint.shard_of(key).load(key).to(self._device)

    def __repr__(self) -> str:
        return f"SafetensorsResource({self.folder!r}, prefix={self.prefix!r}, device={str(self._device)!r})"


def _resolved(device: str) -> Any:
    import torch

    asked = torch.device(device)
    if asked.type != "cuda":
        return asked
    if not torch.cuda.is_available():
        raise RuntimeError(f'device={device!r}, but torch finds no CUDA device; pass device="cpu"')
    return torch.device("cuda", torch.cuda.current_device() if asked.index is None else asked.index)
