"""The CPU back end as the verbs see it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

from tilefoundry.codegen.cpu.bufferise import Bufferise
from tilefoundry.codegen.cpu.decompose import DecomposeRows
from tilefoundry.codegen.cpu.emit import emit_module
from tilefoundry.codegen.cpu.erase import ErasePlacement
from tilefoundry.codegen.cpu.inplace import INPLACE
from tilefoundry.codegen.cpu.kernels import SpellKernels, declares_none, is_kernel
from tilefoundry.codegen.cpu.launches import KeepLaunches
from tilefoundry.codegen.cpu.link import SOURCE, cpu_program_key, link_cpu
from tilefoundry.codegen.cpu.place import Place
from tilefoundry.codegen.cpu.prims import LowerPrims, OnFunctions
from tilefoundry.codegen.cpu.schedule.prologues import accepts
from tilefoundry.codegen.cpu.share import ShareKernels
from tilefoundry.codegen.launch_paths import launch_records, with_ranges
from tilefoundry.codegen.linkable import LinkableModule
from tilefoundry.codegen.recall import recalled, remember
from tilefoundry.codegen.supported import CheckSupported
from tilefoundry.ir.core.module import Module
from tilefoundry.ir.passes import (
    PARAM_PATHS,
    Canonicalise,
    ExpandTiles,
    Pass,
    RemoveDeadCode,
    UnrollLoops,
)
from tilefoundry.ir.tir import PrimFunction
from tilefoundry.runtime import CompiledModule, EntryABI, param_abi_of
from tilefoundry.runtime.linking import LinkedModule, load_linked_module, native_arch
from tilefoundry.target import CompilerOptions, CpuTarget, Target

__all__ = ["CpuBackend"]


_PLACING: tuple[Pass, ...] = (
    KeepLaunches(declares_none, is_kernel),
    SpellKernels(),
    UnrollLoops(),
    ErasePlacement(),
    DecomposeRows(),
    Canonicalise(),
    RemoveDeadCode(),
    CheckSupported("cpu"),
    Place(accepts=accepts),
)
"""From HIR to kernels and an entry that calls them."""


@dataclass(frozen=True, slots=True)
class CpuBackend:
    """Plain C++17 through the system's compiler. Stateless."""

    def resolve(self, target: Target) -> CpuTarget:
        """``target`` with ``"native"`` replaced by what this machine has."""
        assert isinstance(target, CpuTarget)
        return _resolved(target)

    def placing(self, target: Target, options: CompilerOptions) -> tuple[Pass, ...]:
        """The first passes of the pipeline; what they give reads back as a program."""
        return (ExpandTiles(), LowerPrims(), *map(OnFunctions, _PLACING))

    def pipeline(self, target: Target, options: CompilerOptions) -> tuple[Pass, ...]:
        """The passes, in order."""
        return (
            *self.placing(target, options),
            OnFunctions(Bufferise()),
            ShareKernels(),
        )

    def emit(self, module: Module, target: Target, options: CompilerOptions) -> LinkableModule:
        """C++ of a lowered module."""
        module = with_ranges(module) if options.ranges else module
        functions = tuple(f for f in module.functions if isinstance(f, PrimFunction))
        source, records = emit_module(module), launch_records(module)
        return LinkableModule(target, "c++", source, functions, entry_abi(module), records)

    def link(self, linkable: LinkableModule, options: CompilerOptions) -> LinkedModule:
        """The native library."""
        return link_cpu(linkable, options)

    def recall(self, program: str, target: Target, options: CompilerOptions) -> LinkedModule | None:
        """The library of a program that an earlier process compiled."""
        assert isinstance(target, CpuTarget)
        return recalled(cpu_program_key(program, target, options), SOURCE if options.keep_sources else None)

    def remember(self, program: str, linked: LinkedModule, target: Target, options: CompilerOptions) -> None:
        """Let later processes recall ``linked``."""
        assert isinstance(target, CpuTarget)
        remember(cpu_program_key(program, target, options), linked)

    def load(self, linked: LinkedModule) -> CompiledModule:
        """The library behind the calling convention."""
        return load_linked_module(linked)


@cache
def _resolved(target: CpuTarget) -> CpuTarget:
    return replace(target, arch=native_arch()) if target.arch == "native" else target


def entry_abi(module: Module) -> EntryABI:
    """The ABI of a lowered module's entry; weights carry their dotted path."""
    entry = module.entry_function()
    assert isinstance(entry, PrimFunction)
    paths = module.metadata[PARAM_PATHS]
    params = tuple(
        replace(param_abi_of(param), name=path) for param, path in zip(entry.params, paths, strict=True)
    )
    weights = tuple(
        (i, path) for i, (param, path) in enumerate(zip(entry.params, paths, strict=True)) if param.is_const
    )
    inplace = module.metadata.get(INPLACE, ())
    return EntryABI(entry.name, params, entry.output_count, weights, inplace)
