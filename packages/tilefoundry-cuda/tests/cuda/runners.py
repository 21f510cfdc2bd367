"""Ways to compute the programs of the CPU tests with the CUDA target."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from tilefoundry import CompilerOptions, jit, lower
from tilefoundry.codegen.cuda import BACKEND
from tilefoundry.codegen.cuda.link import compile_images, device_tool
from tilefoundry.ir.core.module import Module
from tilefoundry.target import CudaTarget

from ..cpu.harness import RUNNER


@contextmanager
def computing_with(
    runner: Callable[[Module, Sequence[torch.Tensor], CompilerOptions], Any],
) -> Iterator[None]:
    """``compare`` uses ``runner`` inside."""
    RUNNER.append(runner)
    try:
        yield
    finally:
        RUNNER.pop()


def run_on_gpu(
    module: Module, tensors: Sequence[torch.Tensor], options: CompilerOptions
) -> list[torch.Tensor]:
    """The outputs, compiled for the current GPU and run there."""
    outputs = jit(module, target="cuda")(*(tensor.cuda() for tensor in tensors))
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    return [output.cpu() for output in outputs]


def compile_for(arch: str) -> Callable[[Module, Sequence[torch.Tensor], CompilerOptions], None]:
    """Device code of the program is compiled for ``arch``; nothing runs."""

    def runner(module: Module, tensors: Sequence[torch.Tensor], options: CompilerOptions) -> None:
        compile_device_code(module, arch)

    return runner


def compile_device_code(program: Any, arch: str) -> int:
    """Compile a program's device code for ``arch`` and give the number of images."""
    target, options = CudaTarget(arch), CompilerOptions()
    linkable = BACKEND.emit(lower(program, target=target, options=options), target, options)
    with tempfile.TemporaryDirectory() as folder:
        compile_images(linkable.parts, Path(folder), device_tool(arch, options))
        cubins = list(Path(folder).glob("*.cubin"))
        assert all(cubin.read_bytes()[:4] == b"\x7fELF" for cubin in cubins)
        return len(cubins)
