"""From CUDA and C++ source to a shared library, through the disk cache."""

from __future__ import annotations

import hashlib
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tilefoundry.codegen.cache import built_library, facts_of, keep_beside, kept_library
from tilefoundry.codegen.cpu.link import line_paths
from tilefoundry.codegen.cuda.emit import CudaSource
from tilefoundry.codegen.cuda.resources import image_facts, with_facts
from tilefoundry.codegen.cuda.toolchain import DeviceHeaders, find_headers, find_nvcc, find_nvrtc, read_image
from tilefoundry.codegen.headers import headers_digest, include_dirs
from tilefoundry.codegen.linkable import LinkableModule
from tilefoundry.codegen.recall import program_key
from tilefoundry.codegen.toolchain import (
    Compiler,
    FfiPaths,
    GpuNotTargetedError,
    PrecompiledHeaders,
    ToolchainError,
    compiler_environment,
    file_flag,
    find_cxx,
    find_ffi,
    flags_of_environment,
    range_flags,
    range_includes,
)
from tilefoundry.runtime.linking import LinkedModule
from tilefoundry.target import CompilerOptions, CudaTarget

__all__ = [
    "SOURCE",
    "DeviceTool",
    "compile_images",
    "device_headers",
    "cuda_program_key",
    "device_tool",
    "host_headers",
    "link_cuda",
]

_SHOWN = 40
_ENTRY = "entry.cc"
_OBJECT = "entry.o"
SOURCE = "source.txt"
"""The generated texts, where they are kept beside their library."""
_FACTS = "facts 2"
"""Part of every key: which reading of the images lies beside the libraries."""
_INCLUDE = "#include <tilefoundry/runtime.h>\n"


@dataclass(frozen=True, slots=True)
class DeviceTool:
    """What device code is compiled with: part of every cache key.

    Attributes:
        name: ``"nvrtc"`` or ``"nvcc"``.
        version: of the compiler.
        flags: its flags, headers left out.
        includes: folders of headers.
    """

    name: str
    version: str
    flags: tuple[str, ...]
    includes: tuple[str, ...]


def link_cuda(linkable: LinkableModule, source: CudaSource, options: CompilerOptions) -> LinkedModule:
    """The library of a CUDA module; compiled unless an equal one lies in the cache.

    Raises:
        ToolchainError: a missing or too old compiler, an architecture that it does not know, or its refusal.
    """
    target = linkable.target
    assert isinstance(target, CudaTarget)
    compiler, ffi, tool = find_cxx(), find_ffi(), device_tool(target.arch, options)
    flags, kept = _host_flags(compiler, options), _is_kept(options, compiler)

    def build(root: Path, folder: Path, final: Path) -> dict[str, Any]:
        paths = line_paths(options, folder, final)
        headers = replace(host_headers(root, options), allowed=kept)
        return _build(source, folder, tool, headers, ffi, paths)

    if kept:
        library = kept_library(lambda: _key(source, tool, flags, find_cxx(), ffi), build)
    else:
        library = built_library(build)
    if options.keep_sources:
        keep_beside(library, SOURCE, source.text())
    kernels = with_facts(linkable.kernels, facts_of(library))
    return LinkedModule(str(library), linkable.source, linkable.entry, "cuda", target.arch, kernels)


def host_headers(root: Path, options: CompilerOptions) -> PrecompiledHeaders:
    """The precompiled runtime headers of CUDA libraries' host part, in the cache at ``root``."""
    compiler, ffi = find_cxx(), find_ffi()
    own = tuple(f"-I{path}" for path in (*include_dirs(cute=False), ffi.include))
    includes = (*own, *range_includes(options.ranges))
    digest = f"{headers_digest('cuda')} {ffi.version}"
    return PrecompiledHeaders(root, compiler, _host_flags(compiler, options), includes, digest)


