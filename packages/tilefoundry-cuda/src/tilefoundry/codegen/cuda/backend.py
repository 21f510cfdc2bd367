"""The CUDA back end as the verbs see it."""

from __future__ import annotations

from dataclasses import dataclass, field

from tilefoundry.codegen.cpu.backend import entry_abi
from tilefoundry.codegen.cpu.bufferise import Bufferise
from tilefoundry.codegen.cpu.decompose import DecomposeRows
from tilefoundry.codegen.cpu.erase import ErasePlacement
from tilefoundry.codegen.cpu.launches import KeepLaunches, Levels
from tilefoundry.codegen.cpu.place import Place
from tilefoundry.codegen.cpu.schedule import KernelSpec
from tilefoundry.codegen.cpu.share import ShareKernels
from tilefoundry.codegen.cuda.attention_forms import has_kernel
from tilefoundry.codegen.cuda.authored import OutlineScopes, is_placed
from tilefoundry.codegen.cuda.choose_meshes import ChooseMeshes
from tilefoundry.codegen.cuda.emit import CudaSource, emit_module
from tilefoundry.codegen.cuda.join_launches import JoinLaunches
from tilefoundry.codegen.cuda.launches import PlanLaunches, WithWorkspaces
from tilefoundry.codegen.cuda.link import SOURCE, cuda_program_key, link_cuda
from tilefoundry.codegen.cuda.pair_products import PairProducts
from tilefoundry.codegen.cuda.prims import LowerPrims, OnGraphs, lower_statements
from tilefoundry.codegen.cuda.resources import cuda_records
from tilefoundry.codegen.cuda.schedule import accepts, schedule
from tilefoundry.codegen.cuda.source import emit_kernel
from tilefoundry.codegen.cuda.split_reductions import SplitReductions
from tilefoundry.codegen.cuda.spreads import follow
from tilefoundry.codegen.cuda.supported import host_answers
from tilefoundry.codegen.kernel_windows import window_checks
from tilefoundry.codegen.launch_paths import named_by_path, with_ranges
from tilefoundry.codegen.linkable import LinkableModule
from tilefoundry.codegen.recall import recalled, remember
from tilefoundry.codegen.supported import CheckSupported
from tilefoundry.ir.core.expr import MeshScope
from tilefoundry.ir.core.module import Module
from tilefoundry.ir.hir.function import Function
from tilefoundry.ir.passes import Canonicalise, Pass, RemoveDeadCode, UnrollLoops
from tilefoundry.ir.tir import PrimFunction
from tilefoundry.runtime import CompiledModule
from tilefoundry.runtime.linking import LinkedModule, load_linked_module
from tilefoundry.target import CompilerOptions, CudaTarget, Target

__all__ = ["CudaBackend"]


@dataclass(frozen=True, slots=True)
class CudaLinkable(LinkableModule):
    """A LinkableModule whose host and device texts are at hand one by one."""

    parts: CudaSource = field(kw_only=True)


def _schedule(spec: KernelSpec) -> PrimFunction:
    """A kernel as its layouts say, or by the schedule for its mesh where they are open."""
    return follow(spec) if is_placed(spec.function) else schedule(spec)


def _declares_levels(levels: Levels) -> bool:
    return levels is not None


def _has_scopes(function: Function) -> bool:
    return any(isinstance(stmt, MeshScope) for stmt in function.stmts())


_PLACING: tuple[Pass, ...] = (
    KeepLaunches(_declares_levels, _has_scopes),
    OutlineScopes(),
    UnrollLoops(),
    ErasePlacement(),
    DecomposeRows(keeps=has_kernel),
    SplitReductions(),
    Canonicalise(),
    RemoveDeadCode(),
    CheckSupported("cuda"),
    OnGraphs(Place(host_answers, accepts)),
    OnGraphs(ChooseMeshes()),
)
"""From a program, placed by its author or not, to one whose kernels all have their mesh."""


@dataclass(frozen=True, slots=True)
class CudaBackend:
    """CuTe-based CUDA C++ through NVRTC, embedded in a host library of g++. Stateless."""

    def resolve(self, target: Target) -> CudaTarget:
        """``target`` itself: a CudaTarget names its architecture."""
        assert isinstance(target, CudaTarget)
        return target

    def placing(self, target: Target, options: CompilerOptions) -> tuple[Pass, ...]:
        """The first passes of the pipeline; what they give reads back as a program."""
        return _PLACING

    def pipeline(self, target: Target, options: CompilerOptions) -> tuple[Pass, ...]:
        """The passes, in order."""
        return (
            *self.placing(target, options),
            WithWorkspaces(
                LowerPrims(Bufferise(_schedule, lower_statements, window_checks), self.resolve(target))
            ),
            PlanLaunches(),
            PairProducts(),
            JoinLaunches(self.resolve(target)),
            ShareKernels(emit_kernel),
        )

    def emit(self, module: Module, target: Target, options: CompilerOptions) -> CudaLinkable:
        """The texts of a lowered module; kernels are called by their path in the program."""
        module = named_by_path(with_ranges(module) if options.ranges else module)
        functions = tuple(f for f in module.functions if isinstance(f, PrimFunction))
        parts = emit_module(module)
        abi, records = entry_abi(module), cuda_records(module, parts.kernels)
        return CudaLinkable(target, "cuda", parts.text(), functions, abi, records, parts=parts)

    def link(self, linkable: CudaLinkable, options: CompilerOptions) -> LinkedModule:
        """The native library."""
        return link_cuda(linkable, linkable.parts, options)

    def recall(self, program: str, target: Target, options: CompilerOptions) -> LinkedModule | None:
        """The library of a program that an earlier process compiled."""
        assert isinstance(target, CudaTarget)
        return recalled(cuda_program_key(program, target, options), SOURCE if options.keep_sources else None)

    def remember(self, program: str, linked: LinkedModule, target: Target, options: CompilerOptions) -> None:
        """Let later processes recall ``linked``."""
        assert isinstance(target, CudaTarget)
        remember(cuda_program_key(program, target, options), linked)

    def load(self, linked: LinkedModule) -> CompiledModule:
        """The library behind the calling convention."""
        return load_linked_module(linked)
