"""NVTX's headers, for libraries whose calls and launches a profiler shows by name."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tilefoundry.codegen.toolchain.errors import ToolNotFoundError
from tilefoundry.codegen.toolchain.wheels import wheel_folders

__all__ = ["FINDERS", "NvtxHeaders", "find_nvtx", "range_flags", "range_includes"]

_HEADER = "nvtx3/nvToolsExt.h"


@dataclass(frozen=True, slots=True)
class NvtxHeaders:
    """A folder for ``-I``, and how it was found."""

    folder: Path
    origin: str


def _from_environment() -> Iterator[tuple[Path, str]]:
    for name in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(name):
            yield Path(os.environ[name]) / "include", f"the environment variable {name}"


def _from_wheels() -> Iterator[tuple[Path, str]]:
    for root in wheel_folders():
        yield root / "nvtx" / "include", "the wheel nvidia-nvtx-cu12"
        yield root / "cu13" / "include", "the wheel nvidia-nvtx"


def _from_system() -> Iterator[tuple[Path, str]]:
    yield Path("/usr/local/cuda/include"), "/usr/local/cuda"


FINDERS: tuple[Callable[[], Iterator[tuple[Path, str]]], ...] = (
    _from_environment,
    _from_wheels,
    _from_system,
)
"""Tried in order; a folder counts where the header of NVTX 3 is in it."""


def find_nvtx() -> NvtxHeaders:
    """The headers of NVTX 3.

    Raises:
        ToolNotFoundError: they are in none of the places; the message lists these.
    """
    places = [place for finder in FINDERS for place in finder()]
    for folder, origin in places:
        if (folder / _HEADER).is_file():
            return NvtxHeaders(folder, origin)
    looked = "; ".join(f"{folder} ({origin})" for folder, origin in places) or "no place"
    raise ToolNotFoundError(
        f"CompilerOptions(ranges=True) needs {_HEADER}, which is in none of: {looked}; install it with: "
        "pip install nvidia-nvtx-cu12, or leave ranges out"
    )


def range_flags(wanted: bool) -> tuple[str, ...]:
    """What a unit that pushes ranges is compiled with; empty where none are ``wanted``."""
    return ("-DTILEFOUNDRY_RANGES",) if wanted else ()


def range_includes(wanted: bool) -> tuple[str, ...]:
    """Its folders of headers, in ``find_nvtx``'s words."""
    return (f"-I{find_nvtx().folder}",) if wanted else ()
