"""Headers of the CUDA toolkit: from the wheels of the extras cu12 and cu13, then from an installed toolkit."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tilefoundry.codegen.toolchain import ToolNotFoundError
from tilefoundry.codegen.toolchain.wheels import wheel_folders

__all__ = ["FINDERS", "CudaHeaders", "find_headers"]


@dataclass(frozen=True, slots=True)
class CudaHeaders:
    """A set of folders for ``-I``.

    Attributes:
        folders: in search order.
        version: (major, minor) of the toolkit, from ``cuda.h``.
        origin: how they were found.
    """

    folders: tuple[Path, ...]
    version: tuple[int, int]
    origin: str


def _from_environment() -> Iterator[tuple[tuple[Path, ...], str]]:
    for name in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(name):
            yield _toolkit(Path(os.environ[name])), f"the environment variable {name}"


def _from_wheels_cu12() -> Iterator[tuple[tuple[Path, ...], str]]:
    for root in wheel_folders():
        parts = ("cuda_runtime", "cuda_cccl", "cuda_nvcc")
        yield tuple(root / part / "include" for part in parts), "the wheels of tilefoundry-cuda[cu12]"


def _from_wheels_cu13() -> Iterator[tuple[tuple[Path, ...], str]]:
    for root in wheel_folders():
        include = root / "cu13" / "include"
        yield (include, include / "cccl"), "the wheels of tilefoundry-cuda[cu13]"


def _from_system() -> Iterator[tuple[tuple[Path, ...], str]]:
    yield _toolkit(Path("/usr/local/cuda")), "/usr/local/cuda"


def _toolkit(root: Path) -> tuple[Path, ...]:
    return root / "include", root / "include" / "cccl"


FINDERS: tuple[Callable[[], Iterator[tuple[tuple[Path, ...], str]]], ...] = (
    _from_environment,
    _from_wheels_cu12,
    _from_wheels_cu13,
    _from_system,
)
"""Tried in order; a set counts where ``cuda.h``, the crt headers and ``cuda/std`` are all there."""


def find_headers(major: int) -> CudaHeaders:
    """The headers for a compiler of CUDA ``major``; those of the same major come first.

    Raises:
        ToolNotFoundError: there are none; the message says what each place lacks.
    """
    lacking: list[str] = []
    found: list[CudaHeaders] = []
    for finder in FINDERS:
        for folders, origin in finder():
            missing = _missing(folders)
            if missing:
                lacking.append(f"{origin} ({', '.join(missing)} missing)")
                continue
            have = tuple(folder for folder in folders if folder.is_dir())
            found.append(CudaHeaders(have, _version(have), origin))
    for headers in found:
        if headers.version[0] == major:
            return headers
    if found:
        raise ToolNotFoundError(
            f"NVRTC is of CUDA {major}, but the only headers are of CUDA {found[0].version[0]} "
            f"({found[0].origin}); install tilefoundry-cuda[cu{major}]"
        )
    raise ToolNotFoundError(
        f"no CUDA headers; looked in {'; '.join(lacking) or 'no place'}; "
        f"install them with: pip install 'tilefoundry-cuda[cu{major}]'"
    )


_NEEDED = ("cuda.h", "cuda_fp16.h", "crt/host_defines.h", "cuda/std/cstdint")


def _missing(folders: tuple[Path, ...]) -> list[str]:
    return [name for name in _NEEDED if not any((folder / name).is_file() for folder in folders)]


def _version(folders: tuple[Path, ...]) -> tuple[int, int]:
    """From the one line of ``cuda.h`` that tells it; the rest of that large file is not read."""
    for folder in folders:
        file = folder / "cuda.h"
        if file.is_file():
            with open(file, "rb") as lines:
                for line in lines:
                    if match := re.match(rb"\s*#define\s+CUDA_VERSION\s+(\d+)", line):
                        number = int(match[1])
                        return number // 1000, number % 1000 // 10
    return 0, 0
