"""nvcc, for those who ask for it instead of NVRTC."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tilefoundry.codegen.toolchain import ToolchainError, ToolNotFoundError, ToolTooOldError

__all__ = ["Nvcc", "find_nvcc"]

_OLDEST = (12, 0)
_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Nvcc:
    """The nvcc executable and its release."""

    path: str
    version: tuple[int, int]

    def compile(self, source: Path, target: Path, flags: Sequence[str]) -> None:
        """Compile ``source`` to the cubin ``target``.

        Raises:
            ToolchainError: nvcc refuses the source; the message shows its output.
        """
        command = [self.path, "-cubin", *flags, "-o", str(target), str(source)]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        if done.returncode:
            lines = (done.stdout + done.stderr).strip().splitlines()
            shown = "\n".join(lines[:_SHOWN])
            raise ToolchainError(
                f"{self.path} failed with code {done.returncode} on generated code:\n{shown}"
            )


@cache
def find_nvcc() -> Nvcc:
    """nvcc from CUDA_HOME, the path, or /usr/local/cuda.

    Raises:
        ToolNotFoundError: there is none.
        ToolTooOldError: it is older than CUDA 12.
        ToolchainError: it does not run.
    """
    homes = [os.environ.get("CUDA_HOME"), "/usr/local/cuda"]
    places = [str(Path(homes[0]) / "bin" / "nvcc") if homes[0] else None, "nvcc", "/usr/local/cuda/bin/nvcc"]
    for place in filter(None, places):
        found = shutil.which(place)
        if found is not None:
            return Nvcc(found, _checked(found, _release(found)))
    raise ToolNotFoundError(
        "nvcc was asked for and is in neither $CUDA_HOME/bin, PATH nor /usr/local/cuda/bin; install the CUDA "
        'toolkit, or leave CompilerOptions(device_compiler="nvrtc")'
    )


def _checked(path: str, release: tuple[int, int]) -> tuple[int, int]:
    if release < _OLDEST:
        raise ToolTooOldError(
            f"{path} is of CUDA {release[0]}.{release[1]}; {_OLDEST[0]}.{_OLDEST[1]} or later is needed: install a "
            'newer toolkit, or leave CompilerOptions(device_compiler="nvrtc")'
        )
    return release


def _release(path: str) -> tuple[int, int]:
    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise ToolchainError(f"{path} --version failed: {error}; install a working CUDA toolkit") from error
    match = re.search(r"release (\d+)\.(\d+)", done.stdout)
    if match is None:
        raise ToolchainError(f"{path} --version names no release: {done.stdout.strip()!r}")
    return int(match[1]), int(match[2])
