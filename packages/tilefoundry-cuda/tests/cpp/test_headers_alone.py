"""Every header compiles by itself, warnings as errors: CPU and host-capable ones with g++ (and clang++), device ones
with NVRTC for sm_80 and sm_90a. Feature macros pull in what they name and no more."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

INCLUDE = Path(__file__).resolve().parents[4] / "cpp-runtime" / "include"
CPU = sorted(p.relative_to(INCLUDE).as_posix() for p in (INCLUDE / "tilefoundry/runtime/cpu").rglob("*.h"))
CUDA = sorted(
    p.relative_to(INCLUDE).as_posix() for p in (INCLUDE / "tilefoundry/runtime/cuda").rglob("*.cuh")
)
DEVICE_ONLY = ("cuda/runtime.cuh", "cuda/fault.cuh", "cuda/view.cuh")
PLANS = ("ops/axes.cuh", "ops/reduce_plan.cuh")
HOST_CAPABLE = [
    name for name in CUDA if name.endswith(PLANS) or ("/ops/" not in name and not name.endswith(DEVICE_ONLY))
]


def test_there_are_headers():
    assert len(CPU) > 8 and len(CUDA) > 20 and len(HOST_CAPABLE) > 8


@pytest.mark.spec("cpp.alone")
@pytest.mark.parametrize("name", CPU)
def test_cpu_header_alone(name: str, cpu_gxx):
    built = cpu_gxx(f"#include <{name}>\nint main() {{}}\n", "-O1")
    assert built.ok, built.log


@pytest.mark.parametrize("name", ["tilefoundry/runtime.h"])
def test_umbrella_with_clang(name: str, tmp_path: Path):
    if shutil.which("clang++") is None:
        pytest.skip("no clang++ on PATH")
    (tmp_path / "a.cc").write_text(f"#include <{name}>\nint main() {{}}\n")
    command = [
        "clang++",
        "-std=c++17",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-Wno-unknown-pragmas",
        "-fsyntax-only",
    ]
    done = subprocess.run(
        [*command, "-DTILEFOUNDRY_TARGET_CPU", f"-I{INCLUDE}", str(tmp_path / "a.cc")],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.spec("cpp.alone")
@pytest.mark.parametrize("name", HOST_CAPABLE)
def test_host_capable_header_alone(name: str, cuda_gxx):
    built = cuda_gxx(f"#include <{name}>\nint main() {{}}\n", "-O0")
    assert built.ok, built.log


@pytest.mark.spec("cpp.alone")
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("name", CUDA)
def test_device_header_alone(name: str, arch: str, nvrtc):
    """The runtime header stands for the whole umbrella: without feature macros it includes everything."""
    source = f'#include <{name}>\nextern "C" __global__ void kernel() {{}}\n'
    built = nvrtc(source, arch)
    assert built.ok, built.log
    assert "warning" not in built.log


COPY_ENGINE = {
    "count bytes": "barrier.arrive_expect(16);",
    "wait": "barrier.wait(0);",
    "arrive in another block": "barrier.arrive_at(1);",
    "ring": "__shared__ ops::ring<2>::storage slots; ops::ring<2>{slots}.acquire(0, 16);",
    "clusters": "ops::cluster_barrier();",
    "rank": "*p = ops::cluster_rank();",
    "publish barriers": "ops::barrier_init_fence();",
    "bulk load": "ops::bulk_load(memory, p, 16, barrier);",
    "bulk store": "ops::bulk_store(p, memory, 16);",
    "store fence": "ops::store_fence();",
    "wait for stores": "ops::bulk_store_wait();",
    "prefetch of a map": "ops::prefetch_map(p);",
    "box": "ops::tma_load(memory, p, barrier, 0, 0);",
}
ON_HOPPER = """#include <tilefoundry/runtime/cuda/ops/tma.cuh>
using namespace tilefoundry;
extern "C" __global__ void kernel(float* p) {{
  __shared__ alignas(128) float memory[32];
  __shared__ ops::mbarrier barrier;
  memory[threadIdx.x] = p[threadIdx.x], barrier.word = 0;
  {use}
}}
"""


@pytest.mark.spec("cpp.chips")
@pytest.mark.parametrize("what", COPY_ENGINE)
def test_the_copy_engine_asks_for_its_chip(what: str, nvrtc):
    """Its headers compile for any chip; a call compiles for sm_90 and is refused by that name below."""
    source = ON_HOPPER.format(use=COPY_ENGINE[what])
    fine = nvrtc(source, "sm_90a")
    assert fine.ok, fine.log
    older = nvrtc(source, "sm_80")
    assert not older.ok
    assert "requires .target sm_90 or higher" in older.log


FEATURES = {
    "ELEMENTWISE": ("ops::relu_op", ["ops::sum_op", "ops::mbarrier", "ops::store_result", "ops::SyncKind"]),
    "REDUCE": ("ops::sum_op", ["ops::mbarrier", "ops::store_result", "ops::SyncKind"]),
    "SYNC": ("ops::SyncKind", ["ops::relu_op", "ops::sum_op", "ops::mbarrier"]),
    "TMA": ("ops::mbarrier", ["ops::relu_op", "ops::sum_op"]),
    "MATMUL": ("ops::store_result", ["ops::sum_op", "ops::SyncKind"]),
    "SHARDS": ("shard::B", ["ops::relu_op", "ops::SyncKind", "ops::mbarrier"]),
    "ASYNC": ("ops::StagedPacks<int, 32>", ["ops::relu_op", "ops::SyncKind", "ops::mbarrier"]),
    "MMA": ("ops::atom::mma_sync<f16>", ["ops::relu_op", "ops::SyncKind", "ops::mbarrier"]),
    "VIEWS": ("ops::ConvGeometry", ["ops::SyncKind", "ops::mbarrier", "ops::store_result"]),
    "GROUPED": ("ops::store_result", ["ops::ConvGeometry", "ops::SyncKind"]),
}


@pytest.mark.spec("cpp.features")
@pytest.mark.parametrize("feature", FEATURES)
def test_feature_macro_is_narrow(feature: str, nvrtc):
    """What a feature names is there; the others' names are unknown."""
    present, absent = FEATURES[feature]
    flags = ("-DTILEFOUNDRY_TARGET_CUDA", f"-DTILEFOUNDRY_USE_{feature}")
    source = "#include <tilefoundry/runtime.h>\nusing namespace tilefoundry;\n"
    kernel = 'extern "C" __global__ void kernel() {}\n'
    there = nvrtc(source + f"using there = {present};\n" + kernel, "sm_90a", *flags)
    assert there.ok, there.log
    for name in absent:
        assert not nvrtc(source + f"using absent = {name};\n" + kernel, "sm_90a", *flags).ok
