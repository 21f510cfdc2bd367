"""The C++ runtime as its users get it: the tilefoundry-cuda wheel and the cu12 extra's wheels in an empty environment.

No torch, no other wheel of this project, no toolkit on PATH. The wheels of the extra come from the package index;
skipped where that or a build environment cannot be reached. Oracles: a program's output, and the compiler.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "packages" / "tilefoundry-cuda"

pytestmark = pytest.mark.slow

PROBE = r'''
import ctypes, importlib.metadata, subprocess, sys, sysconfig
from pathlib import Path

site = Path(sysconfig.get_path("purelib"))
assert not any((site / name).exists() for name in ("torch", "tvm_ffi", "tilefoundry/ir", "cutlass"))
include = site / "tilefoundry" / "codegen" / "_include"
nvidia = site / "nvidia"
assert {d.metadata["Name"] for d in importlib.metadata.distributions()} >= {"tilefoundry-cuda"}

Path("host.cc").write_text("""
#include <tilefoundry/runtime.h>
#include <cstdio>
using namespace tilefoundry;
int main() {
  float x[6] = {-1, 2, 3, 4, -5, 6}, largest[2];
  bf16 y[6];
  ops::unary(ops::relu_op{}, make_view<2>(x, {2, 3}), make_view<2>(y, {2, 3}));
  ops::reduce<ops::max_op>(make_view<2>(y, {2, 3}), make_view<1>(largest, {2}));
  std::printf("%g %g\\n", largest[0], largest[1]);
}
""")
common = ["g++", "-std=c++17", "-Wall", "-Werror", "-DTILEFOUNDRY_TARGET_CPU", "-Wno-unknown-pragmas"]
subprocess.run([*common, f"-I{include / 'runtime'}", "host.cc", "-o", "host"], check=True)
print("host:", subprocess.run(["./host"], capture_output=True, text=True, check=True).stdout.strip())

device = b"""
#include <tilefoundry/runtime.h>
using namespace tilefoundry;
extern "C" __global__ void kernel(float* p) {
  auto x = as_gmem(p + 4 * threadIdx.x, cute::Layout<cute::Int<4>>{});
  ops::unary(ops::silu_op{}, x, x);
}
"""
nvrtc = ctypes.CDLL(str(next((nvidia / "cuda_nvrtc" / "lib").glob("libnvrtc.so.*"))))
parts = ("cuda_runtime", "cuda_cccl", "cuda_nvcc")
folders = [include / "runtime", include / "cutlass", *(nvidia / part / "include" for part in parts)]
for arch in sys.argv[1:]:
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    assert nvrtc.nvrtcCreateProgram(ctypes.byref(program), device, b"kernel.cu", 0, None, None) == 0
    flags = ["-std=c++17", "-default-device", f"-arch={arch}", "-DTILEFOUNDRY_TARGET_CUDA"]
    flags += [f"-I{folder}" for folder in folders]
    code = nvrtc.nvrtcCompileProgram(program, len(flags), (ctypes.c_char_p * len(flags))(*(f.encode() for f in flags)))
    if code:
        nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        nvrtc.nvrtcGetProgramLog(program, log)
        sys.exit(f"{arch}: {log.value.decode()}")
    assert nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size)) == 0 and size.value > 0
    print(f"{arch}: cubin")
'''


def run(command: list[str], **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, **options)  # type: ignore[call-overload]  # options of run


def environment(folder: Path, *packages: str) -> Path:
    """Python of a fresh environment with ``packages`` and nothing that they depend on."""
    made = run([sys.executable, "-m", "venv", str(folder)])
    python = folder / "bin" / "python"
    if made.returncode == 0 and packages:
        made = run([str(python), "-m", "pip", "install", "-q", "--no-deps", *packages])
    if made.returncode:
        pytest.skip(f"no environment with {', '.join(packages)}: {made.stderr.strip()[-200:]}")
    return python


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """tilefoundry-cuda, built from the checkout as `pip wheel` does."""
    out = tmp_path_factory.mktemp("wheel")
    python = environment(tmp_path_factory.mktemp("pip") / "env")
    built = run([str(python), "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(out), str(PACKAGE)])
    assert built.returncode == 0, built.stderr[-2000:]
    return next(out.glob("tilefoundry_cuda-*.whl"))


def extra_of(wheel: Path, extra: str) -> list[str]:
    """The requirements that the wheel states for an extra."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        lines = archive.read(name).decode().splitlines()
    pattern = re.compile(rf"Requires-Dist: ([^;]+); extra == ['\"]{extra}['\"]")
    return [match[1].strip() for line in lines if (match := pattern.match(line))]


def test_both_targets_compile_from_the_wheel_and_the_extra(wheel: Path, tmp_path: Path):
    """g++ alone for the CPU; NVRTC and headers of the extra's wheels for sm_80 and sm_90a."""
    if shutil.which("g++") is None:
        pytest.skip("no g++ on PATH")
    wanted = extra_of(wheel, "cu12")
    assert len(wanted) == 4
    python = environment(tmp_path / "empty", str(wheel), *wanted)
    (tmp_path / "work").mkdir()
    (tmp_path / "probe.py").write_text(PROBE)
    clean = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "LANG": os.environ.get("LANG", "C.UTF-8")}
    command = [str(python), "-I", str(tmp_path / "probe.py"), "sm_80", "sm_90a"]
    done = run(command, cwd=tmp_path / "work", env=clean)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines() == ["host: 3 6", "sm_80: cubin", "sm_90a: cubin"]
