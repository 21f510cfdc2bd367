"""A value of which every instance of a mesh has its own."""

from __future__ import annotations

from dataclasses import dataclass

from tilefoundry.ir.types.shard.mesh import Mesh
from tilefoundry.ir.types.tensor_type import TupleType, Type

__all__ = ["Instances", "holds_instances"]


@dataclass(frozen=True, slots=True)
class Instances:
    """The layout of what ``tf.local`` gives: the type's shape is that of one instance, each has its own.

    Args:
        mesh: the mesh whose instances hold the values.
    """

    mesh: Mesh

    def __str__(self) -> str:
        return f"each of {self.mesh}"


def holds_instances(type_: Type) -> bool:
    """True for the type of a value, or of a tuple with a value, of which every instance has its own."""
    if isinstance(type_, TupleType):
        return any(map(holds_instances, type_.elements))
    return isinstance(type_.layout, Instances)
