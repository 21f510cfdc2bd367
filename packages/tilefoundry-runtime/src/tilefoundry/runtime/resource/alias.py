"""How a canonical name becomes checkpoint keys: alias values, and a scope that resolves names by them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Union

if TYPE_CHECKING:
    import torch

__all__ = ["Absolute", "AliasValue", "Leaf", "Preprocessed", "Scope"]


@dataclass(frozen=True, slots=True)
class Absolute:
    """A whole checkpoint key, with no prefix joined onto it; for a tensor outside the node's scope. Immutable."""

    name: str

    def __post_init__(self) -> None:
        _check_name("Absolute", self.name)


@dataclass(frozen=True, slots=True)
class Preprocessed:
    """One raw tensor that the checkpoint stores in another arrangement than the Module declares. Immutable.

    ``read`` runs on whichever thread reads the tensor.

    Attributes:
        name: the raw name, relative to the scope or ``Absolute``.
        read: rearranges that one tensor (a transpose, a slice of a fused tensor, a dropped axis); it must
            keep the element type.

    Raises:
        TypeError: ``name`` is a tuple: a value made of several tensors is what a weight converter is for.
    """

    name: str | Absolute
    read: Callable[[torch.Tensor], torch.Tensor]

    def __post_init__(self) -> None:
        if isinstance(self.name, (tuple, list)):
            raise TypeError(
                f"Preprocessed reads one tensor, got the names {self.name!r}; "
                'write a weight converter (@function.converter("weight")) for a value made of several'
            )
        if not isinstance(self.name, Absolute):
            _check_name("Preprocessed", self.name)
        if not callable(self.read):
            raise TypeError(f"Preprocessed({self.name!r}): read must be callable, got {self.read!r}")


AliasValue = Union[str, tuple[str, ...], Absolute, Preprocessed]  # a runtime value, not an annotation


@dataclass(frozen=True, slots=True)
class Leaf:
    """A one-to-one resolution: the raw key, and what is done to its tensor."""

    key: str
    read: Callable[[Any], Any] | None = None


@dataclass(frozen=True, slots=True)
class Scope:
    """A prefix in the checkpoint and the aliases in force.

    A name is looked up as ``prefix + name``, then bare, and stands for itself where neither is an alias. A
    plain value is joined onto the prefix.
    """

    prefix: str
    alias: Mapping[str, AliasValue]

    @staticmethod
    def of(prefix: str, alias: Mapping[str, AliasValue] | None) -> Scope:
        """A checked scope; TypeError or ValueError for an alias value of another kind."""
        if not isinstance(prefix, str):
            raise TypeError(f"prefix must be a string such as 'model.', got {prefix!r}")
        if alias is not None and not isinstance(alias, Mapping):
            raise TypeError(f"alias maps canonical names to raw ones, got {alias!r}")
        table = dict(alias or {})
        for name, value in table.items():
            _check_alias(name, value)
        return Scope(prefix, MappingProxyType(table))

    def value(self, name: str) -> AliasValue:
        """What ``name`` stands for here."""
        if not isinstance(name, str):
            raise TypeError(f"a tensor's name is a string, got {name!r}")
        for key in (self.prefix + name, name):
            if key in self.alias:
                return self.alias[key]
        return name

    def leaf(self, name: str) -> Leaf:
        """The one raw tensor behind ``name``; TypeError naming ``load_group`` where there are several."""
        value = self.value(name)
        if isinstance(value, tuple):
            raise TypeError(
                f"{self.prefix}{name} stands for a group of {len(value)} tensors; "
                f"read it with load_group({name!r})"
            )
        if isinstance(value, Preprocessed):
            return Leaf(self._key(value.name), value.read)
        return Leaf(self._key(value))

    def group(self, name: str) -> tuple[str, ...] | None:
        """The raw keys behind a one-to-many ``name``, in the alias's order; None for a one-to-one name."""
        value = self.value(name)
        return tuple(self._key(part) for part in value) if isinstance(value, tuple) else None

    def below(self, seg: str) -> Scope:
        """The scope one segment further down; TypeError where ``seg`` stands for no relative path."""
        value = self.value(seg)
        if not isinstance(value, str):
            kind = "a group of tensors" if isinstance(value, tuple) else type(value).__name__
            raise TypeError(
                f"{self.prefix}{seg} is aliased to {kind} ({value!r}); a subtree's segment must stand for "
                "one relative path"
            )
        return Scope(f"{self.prefix}{value}.", self.alias)

    def along(self, path: str) -> tuple[Scope, str]:
        """The scope that the dotted ``path``'s leading segments lead to, and its last part."""
        *segments, name = path.split(".")
        scope = self
        for seg in segments:
            scope = scope.below(seg)
        return scope, name

    def _key(self, name: str | Absolute) -> str:
        return name.name if isinstance(name, Absolute) else self.prefix + name


def _check_alias(name: object, value: object) -> None:
    _check_name("an alias", name)
    if isinstance(value, (Absolute, Preprocessed)):
        return
    if isinstance(value, tuple):
        if not value:
            raise ValueError(f"alias {name!r}: a group names at least one tensor, got ()")
        for part in value:
            _check_name(f"alias {name!r}: a member of a group", part)
        return
    if not isinstance(value, str):
        raise TypeError(
            f"alias {name!r}: a value is a name, a tuple of names, Absolute or Preprocessed, got {value!r}"
        )
    _check_name(f"alias {name!r}", value)


def _check_name(what: str, name: object) -> None:
    if not isinstance(name, str):
        raise TypeError(f"{what} is a string, got {name!r}")
    if not name:
        raise ValueError(f"{what} must not be empty")
