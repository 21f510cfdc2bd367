"""What images say of their kernels. Oracle: cuobjdump on the same images; sizes stated in the source."""

from __future__ import annotations

import re
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

from tilefoundry import CompilerOptions
from tilefoundry.codegen.cuda.link import device_tool
from tilefoundry.codegen.cuda.toolchain import find_nvrtc, read_image
from tilefoundry.codegen.toolchain import ToolchainError

SOURCE = """
extern "C" __global__ void plain(float* x) { x[0] = 1; }
extern "C" __global__ void spills(float* x, int n) {
  float a[100];
  for (int i = 0; i < 100; i++) a[i] = x[i];
  for (int i = 0; i < n; i++) a[(i * 7) % 100] += a[i % 100];
  for (int i = 0; i < 100; i++) x[i + threadIdx.x] = a[i];
}
__device__ __noinline__ float called(float* x, int n) {
  float a[30];
  for (int i = 0; i < 30; i++) a[i] = x[i];
  return a[n];
}
extern "C" __global__ void calls(float* x, int n) {
  __shared__ float s[40];
  s[threadIdx.x] = called(x, n);
  __syncthreads();
  x[n] = s[n];
}
extern "C" __device__ unsigned char plain_shared_kib[17] = {};
"""


@pytest.fixture(scope="module", params=["sm_80", "sm_90a"])
def cubin(request):
    tool = device_tool(request.param, CompilerOptions())
    return find_nvrtc().compile(SOURCE, "image.cu", (*tool.flags, *tool.includes))


def _cuobjdump() -> str:
    """From PATH, else the one that comes with triton."""
    found = shutil.which("cuobjdump")
    if found is None:
        spec = find_spec("triton")
        assert spec is not None and spec.origin is not None, "neither cuobjdump nor triton is installed"
        found = str(Path(spec.origin).parent / "backends" / "nvidia" / "bin" / "cuobjdump")
    return found


def test_resources_are_those_that_cuobjdump_shows(cubin, tmp_path):
    (tmp_path / "image.cubin").write_bytes(cubin)
    command = [_cuobjdump(), "-res-usage", str(tmp_path / "image.cubin")]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    pattern = r"Function (\w+):\s+REG:(\d+) STACK:(\d+) SHARED:(\d+) LOCAL:(\d+) CONSTANT\[0\]:(\d+)"
    wanted = {m[1]: tuple(map(int, m.groups()[1:])) for m in re.finditer(pattern, shown)}
    assert set(wanted) == {"plain", "spills", "calls"}
    # cuobjdump counts in the KiB that the system keeps from 9.0 on, the driver does not.
    kept = 1024 if "nv.shared.reserved.0" in cubin.decode("latin-1") else 0
    found = read_image(cubin).kernels
    got = {
        name: (
            one.registers,
            one.local_bytes,
            one.shared_bytes + kept * (one.shared_bytes > 0),
            0,
            one.constant_bytes,
        )
        for name, one in found.items()
    }
    assert got == wanted


def test_local_memory_and_objects_have_the_sizes_of_the_source(cubin):
    image = read_image(cubin)
    assert image.kernels["spills"].local_bytes == 400 and image.kernels["plain"].local_bytes == 0
    assert image.kernels["calls"].shared_bytes == 160 and image.kernels["plain"].shared_bytes == 0
    assert image.objects["plain_shared_kib"] == 17


def test_what_is_no_image_is_refused(cubin):
    with pytest.raises(ToolchainError, match="is no 64-bit ELF file for CUDA"):
        read_image(Path("/proc/self/exe").read_bytes())
    for length in (0, 10, 100, len(cubin) // 2):
        with pytest.raises(ToolchainError, match=f"image of {length} bytes"):
            read_image(cubin[:length])
