"""The smallest RuntimeResource, so that these tests need no other wheel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class MemoryResource:
    """Tensors by dotted key; a tuple value is a group. ``folder`` is what prepare is told to leave alone."""

    def __init__(self, data: Mapping[str, Any], prefix: str = "", folder: str | None = None) -> None:
        self.data, self.prefix, self.folder = data, prefix, folder

    def load(self, name: str) -> Any:
        value = self.data[self.prefix + name]
        if isinstance(value, tuple):
            raise TypeError(f"{name} is a group; use load_group")
        return value

    def load_group(self, name: str) -> tuple[Any, ...] | None:
        value = self.data.get(self.prefix + name)
        return value if isinstance(value, tuple) else None

    def subtree(self, seg: str) -> MemoryResource:
        return MemoryResource(self.data, f"{self.prefix}{seg}.", self.folder)
