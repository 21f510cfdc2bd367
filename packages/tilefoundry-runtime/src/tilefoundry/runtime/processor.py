"""What the running processor is called where a library's code depends on it."""

from __future__ import annotations

import hashlib
import platform
from functools import cache
from pathlib import Path

__all__ = ["native_arch", "runs_here"]

_V2 = {"cx16", "lahf_lm", "popcnt", "sse4_1", "sse4_2", "ssse3"}
_V3 = {"avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe"}
_V4 = _V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
_LEVELS = {"x86-64": set[str](), "x86-64-v2": _V2, "x86-64-v3": _V3, "x86-64-v4": _V4}


@cache
def native_arch() -> str:
    """A level of x86-64 that this machine has, or ``native.<digest of its features>`` on others. Thread-safe."""
    if not _is_x86():
        return f"native.{_features_digest()}"
    flags = _flags()
    for level in ("x86-64-v4", "x86-64-v3"):
        if flags >= _LEVELS[level]:
            return level
    return "x86-64"


def runs_here(arch: str) -> bool:
    """Whether this machine runs code built for ``arch``; True for a name that says nothing about it. Thread-safe."""
    if arch in _LEVELS:
        return _is_x86() and (arch == "x86-64" or _flags() >= _LEVELS[arch])
    if arch.startswith("native."):
        return arch == native_arch()
    return True


def _is_x86() -> bool:
    return platform.machine().lower() in ("x86_64", "amd64")


def _flags() -> set[str]:
    for line in _cpuinfo():
        if line.startswith("flags"):
            return set(line.partition(":")[2].split())
    return set()


def _cpuinfo() -> list[str]:
    try:
        return Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return [platform.processor()]


def _features_digest() -> str:
    lines = sorted(
        {line for line in _cpuinfo() if line.lower().startswith(("features", "cpu part", "flags"))}
    )
    return hashlib.sha256("\n".join([platform.machine(), *lines]).encode()).hexdigest()[:12]
