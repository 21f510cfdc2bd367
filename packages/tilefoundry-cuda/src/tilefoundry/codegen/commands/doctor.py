"""``tilefoundry doctor``: what compilation finds on this machine, and one line of remedy for what it does not."""

from __future__ import annotations

import argparse
import ctypes
import os
from collections.abc import Callable
from dataclasses import dataclass

from tilefoundry.codegen.cache.place import VARIABLE, cache_directory, configured_directory
from tilefoundry.codegen.cuda.link import device_tool
from tilefoundry.codegen.cuda.toolchain import find_headers, find_nvrtc
from tilefoundry.codegen.headers import include_dirs
from tilefoundry.codegen.toolchain import find_cxx, find_ffi, find_nvtx
from tilefoundry.runtime.linking import native_arch
from tilefoundry.target import CompilerOptions, CudaTarget

__all__ = ["Finding", "configure", "examine", "help", "run"]

help = "show the compilers, headers and devices that compilation finds"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report: what was looked for, whether it is usable, and what was found or what to do."""

    name: str
    ok: bool
    text: str


def _compiler() -> str:
    compiler = find_cxx()
    return f"{compiler.path} ({compiler.version}), from {compiler.origin}"


def _ffi() -> str:
    ffi = find_ffi()
    return f"apache-tvm-ffi {ffi.version} in {ffi.include}"


def _headers() -> str:
    return str(include_dirs(cute=False)[0])


def _blas() -> str:
    try:
        import scipy_openblas32
    except ImportError:
        raise RuntimeError("scipy_openblas32 is not installed; pip install scipy-openblas32") from None
    return f"scipy-openblas32 in {scipy_openblas32.get_lib_dir()}"


def _cpu() -> str:
    return native_arch()


def _nvrtc() -> str:
    nvrtc = find_nvrtc()
    known = f"sm_{nvrtc.architectures[0]} to sm_{nvrtc.architectures[-1]}"
    return f"{nvrtc.version[0]}.{nvrtc.version[1]} for {known}: {nvrtc.path}, from {nvrtc.origin}"


def _cuda_headers() -> str:
    headers = find_headers(find_nvrtc().version[0])
    return f"CUDA {headers.version[0]}.{headers.version[1]}, from {headers.origin}"


def _cutlass() -> str:
    return str(include_dirs()[1])


def _nvtx() -> str:
    nvtx = find_nvtx()
    return f"{nvtx.folder}, from {nvtx.origin}"


def _driver() -> str:
    """The driver's CUDA version, without a context and without torch."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        raise RuntimeError(
            "libcuda.so.1 does not open; install the NVIDIA driver to run compiled code (compiling needs none)"
        ) from None
    version = ctypes.c_int()
    code = driver.cuDriverGetVersion(ctypes.byref(version))
    if code:
        raise RuntimeError(f"cuDriverGetVersion fails with {code}; reinstall the NVIDIA driver")
    return f"serves CUDA {version.value // 1000}.{version.value % 1000 // 10}"


def _gpu() -> str:
    target = CudaTarget.current()
    device_tool(target.arch, CompilerOptions())  # says where the compiler cannot target it
    return f"{target}, {target.arch}"


def _cache() -> str:
    wanted = configured_directory()
    used = cache_directory()
    if used != wanted:
        raise RuntimeError(f"{wanted} cannot be written; set {VARIABLE} to a writable directory")
    if os.statvfs(used).f_flag & os.ST_NOEXEC:
        raise RuntimeError(
            f"{used} is mounted noexec, so that no library in it can be loaded; set {VARIABLE} to another directory"
        )
    return str(used)


CHECKS: tuple[tuple[str, Callable[[], str], bool], ...] = (
    ("C++ compiler", _compiler, True),
    ("TVM FFI", _ffi, True),
    ("runtime headers", _headers, True),
    ("BLAS", _blas, True),
    ("processor", _cpu, True),
    ("cache directory", _cache, False),
    ("NVRTC", _nvrtc, False),
    ("CUDA headers", _cuda_headers, False),
    ("CUTLASS headers", _cutlass, False),
    ("NVTX headers", _nvtx, False),
    ("NVIDIA driver", _driver, False),
    ("GPU", _gpu, False),
)
"""(name, finder, needed): a finder gives what it found or raises what is wrong and what to do."""


def examine() -> tuple[list[Finding], bool]:
    """Every finding, and whether everything that the CPU target needs is there."""
    findings = []
    usable = True
    for name, finder, needed in CHECKS:
        try:
            findings.append(Finding(name, True, finder()))
        except Exception as error:
            findings.append(Finding(name, False, " ".join(str(error).split())))
            usable = usable and not needed
    return findings, usable


def configure(parser: argparse.ArgumentParser) -> None:
    """No arguments."""
    parser.description = (
        "Show what compilation finds on this machine. Ends 1 where the cpu target cannot work."
    )


def run(args: argparse.Namespace) -> int:
    """Print the report."""
    findings, usable = examine()
    width = max(len(finding.name) for finding in findings)
    for finding in findings:
        print(f"{'ok' if finding.ok else '--':3}{finding.name:{width}}  {finding.text}")
    return 0 if usable else 1
