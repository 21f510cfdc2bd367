"""``tilefoundry cache``: show the compiled libraries on disk, prune or clear them."""

from __future__ import annotations

import argparse
import time

from tilefoundry.codegen.cache import DiskCache
from tilefoundry.codegen.cache.place import configured_directory

__all__ = ["configure", "help", "run"]

help = "show, prune or clear the compiled libraries on disk"


def configure(parser: argparse.ArgumentParser) -> None:
    """One optional action."""
    parser.description = "Show the compiled libraries on disk, least recently used last."
    parser.add_argument("action", nargs="?", choices=("show", "prune", "clear"), default="show")


def run(args: argparse.Namespace) -> int:
    """Do the action."""
    cache = DiskCache(configured_directory())
    if args.action == "clear":
        print(f"removed {cache.clear()} libraries from {cache.root}")
    elif args.action == "prune":
        print(f"removed {cache.prune()} libraries from {cache.root}, limit {_size(cache.limit)}")
    else:
        _show(cache)
    return 0


def _show(cache: DiskCache) -> None:
    entries = cache.entries()
    total = sum(entry.size for entry in entries)
    print(f"{cache.root}: {len(entries)} libraries, {_size(total)} of at most {_size(cache.limit)}")
    for entry in reversed(entries):
        used = time.strftime("%Y-%m-%d %H:%M", time.localtime(entry.used))
        print(f"  {entry.key[:16]}  {_size(entry.size):>9}  last used {used}")


def _size(count: int) -> str:
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024  # type: ignore[assignment]  # only shown
    return f"{count:.1f} GiB"
