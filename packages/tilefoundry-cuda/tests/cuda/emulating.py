"""Run a program's CUDA kernels on the CPU: the very device and host texts, compiled by g++ over an emulated block.

It checks indices, masks, packs, joins over a block and epilogues. It says nothing about speed, memory ordering,
or the tiers of the runtime that are written in PTX: products run on the SIMT tier.
"""

from __future__ import annotations

import atexit
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch

from tilefoundry import CompilerOptions, lower
from tilefoundry.codegen.cpu.emit.scalars import dtype_name
from tilefoundry.codegen.cuda import BACKEND
from tilefoundry.codegen.cuda.joined import ClusterMeeting
from tilefoundry.codegen.cuda.source.device import symbol_of
from tilefoundry.codegen.cuda.toolchain import find_headers, find_nvrtc
from tilefoundry.codegen.headers import include_dirs
from tilefoundry.codegen.toolchain import find_cxx, find_ffi
from tilefoundry.ir.tir.function import PrimFunction
from tilefoundry.runtime.linking import LinkedModule, load_linked_module
from tilefoundry.target import CudaTarget

HERE = Path(__file__).parent / "emulator" / "include"
ARCH = "sm_90a"


def emulate(program: Any) -> Any:
    """The program as a callable on CPU tensors."""
    target, options = CudaTarget(ARCH), CompilerOptions()
    linkable = BACKEND.emit(lower(program, target=target, options=options), target, options)
    root = Path(tempfile.mkdtemp(prefix="tilefoundry-emulated-"))
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    texts = {f"image{i}": text for i, text in enumerate(linkable.parts.devices)}
    kernels = {f.name: f for f in linkable.functions if f.name in {k.name for k in linkable.parts.kernels}}
    for i, name in enumerate(texts):
        own = [kernels[k.name] for k in linkable.parts.kernels if k.image == i]
        (root / f"{name}.cc").write_text(texts[name] + "".join(_wrapper(kernel) for kernel in own))
    images = "".join(f'extern "C" const char tilefoundry_image_{i}[1] = {{0}};\n' for i in range(len(texts)))
    host = linkable.parts.host.replace("kDLCUDA", "kDLCPU")
    (root / "entry.cc").write_text(host + images + _dispatcher(linkable))
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda name: _object(root, name), ["entry", *texts]))
    library = root / "library.so"
    objects = [str(root / f"{name}.o") for name in ("entry", *texts)]
    _run(
        [
            find_cxx().path,
            "-shared",
            "-o",
            str(library),
            *objects,
            f"-L{find_ffi().library}",
            "-ltvm_ffi",
            "-pthread",
        ]
    )
    return load_linked_module(LinkedModule(str(library), linkable.source, linkable.entry, "cpu"))


def run_emulated(
    module: Any, tensors: Sequence[torch.Tensor], options: CompilerOptions
) -> list[torch.Tensor]:
    """A runner for ``compare``."""
    outputs = emulate(module)(*tensors)
    return list(outputs) if isinstance(outputs, tuple) else [outputs]


def _wrapper(kernel: PrimFunction) -> str:
    """A function that takes a launch's arguments by address."""
    symbol = symbol_of(kernel.name)
    casts = []
    for i, param in enumerate(kernel.params):
        dtype = param.type.dtype  # type: ignore[attr-defined]  # tensors
        scalar = dtype.name == "i64" and param.is_const
        kind = "tilefoundry::index_t" if scalar else f"tilefoundry::{dtype_name(dtype)}*"
        casts.append(f"*static_cast<{kind.replace('tilefoundry::bool', 'bool')}*>(a[{i}])")
    meets = "true" if any(isinstance(stmt, ClusterMeeting) for stmt in kernel.body) else "meet"
    return (
        f"\nstatic void body_{symbol}(void** a) {{ tilefoundry::{symbol}({', '.join(casts)}); }}\n"
        f'extern "C" void run_{symbol}(void** a, unsigned grid, unsigned threads, bool meet, std::string* error) {{\n'
        f"  *error = simt::run(body_{symbol}, a, grid, threads, {meets});\n}}\n"
    )


def _dispatcher(linkable: Any) -> str:
    names = [symbol_of(kernel.name) for kernel in linkable.parts.kernels]
    declared = "".join(
        f'extern "C" void run_{n}(void**, unsigned, unsigned, bool, std::string*);\n' for n in names
    )
    cases = "".join(f'  if (name == "{n}") run_{n}(args, grid, threads, meet, &error);\n' for n in names)
    return (
        f"{declared}std::string emulated_launch(const char* symbol, void** args, unsigned grid, "
        "unsigned threads, bool meet) {\n"
        f"  std::string error, name = symbol;\n{cases}  return error;\n}}\n"
    )


def _object(root: Path, name: str) -> None:
    headers = find_headers(find_nvrtc().version[0])
    folders = [HERE, *include_dirs(), *headers.folders, find_ffi().include]
    own = (
        ["-DTILEFOUNDRY_HOST_ENTRY"]
        if name == "entry"
        else ["-include", "simt.h", f"-Dtilefoundry=tilefoundry_{name}"]
    )
    own += ["-Dsimt=simt_" + name]
    command = [
        find_cxx().path,
        "-std=c++17",
        "-O1",
        "-fPIC",
        "-w",
        "-fwrapv",
        "-fno-gnu-unique",
        "-DTILEFOUNDRY_TARGET_CUDA",
    ]
    _run(
        [
            *command,
            *own,
            *(f"-I{folder}" for folder in folders),
            "-c",
            str(root / f"{name}.cc"),
            "-o",
            str(root / f"{name}.o"),
        ]
    )


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    assert done.returncode == 0, "\n".join(
        line for line in done.stderr.splitlines() if "error" in line or "note" in line
    )[:4000]
