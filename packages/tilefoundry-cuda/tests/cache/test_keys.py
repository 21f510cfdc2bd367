"""What a cached library is found by. Oracle: two libraries share a key only where nothing differs that they were built
from."""

from __future__ import annotations

import subprocess
import warnings
from dataclasses import replace
from pathlib import Path

import pytest

from tilefoundry import CompilerOptions, compile, func, lower
from tilefoundry.codegen.cache import place
from tilefoundry.codegen.cpu import link as cpu_link
from tilefoundry.codegen.cuda import BACKEND
from tilefoundry.codegen.cuda import link as cuda_link
from tilefoundry.codegen.cuda.link import device_tool
from tilefoundry.codegen.toolchain import Compiler, FfiPaths
from tilefoundry.dsl import Tensor
from tilefoundry.target import CpuTarget, CudaTarget

H200 = CudaTarget("nvidia.h200_sxm")
COMPILER = Compiler("/usr/bin/g++", "12.2", "a test")
FFI = FfiPaths(Path("/include"), Path("/lib"), "0.1.10")
OTHER_COMPILERS = (replace(COMPILER, path="/usr/bin/g++-13"), replace(COMPILER, version="13.1"))


@func
def product(x: Tensor[(8, 8), "f32"], w: Tensor[(8, 8), "f32"]) -> Tensor[(8, 8), "f32"]:
    return x @ w


def _distinct(keys: list[str]) -> bool:
    return len(set(keys)) == len(keys)


@pytest.mark.spec("cache.key")
def test_a_cpu_key_covers_source_flags_compiler_arch_headers_and_ffi(monkeypatch):
    def key(source="a", target=CpuTarget("x86-64"), options=CompilerOptions(), compiler=COMPILER, ffi=FFI):
        flags = cpu_link.compile_flags(target, options, compiler, ffi)
        return cpu_link._key(source, flags, compiler, ffi)

    options = [
        CompilerOptions(opt_level=1),
        CompilerOptions(line_info=True),
        CompilerOptions(extra_flags=("-g",)),
        CompilerOptions(ranges=True),
    ]
    keys = [key(), key("b"), key(target=CpuTarget("x86-64-v3")), key(ffi=replace(FFI, version="0.1.11"))]
    keys += [key(options=one) for one in options] + [key(compiler=one) for one in OTHER_COMPILERS]
    monkeypatch.setattr(cpu_link, "headers_digest", lambda target: "other headers")
    assert _distinct([*keys, key()])


@pytest.mark.spec("cache.key")
def test_a_cuda_key_covers_both_compilers_and_the_architecture(monkeypatch):
    parts = BACKEND.emit(lower(product, target=H200), H200, CompilerOptions()).parts
    tool = device_tool("sm_90a", CompilerOptions())

    def key(source=parts, tool=tool, options=CompilerOptions(), compiler=COMPILER, ffi=FFI):
        return cuda_link._key(source, tool, cuda_link._host_flags(compiler, options), compiler, ffi)

    tools = [
        device_tool("sm_80", CompilerOptions()),
        device_tool("sm_90a", CompilerOptions(line_info=True)),
        device_tool("sm_90a", CompilerOptions(extra_flags=("-G",))),
        device_tool("sm_90a", CompilerOptions(device_compiler="nvcc")),
        replace(tool, version="99.0"),
    ]
    sources = [replace(parts, host=f"{parts.host}\n"), replace(parts, devices=(f"{parts.devices[0]}\n",))]
    keys = [key(), *(key(one) for one in sources), *(key(tool=one) for one in tools)]
    keys += [key(compiler=one) for one in OTHER_COMPILERS]
    keys += [key(ffi=replace(FFI, version="0.1.11")), key(options=CompilerOptions(ranges=True))]
    monkeypatch.setattr(cuda_link, "headers_digest", lambda target: "other headers")
    assert _distinct([*keys, key()])


@pytest.mark.spec("cache.read-only")
@pytest.mark.parametrize("target", ["cpu", H200], ids=str)
def test_a_library_comes_from_a_cache_that_cannot_be_written(target, tmp_path, monkeypatch):
    """Oracle: what is built is built in a private folder, with a warning; here nothing is."""
    monkeypatch.setenv("TILEFOUNDRY_CACHE_DIR", str(tmp_path))
    first = compile(product, target=target)
    monkeypatch.setattr(place, "_why_unwritable", lambda directory: "Read-only file system")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = compile(product, target=target)
    assert again._linked == first._linked and again._linked.library_path.startswith(str(tmp_path))


@pytest.mark.spec("pipeline.libraries")
def test_a_cpu_library_needs_no_blas_and_nothing_of_cuda():
    library = compile(product, target="cpu")._linked.library_path
    shown = subprocess.run(["readelf", "-d", library], capture_output=True, text=True, check=True).stdout
    needed = [line.split("[")[1] for line in shown.splitlines() if "NEEDED" in line]
    assert any(name.startswith("libtvm_ffi") for name in needed)
    assert not any(word in name for name in needed for word in ("blas", "cuda", "torch", "python"))
