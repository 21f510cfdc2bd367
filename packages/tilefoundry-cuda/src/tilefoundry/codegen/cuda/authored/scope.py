"""A mesh in force: where its levels' extents come from, and the names of the running instance's coordinates."""

from __future__ import annotations

from dataclasses import dataclass

from tilefoundry.codegen.cuda.authored.refusal import NotFollowed
from tilefoundry.codegen.cuda.tiles import MeshValue
from tilefoundry.ir.core.expr import Var
from tilefoundry.ir.passes import Names
from tilefoundry.ir.types import Dim, DimVar, DType, scalar
from tilefoundry.ir.types.dim import product
from tilefoundry.ir.types.shard import LevelAxes, Mesh, Topology, c_order, level_axes

__all__ = ["Scope", "resolved_mesh"]


@dataclass(frozen=True, slots=True)
class Scope:
    """A mesh of a kernel.

    Attributes:
        name: its name in the program.
        value: its name in the kernel.
        mesh: with the extents of its levels.
        levels: the axes of each level.
        coordinates: one variable per axis.
    """

    name: str
    value: str
    mesh: Mesh
    levels: tuple[LevelAxes, ...]
    coordinates: tuple[DimVar, ...]

    @staticmethod
    def of(name: str, mesh: Mesh, names: Names) -> Scope:
        """A scope over ``mesh`` with names of its own."""
        value = names.fresh(f"{name}_mesh")
        axes = mesh.names or tuple(str(i) for i in range(mesh.rank))
        coordinates = tuple(DimVar(names.fresh(f"{name}_{axis}"), 0, 2**31) for axis in axes)
        return Scope(name, value, mesh, _own_levels(name, mesh), coordinates)

    def axes_of(self, level: str) -> tuple[int, ...]:
        """Axes of the level; none where the mesh has no such level."""
        return next((part.axes for part in self.levels if part.level.name == level), ())

    @property
    def is_static(self) -> bool:
        """Whether every extent is known before a call."""
        return all(isinstance(extent, int) for extent in self.mesh.layout.shape)

    def split_coordinate(self, axis: int) -> Dim:
        """The running instance's place along ``axis``; 0 where there is one place."""
        return 0 if self.mesh.layout.shape[axis] == 1 else self.coordinates[axis]

    def statement(self) -> MeshValue:
        """What defines the scope's names in the kernel."""
        index = scalar(DType.i64)
        named = tuple((i, Var(index, var.name)) for i, var in enumerate(self.coordinates))
        return MeshValue(self.value, self.mesh if self.is_static else None, self.levels, named)


def resolved_mesh(where: str, mesh: Mesh, levels: tuple[Topology, ...]) -> Mesh:
    """The mesh with the extents of its levels.

    Raises:
        NotFollowed: a sub-mesh, a level that a GPU lacks, or a level without extent.
    """
    if mesh.is_sliced:
        raise NotFollowed(
            f"{where}: {mesh} is a sub-mesh; open the scope over the whole mesh, and write T.sync and guards "
            "for parts of it in a @prim_func"
        )
    unknown = set(mesh.level_names) - {"cta", "thread"}
    if unknown:
        raise NotFollowed(
            f"{where}: {mesh} has the level {min(unknown)}; a GPU has the levels cta and thread"
        )
    known = {level.name for level in levels}
    if (
        len(mesh.level_names) == 1
        and isinstance(mesh.topologies[0], str)
        and mesh.level_names[0] not in known
    ):
        levels = (*levels, Topology(mesh.level_names[0], product(mesh.layout.shape)))
    try:
        level_axes(mesh, levels)
    except KeyError as error:
        raise NotFollowed(
            f"{where}: {error.args[0]}; declare topologies= with the levels of {mesh}"
        ) from None
    except ValueError as error:
        raise NotFollowed(f"{where}: {error}") from None
    return mesh.resolved(levels)


def _own_levels(name: str, mesh: Mesh) -> tuple[LevelAxes, ...]:
    """The axes of each level, strides counting that level's own instances even where extents are dims."""
    found = []
    dense = c_order(mesh.layout.shape)
    for part in level_axes(mesh):
        static = all(isinstance(dim, int) for dim in (*part.shape, *part.strides))
        if not static and mesh.layout.settled != dense:
            raise NotFollowed(
                f"{name}: {mesh} has extents that only a call decides and strides of its own; leave the strides out"
            )
        strides = part.strides if static else c_order(part.shape)
        found.append(LevelAxes(part.level, part.axes, part.shape, strides))
    return tuple(found)
