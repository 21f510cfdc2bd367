"""A checkpoint in memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tilefoundry.ir.errors import UnknownNameError
from tilefoundry.runtime.near_names import near_names
from tilefoundry.runtime.resource.alias import AliasValue, Leaf, Scope
from tilefoundry.runtime.resource.finish import finished

if TYPE_CHECKING:
    import torch

__all__ = ["DictResource", "absent"]


class DictResource:
    """Named tensors of a flat mapping such as ``{"layer0.w": tensor}``.

    Args:
        data: dotted key -> tensor.
        prefix: joined before every name as it is, dot included (``"model."``).
        alias: canonical name -> raw name, group, ``Absolute`` or ``Preprocessed``.

    Every read gives a detached copy, so that two readings never share memory. Thread-safe while nobody
    changes ``data``.
    """

    def __init__(
        self,
        data: Mapping[str, torch.Tensor],
        prefix: str = "",
        alias: Mapping[str, AliasValue] | None = None,
    ) -> None:
        self._data = data
        self._scope = Scope.of(prefix, alias)

    @property
    def prefix(self) -> str:
        """What names are joined onto."""
        return self._scope.prefix

    @property
    def alias(self) -> Mapping[str, AliasValue]:
        """The aliases in force."""
        return self._scope.alias

    def load(self, name: str) -> torch.Tensor:
        """The tensor ``name``.

        Raises:
            KeyError: the mapping does not hold it.
            TypeError: ``name`` is a group, or its ``Preprocessed.read`` changed the element type.
        """
        leaf = self._scope.leaf(name)
        return finished(leaf, self._copy(leaf.key))

    def load_group(self, name: str) -> tuple[torch.Tensor, ...] | None:
        """The tensors of a one-to-many ``name`` in declared order; None where ``name`` is one-to-one."""
        keys = self._scope.group(name)
        return None if keys is None else tuple(finished(Leaf(key), self._copy(key)) for key in keys)

    def subtree(self, seg: str) -> DictResource:
        """The same mapping one segment further down; TypeError where ``seg`` stands for no relative path."""
        view = object.__new__(DictResource)
        view._data = self._data
        view._scope = self._scope.below(seg)
        return view

    def _copy(self, key: str) -> torch.Tensor:
        import torch  # here, not at the top: importing the runtime must not load torch

        if key not in self._data:
            raise UnknownNameError(absent(key, self._data, "the mapping"))
        value = self._data[key]
        if not isinstance(value, torch.Tensor):
            raise TypeError(f"{key!r} must be a torch.Tensor, got {type(value).__name__}")
        return value.detach().clone(memory_format=torch.contiguous_format)

    def __repr__(self) -> str:
        return f"DictResource({len(self._data)} tensors, prefix={self.prefix!r})"


def absent(key: str, known: Mapping[str, object], where: str) -> str:
    """The message for a key that ``where`` does not hold, with the nearest names there are."""
    near = near_names(key, known)
    hint = (
        f"the nearest names are {', '.join(near)}" if near else f"it holds {len(known)} names, none like it"
    )
    return f"{key!r} is not in {where}; {hint}; name it with alias={{...}}"
