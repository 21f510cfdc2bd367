"""Source of a lowered module, and the launch geometry of its kernels."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tilefoundry.codegen.cuda.source import (
    device_source,
    host_source,
    meets_in_turns,
    takes_dynamic_shared,
    takes_turns,
)
from tilefoundry.codegen.cuda.source.host import KernelEntry
from tilefoundry.codegen.cuda.source.launch_order import overlaps
from tilefoundry.codegen.cuda.statements import inner_statements
from tilefoundry.codegen.cuda.tiles import TileSync
from tilefoundry.ir.core.module import Module
from tilefoundry.ir.errors import LoweringError
from tilefoundry.ir.tir import MeshScope, PrimFunction
from tilefoundry.ir.types import Dim, bounds
from tilefoundry.ir.types.dim import product
from tilefoundry.ir.types.shard import Mesh, Topology

__all__ = ["CudaSource", "LaunchConfig", "emit_module"]

MOST_THREADS = 1024
_PER_IMAGE = 8


@dataclass(frozen=True, slots=True)
class LaunchConfig:
    """Geometry of a launch: ``grid`` blocks (y and z are 1) of ``block`` threads.

    Attributes:
        grid: a dim over the host's extents; ``persistent`` is as many as are resident.
        block: threads of a block.
        cooperative: all blocks meet at a grid barrier, so they must be resident together.
    """

    grid: Dim
    block: int
    cooperative: bool = False


@dataclass(frozen=True, slots=True)
class CudaSource:
    """Host text, one device text per image, and what the host knows of the kernels."""

    host: str
    devices: tuple[str, ...]
    kernels: tuple[KernelEntry, ...]

    def text(self) -> str:
        """Everything, for a reader."""
        parts = [f"// image {i}\n{text}" for i, text in enumerate(self.devices)]
        return "\n".join([*parts, "// host\n" + self.host])


def _derive_launch_config(function: PrimFunction) -> LaunchConfig:
    """Grid and block of a kernel from its mesh scopes: the largest product of extents per level.

    Raises:
        LoweringError: no mesh, threads that only a call decides, or more threads than a block has.
    """
    stmts = list(inner_statements(function.body))
    scopes = [stmt.mesh for stmt in stmts if isinstance(stmt, MeshScope)]
    if not scopes:
        raise LoweringError(f"{function.name}: no mesh says how many blocks and threads run it")
    grid = _largest(_extents(mesh, "cta") for mesh in scopes)
    block = _largest(_extents(mesh, "thread") for mesh in scopes)
    if not isinstance(block, int):
        raise LoweringError(f"{function.name}: the number of threads of a block must be static, got {block}")
    if block > MOST_THREADS:
        raise LoweringError(
            f"{function.name}: a block of {block} threads; a GPU's block has at most {MOST_THREADS}"
        )
    barrier = any(isinstance(stmt, TileSync) and stmt.kind == "grid" for stmt in stmts)
    return LaunchConfig(grid, block, barrier)


def _extents(mesh: Mesh, level: str) -> Dim:
    """How many instances of ``level`` the mesh spans; 1 where it has none."""
    names = mesh.level_names
    if level not in names:
        return 1
    declared = mesh.topologies[names.index(level)]
    if isinstance(declared, Topology):
        return declared.extent
    if len(names) == 1:
        return product(mesh.layout.shape)
    raise LoweringError(
        f"the mesh {mesh} names the level {level} without its extent; declare it: topologies=(Topology({level!r}, n),)"
    )


def _largest(extents: Iterable[Dim]) -> Dim:
    best: Dim = 1
    for extent in extents:
        if isinstance(extent, int) and isinstance(best, int):
            best = max(best, extent)
        elif bounds(extent)[1] >= bounds(best)[1]:
            best = extent
    return best


def _images(kernels: list[PrimFunction], blocks: dict[str, int]) -> list[tuple[int, list[PrimFunction]]]:
    """(threads of a block, kernels) per image: one block size each, and few enough kernels that images compile
    side by side."""
    out: list[tuple[int, list[PrimFunction]]] = []
    for size in sorted(set(blocks.values())):
        held = [kernel for kernel in kernels if blocks[kernel.name] == size]
        out.extend((size, held[i : i + _PER_IMAGE]) for i in range(0, len(held), _PER_IMAGE))
    return out


def emit_module(module: Module) -> CudaSource:
    """The texts of a lowered module; an image holds kernels with equal blocks."""
    entry = module.entry_function()
    assert isinstance(entry, PrimFunction)
    kernels = [f for f in module.functions if isinstance(f, PrimFunction) and f is not entry]
    configs = {kernel.name: _derive_launch_config(kernel) for kernel in kernels}
    images = _images(kernels, {name: config.block for name, config in configs.items()})
    home = {kernel.name: i for i, (_, held) in enumerate(images) for kernel in held}
    entries = tuple(
        KernelEntry(
            k.name,
            home[k.name],
            configs[k.name].block,
            configs[k.name].cooperative,
            takes_dynamic_shared(k),
            takes_turns(k) or meets_in_turns(k),
            overlaps(k),
        )
        for k in kernels
    )
    devices = tuple(device_source(held, size) for size, held in images)
    return CudaSource(host_source(module, entries, len(devices)), devices, entries)