def device_tool(arch: str, options: CompilerOptions) -> DeviceTool:
    """The compiler of device code for ``arch``.

    Raises:
        ToolchainError: it is missing, too old, or cannot target ``arch``.
    """
    debug = ("-lineinfo",) if options.line_info else ()
    common = ("-std=c++17", "--diag-suppress=177", *debug, "-DTILEFOUNDRY_TARGET_CUDA")
    if options.device_compiler == "nvcc":
        nvcc = find_nvcc()
        own = tuple(f"-I{path}" for path in include_dirs())
        number = arch.removeprefix("sm_")
        gencode = f"-gencode=arch=compute_{number},code=sm_{number}"
        flags = (f"-O{options.opt_level}", "--expt-relaxed-constexpr", gencode, *common, *options.extra_flags)
        return DeviceTool("nvcc", ".".join(map(str, nvcc.version)), flags, own)
    nvrtc = find_nvrtc()
    number = int("".join(c for c in arch if c.isdigit()))
    if number not in nvrtc.architectures:
        known = ", ".join(f"sm_{n}" for n in nvrtc.architectures)
        raise GpuNotTargetedError(
            f"NVRTC {nvrtc.version[0]}.{nvrtc.version[1]} ({nvrtc.origin}) cannot target {arch}; it knows {known}: "
            "install a newer NVRTC, or compile for one of these"
        )
    headers = find_headers(nvrtc.version[0])
    includes = tuple(f"-I{path}" for path in (*include_dirs(), *headers.folders))
    # NVRTC's own level is its assembler's; 3 is what that takes without being told.
    level = () if options.opt_level == 3 else (f"--ptxas-options=-O{options.opt_level}",)
    flags = ("-default-device", f"-arch={arch}", *common, *level, *options.extra_flags)
    return DeviceTool("nvrtc", f"{nvrtc.version} {nvrtc.path} {headers.version}", flags, includes)


def device_headers(root: Path, tool: DeviceTool, text: str) -> DeviceHeaders:
    """The precompiled runtime headers for device texts that begin as ``text`` does, in the cache at ``root``."""
    prefix = text[: text.index(_INCLUDE) + len(_INCLUDE)]
    return DeviceHeaders(root, find_nvrtc(), (*tool.flags, *tool.includes), prefix, headers_digest("cuda"))


def compile_images(source: CudaSource, folder: Path, tool: DeviceTool, root: Path | None = None) -> None:
    """Write ``image<i>.cubin`` for every device text, several at a time; with precompiled headers where the cache at
    ``root`` holds some."""

    def one(number: int) -> None:
        text, name = source.devices[number], f"image{number}.cu"
        target = folder / f"image{number}.cubin"
        if tool.name == "nvcc":
            (folder / name).write_text(text)
            find_nvcc().compile(folder / name, target, (*tool.flags, *tool.includes))
        else:
            target.write_bytes(_compiled_by_nvrtc(text, name, tool, root))

    with ThreadPoolExecutor(max(len(source.devices), 1)) as pool:
        list(pool.map(one, range(len(source.devices))))


def _compiled_by_nvrtc(text: str, name: str, tool: DeviceTool, root: Path | None) -> bytes:
    headers = None if root is None else device_headers(root, tool, text)
    cubin = None if headers is None else headers.compile(text, name)
    if cubin is not None:
        return cubin
    cubin = find_nvrtc().compile(text, name, (*tool.flags, *tool.includes))
    if headers is not None:
        headers.want()
    return cubin


def _host_flags(compiler: Compiler, options: CompilerOptions) -> tuple[str, ...]:
    debug = ("-g1",) if options.line_info else ()
    unique = () if compiler.is_clang else ("-fno-gnu-unique",)
    return (
        "-std=c++17",
        "-O1",
        "-fPIC",
        "-fwrapv",
        "-fvisibility=hidden",
        *unique,
        *debug,
        "-DTILEFOUNDRY_TARGET_CUDA",
        "-DTILEFOUNDRY_HOST_ENTRY",
        *range_flags(options.ranges),
    )


