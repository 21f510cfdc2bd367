"""Run ``prepare`` in child processes that die at the n-th file operation; print what each left behind.

Usage: ``python kill_points.py FOLDER (old|fresh) (exchange|files)``. One JSON line per kill point; the last child
survives. With ``files`` the file system is one that cannot exchange two folders.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from prepare_program import Small, small_raw

from tilefoundry.ir.core import publish
from tilefoundry.runtime import SafetensorsResource

OLD, NEW = 1.0, 2.0


class Killer:
    """Counts file operations and kills the process around the chosen one.

    Operation ``2n`` means before the n-th, ``2n + 1`` after it; a write dies with half of its bytes written.
    """

    def __init__(self, point: int) -> None:
        self.point, self.count = point, 0

    def wrap(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def operation(*args: Any, **kwargs: Any) -> Any:
            n, self.count = self.count, self.count + 1
            if self.point == 2 * n:
                if name == "write":
                    real(args[0], memoryview(args[1])[: len(args[1]) // 2])
                os.kill(os.getpid(), signal.SIGKILL)
            try:
                return real(*args, **kwargs)
            finally:
                if self.point == 2 * n + 1:
                    os.kill(os.getpid(), signal.SIGKILL)

        return operation


def child(folder: Path, point: int) -> None:
    killer = Killer(point)
    for name in ("write", "fsync", "rename", "open", "unlink", "rmdir", "mkdir", "chmod"):
        setattr(os, name, killer.wrap(name, getattr(os, name)))
    publish._exchange = killer.wrap("exchange", publish._exchange)
    Small.prepare(small_raw(NEW), str(folder / "out"))
    os._exit(0)


def state(folder: Path) -> str:
    """``absent``, ``old``, ``new`` or what is wrong."""
    out = folder / "out"
    if not out.exists():
        return "absent"
    try:
        reading = Small.load(SafetensorsResource(str(out), device="cpu"))
    except Exception as error:
        return f"broken: {error}"
    for name, value in (("old", OLD), ("new", NEW)):
        weight = torch.full((4, 4), value)
        weight[3, 0] = -value
        layers = [reading.layer0, reading.layer1]
        if all(torch.equal(layer.constants["w"], weight) for layer in layers):
            return (
                name
                if all(torch.equal(layer.constants["g"], torch.full((4,), value)) for layer in layers)
                else "mixed"
            )
    return "neither"


def main(folder: Path, with_old: bool, exchanges: bool) -> None:
    torch.set_num_threads(1)
    if not exchanges:
        publish._exchange = lambda first, second: False
    for point in range(10_000):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        if with_old:
            Small.prepare(small_raw(OLD), str(folder / "out"))
        process = os.fork()
        if process == 0:
            child(folder, point)
        _, status = os.waitpid(process, 0)
        found = state(folder)
        # A later run must work whatever the killed one left.
        Small.prepare(small_raw(NEW), str(folder / "out"))
        print(json.dumps([point, os.WIFSIGNALED(status), found, state(folder)]), flush=True)
        if not os.WIFSIGNALED(status):
            assert os.WEXITSTATUS(status) == 0
            return


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2] == "old", sys.argv[3] == "exchange")
