"""The C++ compiler: environment first, then the usual names on the path."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tilefoundry.codegen.cache import Status, noted, status_of
from tilefoundry.codegen.toolchain.errors import ToolchainError, ToolNotFoundError, ToolTooOldError

__all__ = ["FINDERS", "Compiler", "find_cxx"]

_OLDEST = (9, 0)


@dataclass(frozen=True, slots=True)
class Compiler:
    """A C++ compiler.

    Attributes:
        path: the executable.
        version: what it says of itself, one line; part of every cache key.
        origin: how it was found.
    """

    path: str
    version: str
    origin: str

    @property
    def is_clang(self) -> bool:
        """True for clang, whose flags differ in places."""
        return "clang" in self.version.lower()


def _from_environment() -> tuple[str, str] | None:
    given = os.environ.get("CXX")
    if not given:
        return None
    found = shutil.which(given)
    if found is None:
        raise ToolNotFoundError(f"CXX={given}: no such executable; unset CXX, or set it to a C++17 compiler")
    return found, "the environment variable CXX"


def _from_path(name: str) -> Callable[[], tuple[str, str] | None]:
    def find() -> tuple[str, str] | None:
        found = shutil.which(name)
        return None if found is None else (found, f"{name} on PATH")

    return find


FINDERS: tuple[Callable[[], tuple[str, str] | None], ...] = (
    _from_environment,
    _from_path("g++"),
    _from_path("c++"),
    _from_path("clang++"),
)
"""Tried in order; the first hit is taken."""


def find_cxx() -> Compiler:
    """The C++ compiler to use.

    Raises:
        ToolNotFoundError: there is none.
        ToolTooOldError: it is too old for C++17.
        ToolchainError: it does not run.
    """
    for finder in FINDERS:
        found = finder()
        if found is not None:
            path, origin = found
            compiler = Compiler(path, _version(path, _stamp(path)), origin)
            _check_age(compiler)
            return compiler
    raise ToolNotFoundError(
        "no C++ compiler: looked for $CXX, then g++, c++ and clang++ on PATH; "
        "install one (Debian, Ubuntu: apt-get install g++; Fedora: dnf install gcc-c++)"
    )


def _stamp(path: str) -> tuple[int, int]:
    """Changes when the file behind ``path`` does, so that an upgrade is seen."""
    status = os.stat(path)
    return status.st_mtime_ns, status.st_size


@cache
def _version(path: str, stamp: tuple[int, int]) -> str:
    """What the compiler says of itself; asked once per executable, unless a script stands for it."""
    program = Path(path).resolve()
    if not _is_compiler(program):
        return _asked(path)

    def status() -> Status:
        return status_of([program])

    return noted(f"version of {path}", status(), status, lambda: _asked(path))


def _is_compiler(program: Path) -> bool:
    """Whether the file itself is one: scripts and launchers run others, which may change while they stay."""
    with open(program, "rb") as file:
        return file.read(4) == b"\x7fELF" and re.search(r"g\+\+|clang|c\+\+", program.name) is not None


def _asked(path: str) -> str:
    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise ToolchainError(
            f"{path} --version failed: {error}; set CXX to a working C++17 compiler"
        ) from error
    return done.stdout.splitlines()[0] if done.stdout else "unknown"


def _check_age(compiler: Compiler) -> None:
    found = re.search(r"(\d+)\.(\d+)", compiler.version)
    if found and (int(found[1]), int(found[2])) < _OLDEST and not compiler.is_clang:
        raise ToolTooOldError(
            f"{compiler.path} is {compiler.version}; version {_OLDEST[0]} or later is needed: "
            "install a newer g++ or set CXX"
        )
