"""How the compiler is told the processor; what the processor is called is the runtime's to say."""

from __future__ import annotations

import platform

__all__ = ["march_flags"]


def march_flags(arch: str) -> tuple[str, ...]:
    """Compiler flags for ``arch``, a name that ``native_arch`` of the runtime's linking door gives."""
    if arch.startswith("native."):
        return ("-mcpu=native",) if platform.machine().lower() in ("aarch64", "arm64") else ()
    return (f"-march={arch}", *(("-mprefer-vector-width=512",) if arch == "x86-64-v4" else ()))
