"""Compilers for the C++ tests: g++ on the host, NVRTC for device code, both on this checkout's headers.

What they produce is kept in a cache folder keyed by source, flags and headers, so that unchanged tests cost nothing.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tilefoundry.codegen.headers import include_dirs

from .cpu_library import SOURCE, Library

ROOT = Path(__file__).resolve().parents[4]
CPP = ROOT / "cpp-runtime"
WARNINGS = ("-Wall", "-Wextra", "-Werror")


@cache
def headers_digest() -> str:
    """Digest of every header of the runtime."""
    digest = hashlib.sha256()
    for path in sorted((CPP / "include").rglob("*")):
        if path.is_file():
            digest.update(path.as_posix().encode() + path.read_bytes())
    return digest.hexdigest()


def cache_folder() -> Path:
    """Where compiled tests are kept between runs."""
    return Path(tempfile.gettempdir()) / f"tilefoundry-cpp-tests-{os.getuid()}"


@dataclass(frozen=True, slots=True)
class Compiled:
    """A finished compiler run: the output (if it succeeded) and what the compiler said."""

    path: Path
    ok: bool
    log: str


def nvidia_folder(part: str) -> Path | None:
    """`nvidia/<part>` of an installed wheel, or below the folder that TILEFOUNDRY_NVIDIA_ROOT names."""
    spec = importlib.util.find_spec("nvidia")
    roots = [Path(p) for p in (spec.submodule_search_locations or [])] if spec else []
    if extra := os.environ.get("TILEFOUNDRY_NVIDIA_ROOT"):
        roots.append(Path(extra))
    found = (root / part for root in roots if (root / part).is_dir())
    return next(found, None)


@dataclass(frozen=True, slots=True)
class Cuda:
    """CUDA headers and the NVRTC library that belongs to them, if there is one."""

    includes: tuple[Path, ...]
    nvrtc: Path | None


def wheel_cuda() -> Cuda | None:
    """From the wheels of the cu12 extra."""
    parts = [nvidia_folder(f"{p}/include") for p in ("cuda_runtime", "cuda_cccl", "cuda_nvcc")]
    library = nvidia_folder("cuda_nvrtc/lib")
    if library is None or any(p is None for p in parts):
        return None
    return Cuda(tuple(p for p in parts if p is not None), next(library.glob("libnvrtc.so.*")))


def system_cuda() -> Cuda | None:
    """From a CUDA toolkit on this machine."""
    root = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"))
    include, libraries = root / "include", sorted((root / "lib64").glob("libnvrtc.so*"))
    if not (include / "cuda_runtime.h").is_file():
        return None
    cccl = [p for p in [include / "cccl"] if p.is_dir()]
    return Cuda((include, *cccl), libraries[0] if libraries else None)


@pytest.fixture(scope="session")
def cuda() -> Cuda:
    """CUDA headers; the test is skipped where there are none."""
    found = wheel_cuda() or system_cuda()
    if found is None:
        pytest.skip("no CUDA headers: install tilefoundry-cuda[cu12], or set CUDA_HOME to a toolkit")
    return found


def compile_host(source: str, flags: Sequence[str]) -> Compiled:
    """Run g++ on `source`; the result is cached."""
    key = hashlib.sha256("\0".join([source, *flags, headers_digest()]).encode()).hexdigest()[:24]
    folder = cache_folder() / key
    output, log = folder / "out", folder / "log"
    if not log.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "source.cc").write_text(source)
        command = ["g++", "-std=c++17", *flags, "-o", str(output), str(folder / "source.cc")]
        done = subprocess.run(command, capture_output=True, text=True)
        log.write_text(done.stderr)
    return Compiled(output, output.is_file(), log.read_text())


@pytest.fixture(scope="session")
def cpu_gxx():
    """`build(source, *flags)` for the CPU surface: g++ with the runtime's own headers and nothing else."""
    if shutil.which("g++") is None:
        pytest.skip("no g++ on PATH")
    target = ("-DTILEFOUNDRY_TARGET_CPU", *WARNINGS, "-Wno-unknown-pragmas", f"-I{CPP / 'include'}")
    return lambda source, *flags: compile_host(source, [*flags, *target])


@pytest.fixture(scope="module", params=["-O2 -fopenmp", "-O0"])
def cpu(request, cpu_gxx) -> Library:
    """The CPU surface as a library with threads, and without OpenMP."""
    built = cpu_gxx(SOURCE.read_text(), *request.param.split(), "-shared", "-fPIC")
    assert built.ok, built.log
    library = Library(built.path)
    library("tilefoundry_set_num_threads", 2)
    return library


@pytest.fixture(scope="session")
def cuda_gxx(cuda: Cuda):
    """`build(source, *flags)` for the parts of the CUDA surface that a host can compile."""
    if shutil.which("g++") is None:
        pytest.skip("no g++ on PATH")
    runtime, cute = include_dirs()
    system = [flag for path in (cute, *cuda.includes) for flag in ("-isystem", str(path))]
    return lambda source, *flags: compile_host(source, [*flags, *WARNINGS, f"-I{runtime}", *system])


class Nvrtc:
    """The runtime compiler, through its C interface."""

    def __init__(self, cuda: Cuda) -> None:
        self.library = ctypes.CDLL(str(cuda.nvrtc))
        self.flags = ["-default-device", "-std=c++17", "--device-int128"]
        self.flags += [f"-I{path}" for path in (*include_dirs(), *cuda.includes)]

    def __call__(self, source: str, arch: str, *flags: str) -> Compiled:
        """Compile to a cubin for `arch`."""
        options = [*self.flags, f"-arch={arch}", *flags]
        key = hashlib.sha256("\0".join([source, *options, headers_digest()]).encode()).hexdigest()[:24]
        folder = cache_folder() / key
        output, log = folder / "out", folder / "log"
        if not log.is_file():
            folder.mkdir(parents=True, exist_ok=True)
            cubin, text = self.compile(source, options)
            if cubin is not None:
                output.write_bytes(cubin)
            log.write_text(text)
        return Compiled(output, output.is_file(), log.read_text())

    def compile(self, source: str, options: list[str]) -> tuple[bytes | None, str]:
        """Cubin (None when it does not compile) and log."""
        program, size = ctypes.c_void_p(), ctypes.c_size_t()
        call = self.library
        call.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"test.cu", 0, None, None)
        encoded = (ctypes.c_char_p * len(options))(*(o.encode() for o in options))
        status = call.nvrtcCompileProgram(program, len(options), encoded)
        call.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        call.nvrtcGetProgramLog(program, log)
        cubin = None
        if status == 0:
            call.nvrtcGetCUBINSize(program, ctypes.byref(size))
            data = ctypes.create_string_buffer(size.value)
            call.nvrtcGetCUBIN(program, data)
            cubin = data.raw
        call.nvrtcDestroyProgram(ctypes.byref(program))
        return cubin, log.value.decode(errors="replace")


@pytest.fixture(scope="session")
def nvrtc(cuda: Cuda) -> Nvrtc:
    """`compile(source, arch, *flags)` for device code; skipped where the headers come without the library."""
    if cuda.nvrtc is None:
        pytest.skip("no libnvrtc: install tilefoundry-cuda[cu12]")
    return Nvrtc(cuda)