def _key(
    source: CudaSource, tool: DeviceTool, flags: tuple[str, ...], compiler: Compiler, ffi: FfiPaths
) -> str:
    parts = (*source.devices, source.host, *_surroundings(tool, flags, compiler, ffi), headers_digest("cuda"))
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _surroundings(
    tool: DeviceTool, flags: tuple[str, ...], compiler: Compiler, ffi: FfiPaths
) -> tuple[str, ...]:
    tools = (tool.name, tool.version, *tool.flags, *flags, compiler.path, compiler.version, ffi.version)
    return (*tools, *compiler_environment(), _FACTS)


def _is_kept(options: CompilerOptions, compiler: Compiler) -> bool:
    """Whether a key can hold all that the compilers read."""
    host = flags_of_environment("clang") if compiler.is_clang else ()
    device = (*options.extra_flags, *flags_of_environment(options.device_compiler))
    return file_flag((*host, *device)) is None


def cuda_program_key(program: str, target: CudaTarget, options: CompilerOptions) -> str | None:
    """What the library of a program is known under; ``program`` is the digest of its text, target and options.

    None where the flags may name files.

    Raises:
        ToolchainError: as for ``link_cuda``.
    """
    compiler, ffi, tool = find_cxx(), find_ffi(), device_tool(target.arch, options)
    if not _is_kept(options, compiler):
        return None
    return program_key(program, _surroundings(tool, _host_flags(compiler, options), compiler, ffi))


def _build(
    source: CudaSource,
    folder: Path,
    tool: DeviceTool,
    headers: PrecompiledHeaders,
    ffi: FfiPaths,
    paths: tuple[str, ...],
) -> dict[str, Any]:
    """The host object and the images side by side, then one link that embeds the images; what the images say of
    their kernels."""
    with ThreadPoolExecutor(1) as pool:
        host = pool.submit(_compile_host, source, folder, headers, paths)
        compile_images(source, folder, tool, headers.root if headers.allowed else None)
        host.result()
    images = range(len(source.devices))
    facts = image_facts(read_image((folder / f"image{i}.cubin").read_bytes()) for i in images)
    (folder / "images.s").write_text("".join(_embedding(i) for i in images) + _NO_EXECSTACK)
    library = ["-o", "library.so", f"-L{ffi.library}", "-ltvm_ffi", "-ldl"]
    _run([headers.compiler.path, "-shared", "-fPIC", _OBJECT, "images.s", *library], folder)
    for name in [_OBJECT, _ENTRY, "images.s", *(f"image{i}.cubin" for i in images)]:
        (folder / name).unlink()
    for i in images:
        (folder / f"image{i}.cu").unlink(missing_ok=True)  # nvcc reads a file, NVRTC none
    return facts


def _embedding(i: int) -> str:
    """Assembler text that holds image ``i``; the path is relative, so folders may have any name."""
    symbol = f"tilefoundry_image_{i}"
    label = f".globl {symbol}\n.hidden {symbol}\n{symbol}:\n"
    return f'.section .rodata\n.balign 64\n{label}.incbin "image{i}.cubin"\n.byte 0\n'


_NO_EXECSTACK = '.section .note.GNU-stack,"",%progbits\n'


def _compile_host(
    source: CudaSource, folder: Path, headers: PrecompiledHeaders, paths: tuple[str, ...]
) -> None:
    (folder / _ENTRY).write_text(source.host)
    headers.compile(["-c", _ENTRY, "-o", _OBJECT, *paths], folder)


def _run(command: list[str], folder: Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False, cwd=folder)
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        shown = "\n".join(lines[:_SHOWN]) + ("\n..." if len(lines) > _SHOWN else "")
        raise ToolchainError(f"{command[0]} failed with code {done.returncode} on generated code:\n{shown}")
