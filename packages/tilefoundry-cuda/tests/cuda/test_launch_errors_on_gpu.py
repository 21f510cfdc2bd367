"""Launches that fail, and what else the driver refuses, are raised. Oracle: the driver's own name of the error."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tilefoundry import func, jit
from tilefoundry.dsl import DimVar, Mesh, Tensor, Topology, tf

pytestmark = pytest.mark.gpu

B = DimVar("B", 1, 2**31 + 2)


@func(topologies=(Topology("cta", B), Topology("thread", 32)))
def block_per_row(x: Tensor[(B, 2), "i8"]) -> Tensor[(B, 1), "i8"]:
    with Mesh(("cta", "thread"), (B, 32), ("b", "t")) as m:  # noqa: F841  # its name is all that is needed
        y = tf.reduce(x, axes=(1,), keepdim=True, kind="max")
    return y


HEAD = """
import torch
from tilefoundry import func, jit
from tilefoundry.dsl import Tensor

@func
def scaled(x: Tensor[(16, 12), "f32"], w: Tensor[(12,), "f32"]) -> Tensor[(16, 12), "f32"]:
    return x * w + 1.0

x, w = torch.randn(16, 12, device="cuda"), torch.randn(12, device="cuda")
out, compiled = torch.empty_like(x), jit(scaled, target="cuda")
compiled(x, w, out)
torch.cuda.synchronize()
out.zero_()

def failing(call):
    try:
        call()
    except RuntimeError as error:
        return f"{type(error).__name__}: {error}"
    return "nothing was raised"
"""
IN_A_BROKEN_CAPTURE = """
stream = torch.cuda.Stream()
with torch.cuda.stream(stream):
    graph = torch.cuda.CUDAGraph()
    graph.capture_begin()
    assert failing(torch.cuda.synchronize).startswith(("RuntimeError", "AcceleratorError"))  # breaks the capture
    print(failing(lambda: compiled(x, w, out)))
    failing(graph.capture_end)
torch.cuda.synchronize()
assert not out.any()
compiled(x, w, out)
torch.testing.assert_close(out, x * w + 1.0)
print("served again")
"""
AFTER_A_FAULT = """
torch.zeros(4, device="cuda")[torch.tensor([99], device="cuda")]
assert failing(torch.cuda.synchronize) != "nothing was raised"
print(failing(lambda: compiled(x, w, out)), flush=True)
import os
os._exit(0)  # torch's own end would meet the fault again
"""


def said_by(folder: Path, script: str) -> list[str]:
    """What a process of its own prints: it leaves a device or a generator of torch in no state for others."""
    file = folder / "calls.py"  # programs are read from files
    file.write_text(HEAD + script)
    done = subprocess.run(
        [sys.executable, str(file)], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    return done.stdout.splitlines()


@pytest.mark.spec("launch.errors")
def test_a_launch_that_the_driver_refuses_is_raised(tmp_path):
    """A capture that something else broke refuses every later launch; the call after it is served again."""
    error, last = said_by(tmp_path, IN_A_BROKEN_CAPTURE)
    assert re.match(r"RuntimeError: scaled.* failed: CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", error)
    assert last == "served again"


@pytest.mark.spec("launch.errors")
def test_a_device_that_a_fault_has_stopped_is_reported_by_the_next_call(tmp_path):
    """Another kernel's assertion stops the device."""
    (error,) = said_by(tmp_path, AFTER_A_FAULT)
    assert re.match(r"RuntimeError: scaled.* failed: CUDA_ERROR_ASSERT", error)


@pytest.mark.spec("launch.errors")
def test_more_blocks_than_a_launch_takes_are_refused_with_their_number():
    compiled = jit(block_per_row, target="cuda")
    few = torch.randint(-128, 128, (5, 2), dtype=torch.int8, device="cuda")
    assert torch.equal(compiled(few), few.amax(1, keepdim=True))
    x = torch.zeros(2**31, 2, dtype=torch.int8, device="cuda")
    out = torch.full((2**31, 1), 3, dtype=torch.int8, device="cuda")
    with pytest.raises(ValueError, match=r"block_per_row.* needs 2147483648 blocks.*split the call"):
        compiled(x, out)
    assert out[0].item() == out[-1].item() == 3
