"""The headers as a user gets them: built into a wheel, installed into an empty folder, compiled from there.

Needs pip and hatchling's build back end, in an environment made for the purpose; skipped where that cannot be made.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2]
CPP = PACKAGE.parents[1] / "cpp-runtime"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def builder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Python of an environment that has hatchling and pip."""
    folder = tmp_path_factory.mktemp("builder")
    made = subprocess.run([sys.executable, "-m", "venv", str(folder)], capture_output=True, text=True)
    python = folder / "bin" / "python"
    if made.returncode == 0:
        command = [str(python), "-m", "pip", "install", "-q", "hatchling>=1.27"]
        made = subprocess.run(command, capture_output=True, text=True)
    if made.returncode:
        pytest.skip(f"no build environment with hatchling: {made.stderr.strip()[-200:]}")
    return python


def build(python: Path, target: str, source: Path, out: Path) -> Path:
    """Build one target with a fixed clock; the file that came out."""
    out.mkdir()
    command = [str(python), "-m", "hatchling", "build", "-t", target, "-d", str(out)]
    env = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    (built,) = out.iterdir()
    return built


@pytest.fixture(scope="module")
def wheel(builder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from the checkout."""
    return build(builder, "wheel", PACKAGE, tmp_path_factory.mktemp("direct") / "out")


def members(wheel: Path) -> dict[str, str]:
    """Name and digest of every file in a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return {n: hashlib.sha256(archive.read(n)).hexdigest() for n in archive.namelist()}


def test_wheel_from_sdist_is_the_wheel_from_the_checkout(builder: Path, wheel: Path, tmp_path: Path):
    """Same names, same hashes, same bytes; the sdist needs neither network nor checkout."""
    sdist = build(builder, "sdist", PACKAGE, tmp_path / "sdist")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    (source,) = (tmp_path / "unpacked").iterdir()
    again = build(builder, "wheel", source, tmp_path / "again")
    assert members(again) == members(wheel)
    assert again.read_bytes() == wheel.read_bytes()
    left_over = [PACKAGE / "_vendor", PACKAGE / "src" / "tilefoundry" / "codegen" / "_include"]
    assert not any(p.exists() for p in left_over), "a build writes nothing into the tree"


def test_wheel_carries_headers_and_licence(wheel: Path):
    names = set(members(wheel))
    root = "tilefoundry/codegen/_include"
    ours = {
        f"{root}/runtime/{p.relative_to(CPP / 'include').as_posix()}" for p in (CPP / "include").rglob("*.*")
    }
    assert ours <= names
    assert {f"{root}/cutlass/cute/tensor.hpp", f"{root}/cutlass/LICENSE.txt"} <= names
    assert "tilefoundry/__init__.py" not in names


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel's `_include` folder, unpacked into an empty place."""
    site = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    return site / "tilefoundry" / "codegen" / "_include"


CPU_PROGRAM = """
#include <tilefoundry/runtime.h>
#include <cstdio>
using namespace tilefoundry;
int main() {
  float x[6] = {1, 2, 3, 4, 5, 6}, sums[2];
  bf16 y[6];
  ops::unary(ops::relu_op{}, make_view<2>(x, {2, 3}), make_view<2>(y, {2, 3}));
  ops::reduce<ops::sum_op>(make_view<2>(y, {2, 3}), make_view<1>(sums, {2}));
  std::printf("%g %g\\n", sums[0], sums[1]);
}
"""


@pytest.mark.spec("cpp.wheel")
def test_cpu_target_runs_with_gxx_alone(installed: Path, tmp_path: Path):
    """Oracle: 1+2+3 and 4+5+6."""
    if shutil.which("g++") is None:
        pytest.skip("no g++ on PATH")
    (tmp_path / "a.cc").write_text(CPU_PROGRAM)
    command = [
        "g++",
        "-std=c++17",
        "-DTILEFOUNDRY_TARGET_CPU",
        f"-I{installed / 'runtime'}",
        "a.cc",
        "-o",
        "a",
    ]
    subprocess.run(command, cwd=tmp_path, check=True)
    assert subprocess.run(["./a"], cwd=tmp_path, capture_output=True, text=True).stdout == "6 15\n"


@pytest.mark.spec("cpp.wheel")
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_cuda_target_compiles_with_the_extra_alone(installed: Path, arch: str, cuda, nvrtc):
    """NVRTC with the wheel's two folders and CUDA's headers; no other include path."""
    nvrtc.flags = ["-default-device", "-std=c++17"]
    nvrtc.flags += [f"-I{p}" for p in (installed / "runtime", installed / "cutlass", *cuda.includes)]
    source = """
    #include <tilefoundry/runtime.h>
    using namespace tilefoundry;
    extern "C" __global__ void kernel(float* p) {
      auto x = as_gmem(p + 4 * threadIdx.x, cute::Layout<cute::Int<4>>{});
      ops::unary(ops::silu_op{}, x, x);
    }
    """
    built = nvrtc(source, arch, "-DTILEFOUNDRY_TARGET_CUDA")
    assert built.ok, built.log
