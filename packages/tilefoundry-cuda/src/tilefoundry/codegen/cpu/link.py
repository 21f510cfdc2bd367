"""From C++ source to a shared library, through the disk cache."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

from tilefoundry.codegen.cache import built_library, keep_beside, kept_library
from tilefoundry.codegen.cpu.arch import march_flags
from tilefoundry.codegen.headers import headers_digest, include_dirs
from tilefoundry.codegen.linkable import LinkableModule
from tilefoundry.codegen.recall import program_key
from tilefoundry.codegen.toolchain import (
    Compiler,
    FfiPaths,
    PrecompiledHeaders,
    compiler_environment,
    file_flag,
    find_cxx,
    find_ffi,
    flags_of_environment,
    range_flags,
    range_includes,
)
from tilefoundry.runtime.linking import LinkedModule
from tilefoundry.target import CompilerOptions, CpuTarget

__all__ = ["SOURCE", "compile_flags", "cpu_headers", "cpu_program_key", "line_paths", "link_cpu"]

SOURCE = "source.cc"
"""The generated text, where it is kept beside its library."""


def link_cpu(linkable: LinkableModule, options: CompilerOptions) -> LinkedModule:
    """The library of a CPU module; compiled unless an equal one lies in the cache.

    Raises:
        ToolchainError: no usable C++ compiler, or it failed; the message shows its output.
    """
    target = linkable.target
    assert isinstance(target, CpuTarget)
    compiler, ffi = find_cxx(), find_ffi()
    flags = compile_flags(target, options, compiler, ffi)
    kept = _is_kept(options, compiler)

    def build(root: Path, folder: Path, final: Path) -> None:
        headers = replace(cpu_headers(root, target, options), allowed=kept)
        _compile(linkable.source, folder, ffi, headers, line_paths(options, folder, final))

    if kept:
        library = kept_library(lambda: _key(linkable.source, flags, find_cxx(), ffi), build)
    else:
        library = built_library(build)
    if options.keep_sources:
        keep_beside(library, SOURCE, linkable.source)
    return LinkedModule(str(library), linkable.source, linkable.entry, "cpu", target.arch, linkable.kernels)


def compile_flags(
    target: CpuTarget, options: CompilerOptions, compiler: Compiler, ffi: FfiPaths
) -> tuple[str, ...]:
    """Flags of the one compiler call; none of them lets arithmetic differ from IEEE."""
    debug = ("-g1",) if options.line_info else ()
    unique = () if compiler.is_clang else ("-fno-gnu-unique",)
    return (
        "-std=c++17",
        f"-O{options.opt_level}",
        *march_flags(target.arch),
        "-shared",
        "-fPIC",
        "-fopenmp",
        "-fwrapv",
        "-fno-math-errno",
        "-fno-trapping-math",
        "-fvisibility=hidden",
        *unique,
        *debug,
        "-DTILEFOUNDRY_TARGET_CPU",
        "-DTILEFOUNDRY_HOST_ENTRY",
        *range_flags(options.ranges),
        *options.extra_flags,
    )


def _key(source: str, flags: tuple[str, ...], compiler: Compiler, ffi: FfiPaths) -> str:
    parts = (source, *_surroundings(flags, compiler, ffi), headers_digest("cpu"))
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _surroundings(flags: tuple[str, ...], compiler: Compiler, ffi: FfiPaths) -> tuple[str, ...]:
    return (*flags, compiler.path, compiler.version, ffi.version, *compiler_environment())


def _is_kept(options: CompilerOptions, compiler: Compiler) -> bool:
    """Whether a key can hold all that the compiler reads."""
    given = flags_of_environment("clang") if compiler.is_clang else ()
    return file_flag((*options.extra_flags, *given)) is None


def cpu_program_key(program: str, target: CpuTarget, options: CompilerOptions) -> str | None:
    """What the library of a program is known under; ``program`` is the digest of its text, target and options.

    None where the flags may name files.

    Raises:
        ToolchainError: no usable C++ compiler.
    """
    compiler, ffi = find_cxx(), find_ffi()
    if not _is_kept(options, compiler):
        return None
    return program_key(program, _surroundings(compile_flags(target, options, compiler, ffi), compiler, ffi))


def cpu_headers(root: Path, target: CpuTarget, options: CompilerOptions) -> PrecompiledHeaders:
    """The precompiled runtime headers of CPU libraries, in the cache at ``root``."""
    compiler, ffi = find_cxx(), find_ffi()
    own = tuple(f"-I{path}" for path in (*include_dirs(cute=False), ffi.include))
    includes = (*own, *range_includes(options.ranges))
    flags = compile_flags(target, options, compiler, ffi)
    return PrecompiledHeaders(root, compiler, flags, includes, f"{headers_digest('cpu')} {ffi.version}")


def line_paths(options: CompilerOptions, folder: Path, final: Path) -> tuple[str, ...]:
    """The flag that lets line tables speak of the folder that sources will lie in, not of where they are compiled."""
    return (f"-ffile-prefix-map={folder}={final}",) if options.line_info else ()


def _compile(
    source: str, folder: Path, ffi: FfiPaths, headers: PrecompiledHeaders, paths: tuple[str, ...]
) -> None:
    file = folder / SOURCE
    file.write_text(source)
    library = ["-o", str(folder / "library.so"), f"-L{ffi.library}", "-ltvm_ffi", "-ldl"]
    headers.compile([str(file), *paths, *library], folder)
    file.unlink()
