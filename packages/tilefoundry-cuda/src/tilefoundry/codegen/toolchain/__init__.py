"""Find the native tools that compilation needs."""

from tilefoundry.codegen.toolchain.errors import (
    GpuNotTargetedError,
    ToolchainError,
    ToolNotFoundError,
    ToolTooOldError,
)
from tilefoundry.codegen.toolchain.gxx import Compiler, find_cxx
from tilefoundry.codegen.toolchain.nvtx import find_nvtx, range_flags, range_includes
from tilefoundry.codegen.toolchain.outside import compiler_environment, file_flag, flags_of_environment
from tilefoundry.codegen.toolchain.precompiled import PrecompiledHeaders, clear_precompiled
from tilefoundry.codegen.toolchain.tvm_ffi import FfiPaths, find_ffi

__all__ = [
    "Compiler",
    "FfiPaths",
    "GpuNotTargetedError",
    "PrecompiledHeaders",
    "ToolNotFoundError",
    "ToolTooOldError",
    "ToolchainError",
    "clear_precompiled",
    "compiler_environment",
    "file_flag",
    "find_cxx",
    "find_ffi",
    "find_nvtx",
    "flags_of_environment",
    "range_flags",
    "range_includes",
]
