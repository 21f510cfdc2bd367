"""NVRTC: the library that torch brings along, through ctypes."""

from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tilefoundry.codegen.cache import Status, noted, status_of
from tilefoundry.codegen.toolchain import ToolchainError, ToolNotFoundError, ToolTooOldError
from tilefoundry.codegen.toolchain.wheels import wheel_folders

__all__ = ["FINDERS", "Nvrtc", "find_nvrtc"]

_OLDEST = (12, 0)
_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Nvrtc:
    """An NVRTC that opens. Compilations may run in several threads at once; the calls release the interpreter lock.

    Attributes:
        path: the library's file.
        version: (major, minor).
        architectures: the compute capabilities that it compiles for, such as 90.
        origin: how it was found.
    """

    path: str
    version: tuple[int, int]
    architectures: tuple[int, ...]
    origin: str

    @property
    def library(self) -> Any:
        """The open library."""
        return _library(self.path)

    def compile(self, source: str, name: str, flags: Sequence[str]) -> bytes:
        """The cubin of ``source``.

        Raises:
            ToolchainError: the compiler refuses the source; the message shows its output.
        """
        program = ctypes.c_void_p()
        self._check(
            self.library.nvrtcCreateProgram(
                ctypes.byref(program), source.encode(), name.encode(), 0, None, None
            ),
            "nvrtcCreateProgram",
        )
        try:
            options = (ctypes.c_char_p * len(flags))(*(flag.encode() for flag in flags))
            code = self.library.nvrtcCompileProgram(program, len(flags), options)
            if code:
                raise ToolchainError(
                    f"NVRTC refuses generated code ({self._text(code)}):\n{self._log(program)}"
                )
            return self._cubin(program)
        finally:
            self.library.nvrtcDestroyProgram(ctypes.byref(program))

    def _cubin(self, program: ctypes.c_void_p) -> bytes:
        size = ctypes.c_size_t()
        self._check(self.library.nvrtcGetCUBINSize(program, ctypes.byref(size)), "nvrtcGetCUBINSize")
        data = ctypes.create_string_buffer(size.value)
        self._check(self.library.nvrtcGetCUBIN(program, data), "nvrtcGetCUBIN")
        return data.raw

    def _log(self, program: ctypes.c_void_p) -> str:
        size = ctypes.c_size_t()
        self.library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        data = ctypes.create_string_buffer(size.value)
        self.library.nvrtcGetProgramLog(program, data)
        lines = data.value.decode(errors="replace").strip().splitlines()
        return "\n".join(lines[:_SHOWN]) + ("\n..." if len(lines) > _SHOWN else "")

    def _check(self, code: int, what: str) -> None:
        if code:
            raise ToolchainError(f"{what} of {self.path} failed: {self._text(code)}")

    def _text(self, code: int) -> str:
        return self.library.nvrtcGetErrorString(code).decode()


def _from_environment() -> Iterator[tuple[Path, str]]:
    given = os.environ.get("TILEFOUNDRY_NVRTC")
    if given:
        if not Path(given).is_file():
            raise ToolNotFoundError(f"TILEFOUNDRY_NVRTC={given}: no such file; unset it, or name libnvrtc.so")
        yield Path(given), "the environment variable TILEFOUNDRY_NVRTC"


def _from_wheels() -> Iterator[tuple[Path, str]]:
    for root in wheel_folders():
        for folder in (root / "cuda_nvrtc" / "lib", root / "cu13" / "lib"):
            for file in sorted(folder.glob("libnvrtc.so.*")):
                yield file, "the NVRTC wheel"


def _from_system() -> Iterator[tuple[Path, str]]:
    homes = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
    for home in filter(None, homes):
        for folder in ("lib64", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib"):
            for file in sorted((Path(home) / folder).glob("libnvrtc.so.*"))[:1]:
                yield file, f"the toolkit in {home}"


FINDERS: tuple[Callable[[], Iterator[tuple[Path, str]]], ...] = (
    _from_environment,
    _from_wheels,
    _from_system,
)
"""Tried in order; the first library that opens is taken."""


@cache
def find_nvrtc() -> Nvrtc:
    """NVRTC of this environment.

    Raises:
        ToolNotFoundError: there is none, or none opens.
        ToolTooOldError: all that open are too old.
    """
    problems: list[str] = []
    old: list[str] = []
    for finder in FINDERS:
        for file, origin in finder():
            try:
                return _opened(file, origin)
            except OSError as error:
                problems.append(f"{file}: {error}")
            except ToolTooOldError as error:
                old.append(str(error))
    if old:
        raise ToolTooOldError(old[0])
    tried = "; ".join(problems) or "no library in the environment, the wheels or /usr/local/cuda"
    raise ToolNotFoundError(
        f"NVRTC was not found ({tried}); install it with: pip install 'tilefoundry-cuda[cu12]' (or [cu13])"
    )


def _opened(file: Path, origin: str) -> Nvrtc:
    version, architectures = _facts(file)
    if version < _OLDEST:
        raise ToolTooOldError(
            f"{file} is NVRTC {version[0]}.{version[1]}; {_OLDEST[0]}.{_OLDEST[1]} or later is needed: "
            "install a newer one with: pip install 'tilefoundry-cuda[cu12]'"
        )
    return Nvrtc(str(file), version, architectures, origin)


def _facts(file: Path) -> tuple[tuple[int, int], tuple[int, ...]]:
    """Version and architectures; opening the library, which is large, tells them once per file."""

    def status() -> Status:
        return status_of([file])

    numbers = json.loads(noted("facts of an NVRTC", status(), status, lambda: json.dumps(_asked(file))))
    return (numbers[0], numbers[1]), tuple(numbers[2:])


def _asked(file: Path) -> list[int]:
    library = _library(str(file))
    major, minor, count = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    library.nvrtcGetNumSupportedArchs(ctypes.byref(count))
    numbers = (ctypes.c_int * count.value)()
    library.nvrtcGetSupportedArchs(numbers)
    return [major.value, minor.value, *numbers]


@cache
def _library(path: str) -> Any:
    library = ctypes.CDLL(path)
    library.nvrtcGetErrorString.restype = ctypes.c_char_p
    return library
