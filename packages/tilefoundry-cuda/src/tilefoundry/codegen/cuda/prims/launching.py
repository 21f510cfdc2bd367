"""Attributes of authored launches: what of them the host passes on, and what the kernels owe them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tilefoundry.codegen.cuda.authored.refusal import NotFollowed
from tilefoundry.codegen.cuda.emit import _derive_launch_config
from tilefoundry.codegen.cuda.source import takes_turns
from tilefoundry.codegen.cuda.statements import EarlyStart
from tilefoundry.codegen.cuda.tiles import BARRIER
from tilefoundry.ir.core.expr import Expr, Var
from tilefoundry.ir.tir import BufferView, IndexValue, Launch, MeshScope, PointerOf, PrimFunction
from tilefoundry.ir.types import Dim, DType, dim_vars, scalar, substitute
from tilefoundry.ir.types.dim import product
from tilefoundry.ir.types.shard import PERSISTENT
from tilefoundry.target import CudaTarget

__all__ = [
    "FIRST_WITH_CLUSTERS",
    "checked_target",
    "extents_of",
    "host_launch",
    "is_own_memory",
    "started_early",
    "with_own",
]

FIRST_WITH_CLUSTERS = 90
"""The architecture, as a ``sm_`` number, from which on blocks form clusters."""


def checked_target(name: str, launches: Sequence[Launch], target: CudaTarget) -> None:
    """Check that the chip has what launches of the host ``name`` ask for.

    Raises:
        NotFollowed: clusters on a chip without them.
    """
    asks = next((launch for launch in launches if _cluster(launch) != ()), None)
    if asks is None:
        return
    number = int("".join(c for c in target.arch if c.isdigit()))
    if number < FIRST_WITH_CLUSTERS:
        raise NotFollowed(
            f"{name}: the launch of {asks.callee} asks for cluster=, which {target.arch} does not have; leave it out, "
            f"or compile for sm_{FIRST_WITH_CLUSTERS} or later"
        )


def started_early(kernel: PrimFunction, launches: Sequence[Launch]) -> PrimFunction:
    """The kernel, behind a wait for earlier launches where one of its own is ``programmatic``.

    Raises:
        NotFollowed: all of its blocks are to be resident together too.
    """
    asks = [dict(launch.attributes) for launch in launches if dict(launch.attributes).get("programmatic")]
    if not asks:
        return kernel
    meets = any(param.name == BARRIER for param in kernel.params)
    if meets or any(given.get("cooperative") for given in asks):
        why = "meets at a grid barrier" if meets else "is cooperative=True"
        raise NotFollowed(
            f"the launch of {kernel.name} is programmatic=True and {why}: blocks that are resident together start "
            "together; leave programmatic= out"
        )
    first, *rest = kernel.body
    assert isinstance(first, MeshScope)
    early: Any = EarlyStart()
    return replace(kernel, body=(replace(first, body=(early, *first.body)), *rest))


def host_launch(name: str, launch: Launch, kernel: PrimFunction) -> Launch:
    """The launch as the host makes it: over one row of blocks, with addresses, clusters as one number of neighbours.

    Raises:
        NotFollowed: a cluster whose blocks are no neighbours, or that the kernel cannot take.
    """
    args = tuple(
        (arg.buffer if arg.offset == 0 else PointerOf(scalar(DType.i64), arg.buffer, arg.offset))
        if isinstance(arg, BufferView)
        else arg
        for arg in launch.args
    )
    grid = (product(launch.grid),) if launch.grid else ()
    attributes = dict(launch.attributes)
    attributes.pop("cluster", None)
    cluster = _neighbours(name, launch, kernel)
    if cluster > 1:
        attributes["cluster"] = (cluster,)
    callee = launch.callee.replace(".", "_")
    found = with_own(Launch(callee, args, grid, launch.block, tuple(sorted(attributes.items()))), kernel)
    own = _derive_launch_config(kernel).grid
    if grid or isinstance(own, int) or any(var.name == PERSISTENT.name for var in dim_vars(own)):
        return found
    return replace(found, grid=(substitute(own, extents_of(found, kernel)),))


def with_own(launch: Launch, kernel: PrimFunction) -> Launch:
    """The launch with what its author does not pass: the counter pair of a barrier, and memory of the kernel's own, of
    which a parameter says how many elements it has."""
    args = list(launch.args)
    for at, param in enumerate(kernel.params):
        if param.name == BARRIER or is_own_memory(param):
            args.insert(at, param)
    return replace(launch, args=tuple(args))


def is_own_memory(param: Expr) -> bool:
    """Whether a kernel's parameter is memory that no author passes."""
    return isinstance(param, Var) and param.name != BARRIER and param.type.rank == 1  # type: ignore[attr-defined]  # a tensor


def extents_of(launch: Launch, kernel: PrimFunction) -> dict[str, Dim]:
    """The kernel's extents as its launch, complete, gives them."""
    pairs = zip(kernel.params, launch.args, strict=True)
    return {param.name: arg.value for param, arg in pairs if isinstance(arg, IndexValue)}


def _cluster(launch: Launch) -> tuple[int, ...]:
    """Extents of the launch's clusters; none where it asks for none."""
    given = dict(launch.attributes).get("cluster", ())
    return given if product(given) != 1 else ()


def _neighbours(name: str, launch: Launch, kernel: PrimFunction) -> int:
    """Blocks of a cluster. Blocks have one number, the last axis of the grid fastest: only those that follow each other
    in it form a cluster."""
    given = _cluster(launch)
    if not given:
        return 1
    if takes_turns(kernel):
        raise NotFollowed(
            f"{name}: the launch of {launch.callee} asks for cluster=, and its product pairs blocks itself; leave it "
            "out"
        )
    grid: tuple[Dim, ...] = launch.grid or (_derive_launch_config(kernel).grid,)
    extents = (*given, *(1,) * (len(grid) - len(given)))
    first = next(i for i, extent in enumerate(extents) if extent != 1)
    if len(extents) != len(grid) or extents[first + 1 :] != grid[first + 1 :]:
        shown = ", ".join(map(str, grid))
        raise NotFollowed(
            f"{name}: the blocks of cluster={given} do not follow each other in the grid ({shown}) of {launch.callee}, "
            "whose last axis is the fastest; give extents along the last axis, such as "
            f"cluster={(*(1,) * (len(grid) - 1), product(given))}"
        )
    total, count = product(grid), product(given)
    assert isinstance(count, int)
    if isinstance(total, int) and total % count:
        raise NotFollowed(
            f"{name}: {launch.callee} has {total} blocks, which clusters of {count} do not divide; make the grid a "
            "multiple, or leave cluster= out"
        )
    return count
