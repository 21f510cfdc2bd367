"""Launches that fail, and what else the driver refuses, are raised. Oracle: the driver's own name of the error."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from tilefoundry import func, jit
from tilefoundry.dsl import DimVar, Mesh, Tensor, Topology, tf

pytestmark = pytest.mark.gpu

B = DimVar("B", 1, 2**31 + 2)


@func
def scaled(x: Tensor[(16, 12), "f32"], w: Tensor[(12,), "f32"]) -> Tensor[(16, 12), "f32"]:
    return x * w + 1.0


@func(topologies=(Topology("cta", B), Topology("thread", 32)))
def block_per_row(x: Tensor[(B, 2), "i8"]) -> Tensor[(B, 1), "i8"]:
    with Mesh(("cta", "thread"), (B, 32), ("b", "t")) as m:  # noqa: F841  # its name is all that is needed
        y = tf.reduce(x, axes=(1,), keepdim=True, kind="max")
    return y


@pytest.mark.spec("launch.errors")
def test_a_launch_that_the_driver_refuses_is_raised():
    """A capture that something else broke refuses every later launch; the next call after it is served again."""
    compiled = jit(scaled, target="cuda")
    x, w = torch.randn(16, 12, device="cuda"), torch.randn(12, device="cuda")
    out = torch.zeros_like(x)
    compiled(x, w, out)
    torch.cuda.synchronize()
    out.zero_()
    with pytest.raises(RuntimeError), torch.cuda.graph(torch.cuda.CUDAGraph()):
        with pytest.raises(RuntimeError):
            torch.cuda.synchronize()  # not allowed while capturing: breaks the capture
        with pytest.raises(RuntimeError, match=r"scaled.* failed: CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"):
            compiled(x, w, out)
    torch.cuda.synchronize()
    assert not out.any()
    torch.testing.assert_close(compiled(x, w, out), x * w + 1.0)


AFTER_A_FAULT = """
import torch
from tilefoundry import func, jit
from tilefoundry.dsl import Tensor

@func
def scaled(x: Tensor[(16, 12), "f32"], w: Tensor[(12,), "f32"]) -> Tensor[(16, 12), "f32"]:
    return x * w + 1.0

x, w = torch.randn(16, 12, device="cuda"), torch.randn(12, device="cuda")
out, compiled = torch.empty_like(x), jit(scaled, target="cuda")
compiled(x, w, out)
torch.cuda._sleep(1000)
torch.zeros(4, device="cuda")[torch.tensor([99], device="cuda")]
try:
    torch.cuda.synchronize()
except RuntimeError:
    pass
try:
    compiled(x, w, out)
except RuntimeError as error:
    print("raised", type(error).__name__, error)
else:
    print("went through")
"""


@pytest.mark.spec("launch.errors")
def test_a_device_that_a_fault_has_stopped_is_reported_by_the_next_call(tmp_path):
    """In a process of its own, whose device another kernel's assertion stops."""
    script = tmp_path / "fault.py"
    script.write_text(AFTER_A_FAULT)
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=False, timeout=300
    )
    assert "raised RuntimeError scaled" in done.stdout, done.stdout + done.stderr[-3000:]
    assert "failed: CUDA_ERROR_ASSERT" in done.stdout


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
