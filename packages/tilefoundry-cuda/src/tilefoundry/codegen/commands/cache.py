"""``tilefoundry cache``: show the compiled libraries on disk, prune or clear them, precompile headers."""

from __future__ import annotations

import argparse
import time

from tilefoundry.codegen.cache import DiskCache
from tilefoundry.codegen.cache.place import configured_directory
from tilefoundry.codegen.cpu.link import cpu_headers
from tilefoundry.codegen.cuda.link import host_headers
from tilefoundry.codegen.toolchain import clear_precompiled
from tilefoundry.runtime.linking import native_arch
from tilefoundry.target import CompilerOptions, CpuTarget

__all__ = ["configure", "help", "run"]

help = "show, prune or clear the compiled libraries on disk, or precompile the headers"


def configure(parser: argparse.ArgumentParser) -> None:
    """One optional action."""
    parser.description = "Show the compiled libraries on disk, least recently used last."
    parser.add_argument("action", nargs="?", choices=("show", "prune", "clear", "warm"), default="show")


def run(args: argparse.Namespace) -> int:
    """Do the action."""
    cache = DiskCache(configured_directory())
    if args.action == "clear":
        headers = _counted(clear_precompiled(cache.root), "precompiled header")
        print(f"removed {_libraries(cache.clear())} and {headers} from {cache.root}")
    elif args.action == "warm":
        _warm(cache)
    elif args.action == "prune":
        print(f"removed {_libraries(cache.prune())} from {cache.root}, limit {_size(cache.limit)}")
    else:
        _show(cache)
    return 0


def _warm(cache: DiskCache) -> None:
    """Precompile the headers that both targets' host code takes with default options."""
    options = CompilerOptions()
    for headers in (
        cpu_headers(cache.root, CpuTarget(arch=native_arch()), options),
        host_headers(cache.root, options),
    ):
        file = headers.build()
        print(
            "precompiled headers are turned off" if file is None else f"{file}: {_size(file.stat().st_size)}"
        )


def _show(cache: DiskCache) -> None:
    entries = cache.entries()
    total = sum(entry.size for entry in entries)
    print(f"{cache.root}: {_libraries(len(entries))}, {_size(total)} of at most {_size(cache.limit)}")
    for entry in reversed(entries):
        used = time.strftime("%Y-%m-%d %H:%M", time.localtime(entry.used))
        print(f"  {entry.key[:16]}  {_size(entry.size):>9}  last used {used}")


def _libraries(count: int) -> str:
    return _counted(count, "library", "libraries")


def _counted(count: int, one: str, several: str = "") -> str:
    return f"{count} {one if count == 1 else several or one + 's'}"


def _size(count: int) -> str:
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024  # type: ignore[assignment]  # only shown
    return f"{count:.1f} GiB"
