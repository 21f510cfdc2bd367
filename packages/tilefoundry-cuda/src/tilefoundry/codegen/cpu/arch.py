"""What the running processor is called where it matters to generated code."""

from __future__ import annotations

import hashlib
import platform
from functools import cache
from pathlib import Path

__all__ = ["march_flags", "native_arch"]

_V3 = {"avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe"}
_V4 = _V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}


@cache
def native_arch() -> str:
    """A level of x86-64 that this machine has, or ``native.<digest of its features>`` on others."""
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return f"native.{_features_digest()}"
    flags = _flags()
    if flags >= _V4:
        return "x86-64-v4"
    if flags >= _V3:
        return "x86-64-v3"
    return "x86-64"


def march_flags(arch: str) -> tuple[str, ...]:
    """Compiler flags for ``arch``."""
    if arch.startswith("native."):
        return ("-mcpu=native",) if platform.machine().lower() in ("aarch64", "arm64") else ()
    return (f"-march={arch}", *(("-mprefer-vector-width=512",) if arch == "x86-64-v4" else ()))


def _flags() -> set[str]:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return set()
    for line in text.splitlines():
        if line.startswith("flags"):
            return set(line.partition(":")[2].split())
    return set()


def _features_digest() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        text = platform.processor()
    lines = sorted(
        {line for line in text.splitlines() if line.lower().startswith(("features", "cpu part", "flags"))}
    )
    return hashlib.sha256("\n".join([platform.machine(), *lines]).encode()).hexdigest()[:12]
