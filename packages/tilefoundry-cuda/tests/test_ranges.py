"""Ranges around calls and launches. Oracle: what NVTX hands to a profiler, here one that writes every push and pop to
a file; the text of the host's part on CUDA."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tilefoundry import CompilerOptions, compile, func, lower, module
from tilefoundry.codegen.cuda import BACKEND
from tilefoundry.codegen.toolchain import ToolNotFoundError, find_cxx, find_nvtx, nvtx
from tilefoundry.dsl import DimVar, Tensor, tf
from tilefoundry.target import CudaTarget

H200 = CudaTarget("nvidia.h200_sxm")
RANGES = CompilerOptions(ranges=True)
N = DimVar("N", 1, 5000)


@module(entry="step")
class Net:
    @func
    def layer(x: Tensor[(N, 64), "f32"], w: Tensor[(64, 64), "f32"]) -> Tensor[(N, 64), "f32"]:
        return tf.softmax(x @ w)

    @func
    def step(x: Tensor[(N, 64), "f32"], w: Tensor[(64, 64), "f32"]) -> Tensor[(N, 64), "f32"]:
        return layer(layer(x, w), w)


# What a profiler does: NVTX loads it and asks for the functions that it wants to be called with.
PROFILER = r"""
#include <cstdio>
#include <cstdlib>
#include <nvtx3/nvToolsExt.h>
static void say(const char* what, const char* name) {
  FILE* file = std::fopen(std::getenv("RANGES_SEEN"), "a");
  std::fprintf(file, "%s %s\n", what, name);
  std::fclose(file);
}
static int push(const char* name) { say("push", name); return 0; }
static int pop() { say("pop", ""); return 0; }
extern "C" int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get) {
  auto table = static_cast<NvtxExportTableCallbacks const*>(get(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable functions;
  unsigned size;
  table->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &functions, &size);
  *functions[NVTX_CBID_CORE_RangePushA] = reinterpret_cast<NvtxFunctionPointer>(push);
  *functions[NVTX_CBID_CORE_RangePop] = reinterpret_cast<NvtxFunctionPointer>(pop);
  return 1;
}
"""

CHILD = """
import sys, torch
from tilefoundry import CompilerOptions, jit
sys.path.insert(0, {tests!r})
from test_ranges import Net
step = jit(Net, target={target!r}, options=CompilerOptions(ranges=True))
x, w = torch.randn(3, 64, device={target!r}), torch.randn(64, 64, device={target!r})
step(x, w)
try:
    step(x, w.double())
except ValueError as error:
    print(error)
"""


def _seen(tmp_path: Path, target: str) -> list[str]:
    (tmp_path / "profiler.cc").write_text(PROFILER)
    library, seen = tmp_path / "profiler.so", tmp_path / "seen"
    command = [find_cxx().path, "-shared", "-fPIC", f"-I{find_nvtx().folder}", "-o", str(library)]
    subprocess.run([*command, str(tmp_path / "profiler.cc"), "-ldl"], check=True)
    environment = {**os.environ, "NVTX_INJECTION64_PATH": str(library), "RANGES_SEEN": str(seen)}
    child = CHILD.format(tests=str(Path(__file__).parent), target=target)
    subprocess.run([sys.executable, "-c", child], env=environment, check=True)
    return [line.strip() for line in seen.read_text().splitlines()]


def _check(seen: list[str], launches: list[str]) -> None:
    """One call that launches everything, then one that is refused: every push has its pop, inside of the call's."""
    inner = [line for path in launches for line in (f"push {path}", "pop")]
    assert seen == ["push Net.step", *inner, "pop", "push Net.step", "pop"]


@pytest.mark.spec("ranges.nested")
def test_a_profiler_sees_calls_and_launches_by_path(tmp_path):
    launches = [record.path for record in compile(Net, target="cpu", options=RANGES).kernels]
    assert launches == ["Net.step.k0_matmul_reduce_exp", "Net.step.k1_matmul_reduce_exp"]
    _check(_seen(tmp_path, "cpu"), launches)


@pytest.mark.gpu
@pytest.mark.spec("ranges.nested")
def test_a_profiler_sees_calls_and_launches_on_a_gpu(tmp_path):
    target = CudaTarget.current()
    launches = [record.path for record in compile(Net, target=target, options=RANGES).kernels]
    _check(_seen(tmp_path, "cuda"), launches)


@pytest.mark.spec("ranges.nested")
def test_a_cuda_library_shows_equal_kernels_by_their_own_paths():
    compiled = compile(Net, target=H200, options=RANGES)
    paths = [record.path for record in compiled.kernels]
    host = compiled.source.split("// host\n")[1]
    shown = [line.strip() for line in host.splitlines() if "host::Range" in line]
    assert shown == [f'const host::Range range_("{path}");' for path in ["Net.step", *paths]]
    assert len(set(paths)) == 4 and len({record.symbol for record in compiled.kernels}) == 2


@pytest.mark.spec("ranges.off")
def test_without_the_option_there_are_none():
    for target, backend_target in (("cpu", "cpu"), (H200, H200)):
        assert "Range" not in compile(Net, target=target).source, backend_target
    plain, shown = CompilerOptions(), RANGES
    assert plain.text() != shown.text()
    lowered = lower(Net, target=H200)
    parts = [BACKEND.emit(lowered, H200, options).parts for options in (plain, shown)]
    assert parts[0].devices == parts[1].devices and parts[0].host != parts[1].host


@pytest.mark.spec("tools.errors")
def test_missing_headers_are_named_with_the_way_out(monkeypatch, tmp_path):
    monkeypatch.setattr(nvtx, "FINDERS", (lambda: iter([(tmp_path, "a test")]),))
    with pytest.raises(
        ToolNotFoundError, match=rf"{tmp_path} \(a test\); install it with: pip install nvidia-nvtx"
    ):
        compile(Net, target="cpu", options=CompilerOptions(ranges=True, opt_level=0))
    out = compile(Net, target="cpu")(torch.zeros(1, 64), torch.zeros(64, 64))
    assert torch.equal(out, torch.full((1, 64), 1 / 64))
