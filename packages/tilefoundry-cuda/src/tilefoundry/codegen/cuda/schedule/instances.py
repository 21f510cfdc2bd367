"""The instances that run a kernel: what is chosen for it, and what a mesh says of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from tilefoundry.codegen.cuda.authored.refusal import NotFollowed
from tilefoundry.codegen.cuda.authored.scope import resolved_mesh
from tilefoundry.ir.core.expr import MeshScope
from tilefoundry.ir.tir import MeshScope as TirScope
from tilefoundry.ir.tir import TirStmt
from tilefoundry.ir.types import Dim
from tilefoundry.ir.types.dim import product
from tilefoundry.ir.types.shard import Layout, Mesh, Topology, c_order, level_axes

__all__ = ["Instances", "Placement"]

_MOST_THREADS = 1024


@dataclass(frozen=True, slots=True)
class Instances:
    """Blocks, and in each of them threads along one axis or two.

    Attributes:
        blocks: how many there are, at least 1 where that is static: a launch of none is left out by the host.
        threads: extents of a block's thread axes, the last fastest.
        names: of the mesh's axes, that of the blocks first.
    """

    blocks: Dim
    threads: tuple[int, ...]
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        if isinstance(self.blocks, int):
            object.__setattr__(self, "blocks", max(self.blocks, 1))

    @property
    def levels(self) -> tuple[Topology, ...]:
        """The levels that a kernel on these instances declares."""
        return (Topology("cta", self.blocks), Topology("thread", product(self.threads)))

    @property
    def mesh(self) -> Mesh:
        """The mesh over these levels."""
        return Mesh(("cta", "thread"), Layout((self.blocks, *self.threads)), self.names)

    def __str__(self) -> str:
        extents = ", ".join(map(str, (self.blocks, *self.threads)))
        names = ", ".join(f'"{name}"' for name in self.names)
        return f'Mesh(("cta", "thread"), ({extents}), ({names}))'


@dataclass(frozen=True, slots=True)
class Placement:
    """A kernel's scope as its schedule sees it.

    Attributes:
        kernel: its name, for messages.
        name: of the scope.
        mesh: with the extents of its levels.
        blocks: how many there are.
        threads: extents of a block's thread axes, the last fastest.
    """

    kernel: str
    name: str
    mesh: Mesh
    blocks: Dim
    threads: tuple[int, ...]

    @staticmethod
    def of(kernel: str, scope: MeshScope, levels: Sequence[Topology]) -> Placement:
        """What ``scope`` says.

        Raises:
            NotFollowed: a sub-mesh, levels other than cta and thread, strides, or more threads than a block has.
        """
        where = f"{kernel}.{scope.name}"
        mesh = resolved_mesh(where, scope.mesh, tuple(levels))
        if mesh.level_names != ("cta", "thread") or mesh.layout.settled != c_order(mesh.layout.shape):
            raise NotFollowed(
                f"{where}: values without layouts are spread over a mesh of the levels cta and thread whose last "
                f'axis is fastest, got {mesh}; write Mesh(("cta", "thread"), (blocks, threads), names)'
            )
        ctas, lanes = level_axes(mesh)
        threads = tuple(n for n in lanes.shape if isinstance(n, int))
        count = product(lanes.shape)
        if not isinstance(count, int) or count > _MOST_THREADS:
            raise NotFollowed(
                f"{where}: a block of {count} threads; their number must be static and at most {_MOST_THREADS}"
            )
        return Placement(kernel, scope.name, mesh, product(ctas.shape), threads)

    @property
    def thread_count(self) -> int:
        """Threads of a block."""
        count = product(self.threads)
        assert isinstance(count, int)
        return count

    def rows_and_lanes(self, wanted: Instances) -> tuple[int, int]:
        """Extents of a block's two thread axes; a missing first one is 1."""
        if len(self.threads) > 2:
            self.refuse("a block has more than two thread axes", wanted)
        rows, lanes = self.threads if len(self.threads) == 2 else (1, self.thread_count)
        return rows, lanes

    def scope(self, body: Sequence[TirStmt]) -> TirScope:
        """The statements under the mesh."""
        return TirScope(self.name, self.mesh, tuple(body))

    def refuse(self, why: str, wanted: Instances) -> NoReturn:
        """Raise NotFollowed: the mesh does not fit, and ``wanted`` would."""
        raise NotFollowed(
            f"{self.kernel}.{self.name}: its values cannot be spread over {self.mesh}: {why}; write {wanted}, "
            "or give every value a layout"
        )
