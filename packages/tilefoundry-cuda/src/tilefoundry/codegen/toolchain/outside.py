"""What compilers read besides what they are given: named by flags, or by the environment.

A library's key holds flags and these variables as they are spelled, and of folders where headers are looked for what
lies in them. It cannot hold the files behind flags such as
``-include my.h``: what those read, and what that reads in turn, only the compiler knows. So a library that such flags
had a part in is compiled anew each time. Flags that are known to name no file are listed here; any other counts as one
that may.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from tilefoundry.codegen.cache import status_of

__all__ = ["compiler_environment", "file_flag", "flags_of_environment"]

VARIABLES = (
    "CPATH",
    "C_INCLUDE_PATH",
    "CPLUS_INCLUDE_PATH",
    "LIBRARY_PATH",
    "LD_RUN_PATH",
    "COMPILER_PATH",
    "GCC_EXEC_PREFIX",
    "CCC_OVERRIDE_OPTIONS",
    "NVCC_PREPEND_FLAGS",
    "NVCC_APPEND_FLAGS",
    "NVCC_CCBIN",
    "SDKROOT",
)
"""Variables by which GCC, Clang and nvcc find files, or take flags that nobody passed."""

_HEADERS = ("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH")
"""Those that name folders with headers, which may stand in the way of the system's."""

_FLAG_VARIABLES = {"nvcc": ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS"), "clang": ("CCC_OVERRIDE_OPTIONS",)}

_WORD = r"[\w.+-]*"
_HARMLESS = re.compile(
    "|".join(
        (
            r"-[DU].+",
            r"-[OgG]\w*",
            r"-g(gdb|dwarf|split|no|strict|z)[\w=-]*",
            r"-(w|v|pthread|pedantic|pedantic-errors|ansi|lineinfo|rdynamic|s)",
            rf"-W(?![lap],)[\w+-]*(={_WORD})?",
            r"-std=[\w+]+",
            rf"-m[\w.-]+(={_WORD})?",
            rf"-f(?!plugin|profile|auto-profile|branch-prob|module|pch|use-ld|dump|lto)[\w-]+(={_WORD})?",
            rf"--?(use_fast_math|fmad|ftz|prec-div|prec-sqrt|maxrregcount|extra-device-vectorization|restrict)(={_WORD})?",
            rf"--?(device-debug|generate-line-info|extended-lambda|expt-[\w-]+|split-compile|threads|std)(={_WORD})?",
            r"--?diag-(suppress|warn|error)=[\w,]+",
            r"--?(ptxas-options|Xptxas)=[\w=,.-]+",
            r"--define-macro=.+|--undefine-macro=.+",
        )
    )
)
"""Flags that change what is made of the text and read nothing."""


def compiler_environment() -> tuple[str, ...]:
    """The variables above that are set, as ``NAME=value``, and what lies in folders of headers: part of every key."""
    given = {name: value for name in VARIABLES if (value := os.environ.get(name))}
    lying = (f"files of {name}={_status(given[name])}" for name in _HEADERS if name in given)
    return (*(f"{name}={value}" for name, value in given.items()), *lying)


def _status(folders: str) -> str:
    """Tells apart what lies in and below ``folders``."""
    # Compilers run in a folder of the cache's own, in which relative names lead nowhere.
    named = filter(os.path.isabs, folders.split(os.pathsep))
    return status_of(file for folder in named for file in _files(folder)).digest


def _files(folder: str) -> Iterator[Path]:
    for root, below, names in os.walk(folder):
        below.sort()
        # A link that leads nowhere is no header.
        yield from (file for name in sorted(names) if (file := Path(root, name)).exists())


def flags_of_environment(compiler: str) -> tuple[str, ...]:
    """Flags that ``compiler``, ``"nvcc"`` or ``"clang"``, takes from its environment; none for others."""
    texts = (os.environ.get(name, "") for name in _FLAG_VARIABLES.get(compiler, ()))
    return tuple(flag for text in texts for flag in _words(text))


def file_flag(flags: Sequence[str]) -> str | None:
    """The first of ``flags`` that may have a compiler read a file, or None."""
    return next((flag for flag in flags if not _HARMLESS.fullmatch(flag)), None)


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        # An open quote: the compiler decides what it means, so nothing is known of it.
        return [text]
