"""A process that forks after its libraries ran on several threads. Oracle: torch, computed before the fork."""

from __future__ import annotations

import os
import signal
import time

import torch

from tilefoundry import jit
from tilefoundry.ir.types import DimVar

from .harness import Program

N = DimVar("N", 1, 100_000)
PATIENCE = 60


def _status(child: int) -> int:
    """Exit status of ``child``; it is killed, and -9 given, where it does not end."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_forked_child_computes_and_does_not_wait_for_threads_it_lacks():
    p = Program("rows")
    compiled = jit(p.done(p("exp", p.param("x", (N, 512)))), target="cpu")
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        x = torch.randn(2000, 512)
        wanted = compiled(x)
        torch.testing.assert_close(wanted, torch.exp(x))
        child = os.fork()
        if child == 0:
            code = 1
            try:
                code = 0 if compiled(x).numpy().tobytes() == wanted.numpy().tobytes() else 2
            finally:
                os._exit(code)
        assert _status(child) == 0
    finally:
        torch.set_num_threads(threads)
