"""A value of which every instance of a mesh has its own."""

from __future__ import annotations

from dataclasses import dataclass

from tilefoundry.ir.types.shard.mesh import Mesh

__all__ = ["Instances"]


@dataclass(frozen=True, slots=True)
class Instances:
    """The layout of what ``tf.local`` gives: the type's shape is that of one instance, each has its own.

    Args:
        mesh: the mesh whose instances hold the values.
    """

    mesh: Mesh

    def __str__(self) -> str:
        return f"each of {self.mesh}"
