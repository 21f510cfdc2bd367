"""The whole op suite once more with the operands on a GPU. Oracle: the same host formulas."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.gpu
def test_every_op_holds_on_cuda():
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-p",
        "no:cacheprovider",
        str(Path(__file__).parent),
    ]
    command += ["-k", "not refusals and not test_cuda"]
    run = subprocess.run(
        command, env={**os.environ, "TILEFOUNDRY_TEST_DEVICE": "cuda"}, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stdout[-4000:]
