"""``tilefoundry cache``: show the compiled libraries on disk, prune or clear them, precompile headers."""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

from tilefoundry.codegen.cache import DiskCache
from tilefoundry.codegen.cache.place import configured_directory
from tilefoundry.codegen.commands.warming import warmed
from tilefoundry.codegen.toolchain import clear_precompiled
from tilefoundry.codegen.toolchain.precompiled import VARIABLE as PRECOMPILED

__all__ = ["configure", "help", "run"]

help = "show, prune or clear the compiled libraries on disk, or precompile the headers"


def configure(parser: argparse.ArgumentParser) -> None:
    """One optional action, and what it is for."""
    parser.description = (
        "Show the compiled libraries on disk, the last used first; prune to the limit, clear, or warm: precompile "
        "the headers of both targets."
    )
    parser.add_argument("action", nargs="?", choices=("show", "prune", "clear", "warm"), default="show")
    parser.add_argument(
        "--gpu", help="warm: the chip that device headers are for; by default the GPU that is here"
    )


def run(args: argparse.Namespace) -> int:
    """Do the action."""
    cache = DiskCache(configured_directory())
    if args.action == "clear":
        headers = _counted(clear_precompiled(cache.root), "precompiled header")
        print(f"removed {_libraries(cache.clear())} and {headers} from {cache.root}")
    elif args.action == "warm":
        return _warm(cache, args.gpu)
    elif args.action == "prune":
        print(f"removed {_libraries(cache.prune())} from {cache.root}, limit {_size(cache.limit)}")
    else:
        _show(cache)
    return 0


def _warm(cache: DiskCache, gpu: str | None) -> int:
    """Precompile headers; 1 where not one could be."""
    if os.environ.get(PRECOMPILED, "1") == "0":
        print(f"precompiled headers are turned off by {PRECOMPILED}=0")
        return 0
    made = 0
    for name, found in warmed(cache.root, gpu):
        if isinstance(found, Path):
            made += 1
            found = f"{found}: {_size(found.stat().st_size)}"
        print(f"{name}: {found}", flush=True)
    return 0 if made else 1


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
