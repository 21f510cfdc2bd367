"""``tilefoundry cache warm``: precompile the headers of both targets, as far as their tools are there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from tilefoundry.codegen.cpu.link import cpu_headers
from tilefoundry.codegen.cuda.link import device_headers, device_tool, host_headers
from tilefoundry.codegen.toolchain import ToolchainError
from tilefoundry.runtime.linking import native_arch
from tilefoundry.target import CompilerOptions, CpuTarget, CudaTarget

__all__ = ["FEATURES", "warmed"]

FEATURES = ("", "REDUCE", "MATMUL")
"""What kernels take besides elementwise parts: none, reductions, products. As many headers as the cache keeps."""

_OPTIONS = CompilerOptions()


def warmed(root: Path, gpu: str | None) -> Iterator[tuple[str, Path | str]]:
    """What is precompiled, one by one, and its file, or in words why there is none; for default options.

    Args:
        root: the cache directory.
        gpu: a chip or an architecture that device headers are for; None for the current GPU.

    Raises:
        ValueError: no such chip.
    """
    target = None if gpu is None else CudaTarget(gpu)
    cpu = CpuTarget(arch=native_arch())
    yield "host code of the CPU target", _built(lambda: cpu_headers(root, cpu, _OPTIONS).build(), _OFF)
    yield "host code of CUDA libraries", _built(lambda: host_headers(root, _OPTIONS).build(), _OFF)
    if target is None and (target := _current()) is None:
        yield "device code", "skipped: no GPU is here; name the one that it is for with --gpu nvidia.h200_sxm"
        return
    try:
        tool = device_tool(target.arch, _OPTIONS)
    except (ToolchainError, OSError) as error:
        yield "device code", f"skipped: {error}"
        return
    for feature in FEATURES:
        name = f"device code for {target.arch}, elementwise{f' and {feature.lower()}' if feature else ''}"
        headers = device_headers(root, tool, _prefix(feature))
        yield name, _built(headers.build, _OFF if not headers.enabled else _RANDOM)


_OFF = "skipped: not for this compiler"
_RANDOM = (
    "skipped: this system randomises addresses for every process, so that NVRTC cannot read what it made"
)


def _current() -> CudaTarget | None:
    try:
        return CudaTarget.current()
    except RuntimeError:
        return None


def _built(build: Callable[[], Path | None], otherwise: str) -> Path | str:
    try:
        return build() or otherwise
    except (ToolchainError, OSError) as error:
        return f"skipped: {error}"


def _prefix(feature: str) -> str:
    """How device texts begin whose kernels take this."""
    taken = ("ELEMENTWISE", feature) if feature else ("ELEMENTWISE",)
    defined = "".join(f"#define TILEFOUNDRY_USE_{name}\n" for name in taken)
    return f"{defined}#include <tilefoundry/runtime.h>\n"
