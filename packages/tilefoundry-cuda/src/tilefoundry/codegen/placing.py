"""Show a program as its back end places it: kernels with their meshes, and an entry that calls them."""

from __future__ import annotations

from typing import Any

from tilefoundry.codegen.cpu.backend import CpuBackend
from tilefoundry.codegen.cuda.backend import CudaBackend
from tilefoundry.ir.core.module import Module
from tilefoundry.ir.passes import Pipeline
from tilefoundry.target import CompilerOptions, CpuTarget, Target
from tilefoundry.verbs import as_module, resolved_target

__all__ = ["place", "placing_and_rest"]


def place(program: Any, *, target: Target | str | None = None) -> Module:
    """``program`` cut into kernels, each a child of the Module that comes back, and an entry of calls and views.

    On a GPU a kernel that nobody placed is one scope whose mesh says how many blocks and threads run it; what each of
    them holds stays open. ``tilefoundry.inspection.as_script`` prints the Module as a program to read, edit and
    compile: as it stands it is compiled to the same code as ``program``.

    Args:
        program: a Module with an entry, or a Function.
        target: as for ``lower``; by default the one that the module declares, else the CPU.

    Raises:
        LoweringError: what ``lower`` refuses, by name.

    Example:
        >>> from tilefoundry import CudaTarget, func
        >>> from tilefoundry.dsl import Tensor, tf
        >>> @func
        ... def gated(x: Tensor[(512, 1024), "f32"], y: Tensor[(512, 1024), "f32"]) -> Tensor[(512, 1024), "f32"]:
        ...     return tf.silu(x) * y
        >>> placed = place(gated, target=CudaTarget("nvidia.h200_sxm"))
        >>> kernel = placed.modules[0]
        >>> kernel.name, [level.name for level in kernel.topologies]
        ('k0_silu_mul', ['cta', 'thread'])
    """
    module = as_module(program)
    placing, _ = placing_and_rest(resolved_target(module, target, "cpu"))
    return placing.run(module)


def placing_and_rest(target: Target) -> tuple[Pipeline, Pipeline]:
    """The target's pipeline, cut after placement."""
    backend, options = CpuBackend() if isinstance(target, CpuTarget) else CudaBackend(), CompilerOptions()
    passes, placing = backend.pipeline(target, options), backend.placing(target, options)
    return Pipeline(placing), Pipeline(passes[len(placing) :])
