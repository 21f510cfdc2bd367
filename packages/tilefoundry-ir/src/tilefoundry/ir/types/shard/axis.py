"""Mesh axes and what is written with them: ``12 @ m.y`` and ``m.t @ P("sum")``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tilefoundry.ir.types.dim import Dim, DimExpr, DimVar
from tilefoundry.ir.types.shard.attrs import Partial

if TYPE_CHECKING:
    from tilefoundry.ir.types.shard.mesh import Mesh

__all__ = ["MeshAxis", "PartialOver", "SplitExtent"]


@dataclass(frozen=True, slots=True)
class MeshAxis:
    """One axis of a mesh: ``extent @ axis`` splits over it, ``axis @ P("sum")`` holds partial values."""

    mesh: Mesh
    position: int

    @property
    def extent(self) -> Dim:
        """Number of instances along the axis."""
        return self.mesh.shape[self.position]

    @property
    def name(self) -> str:
        """Its name, or its position where the mesh names none."""
        return self.mesh.names[self.position] if self.mesh.names else str(self.position)

    def __rmatmul__(self, extent: Any) -> SplitExtent:
        return self.split_over(extent, (self,))

    def __matmul__(self, attr: Any) -> PartialOver:
        value = attr() if attr is Partial else attr
        if not isinstance(value, Partial):
            raise TypeError(f'an axis takes a partial state, as in m.{self.name} @ P("sum"), got {attr!r}')
        return PartialOver(self, value)

    @staticmethod
    def split_over(extent: Any, axes: tuple[MeshAxis, ...]) -> SplitExtent:
        """``extent @ (a, b, ...)``: one extent split over several axes, the first one outermost."""
        return SplitExtent(extent, tuple(axes))

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class SplitExtent:
    """An extent of a layout that one or more mesh axes split.

    Raises:
        TypeError: an extent that is none, or something that is no mesh axis.
        ValueError: an axis named twice, or axes of different meshes.
    """

    extent: Dim
    axes: tuple[MeshAxis, ...]

    def __post_init__(self) -> None:
        if isinstance(self.extent, bool) or not isinstance(self.extent, (int, DimVar, DimExpr)):
            raise TypeError(f"@ splits an int or a dim over a mesh axis, got {self.extent!r}")
        for axis in self.axes:
            if not isinstance(axis, MeshAxis):
                raise TypeError(f"@ splits over mesh axes such as m.x, got {axis!r}")
        if not self.axes or len({axis.position for axis in self.axes}) != len(self.axes):
            raise ValueError(f"{self.extent} @ (...): name one or more axes, each once")
        if any(axis.mesh != self.axes[0].mesh for axis in self.axes):
            raise ValueError(f"{self.extent} @ (...): the axes belong to different meshes")

    def __str__(self) -> str:
        names = [axis.name for axis in self.axes]
        return f"{self.extent} @ {names[0] if len(names) == 1 else '(' + ', '.join(names) + ')'}"


@dataclass(frozen=True, slots=True)
class PartialOver:
    """A mesh axis whose instances hold partial values."""

    axis: MeshAxis
    attr: Partial
