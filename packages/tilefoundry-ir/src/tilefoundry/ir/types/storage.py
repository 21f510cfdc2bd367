"""Where a tensor lives."""

from __future__ import annotations

from enum import Enum

__all__ = ["StorageKind"]


class StorageKind(Enum):
    """Memory that holds a tensor; ``UNDECIDED`` is settled by placement and never reaches a back end."""

    HOST = "host"
    GMEM = "gmem"
    SMEM = "smem"
    RMEM = "rmem"
    TMEM = "tmem"
    UNDECIDED = "undecided"

    @staticmethod
    def from_name(name: str | StorageKind) -> StorageKind:
        """The kind called ``name``; a ``StorageKind`` passes through.

        Raises:
            ValueError: no such kind; the message lists the names there are.
        """
        return StorageKind(name)

    @classmethod
    def _missing_(cls, value: object) -> StorageKind:
        raise ValueError(
            f"unknown storage {value!r}; the storage kinds are {', '.join(k.value for k in StorageKind)}"
        )

    def __str__(self) -> str:
        return self.value
