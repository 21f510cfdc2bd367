"""The CUDA back end without a GPU. Oracles: texts and messages stated here, the compiler, a library's own tables."""

from __future__ import annotations

import subprocess

import pytest

from tilefoundry import CompilerOptions, build, func, jit, lower
from tilefoundry.codegen.cuda import BACKEND
from tilefoundry.codegen.cuda.emit import _derive_launch_config
from tilefoundry.codegen.cuda.link import device_tool
from tilefoundry.codegen.toolchain import ToolchainError
from tilefoundry.dsl import DimVar, Tensor, tf
from tilefoundry.ir.errors import LoweringError
from tilefoundry.ir.tir import PrimFunction
from tilefoundry.target import CudaTarget

H200 = CudaTarget("nvidia.h200_sxm")
B = DimVar("B", 0, 4097)


@func
def gated(g: Tensor[(B, 128), "bf16"], u: Tensor[(B, 128), "bf16"]) -> Tensor[(B, 128), "bf16"]:
    return tf.silu(g) * u


@func
def normed(x: Tensor[(32768, 4096), "bf16"], w: Tensor[(4096,), "bf16"]) -> Tensor[(32768, 4096), "bf16"]:
    return tf.rms_norm(x, w, eps=1e-6)


@func
def awkward(
    max: Tensor[(B, 3), "f32"], template: Tensor[(3,), "f32"], blockIdx: Tensor[(3,), "f32"]
) -> Tensor[(B, 3), "f32"]:
    return max * template + blockIdx


def kernels_of(program):
    lowered = lower(program, target=H200)
    return [f for f in lowered.functions if f is not lowered.entry_function()], lowered


def source_of(program):
    _, lowered = kernels_of(program)
    return BACKEND.emit(lowered, H200, CompilerOptions()).parts


def test_a_row_is_one_kernel_that_reads_it_once():
    (kernel,), _ = kernels_of(normed)
    text = source_of(normed).devices[0]
    config = _derive_launch_config(kernel)
    assert isinstance(config.grid, int) and isinstance(config.block, int)
    # 256 threads share a row of 4096, two packs of 8 each
    assert config.grid * (config.block // 256) == 32768
    wide, _ = text.split("body_(cute::Int<8>{});")  # what follows is for addresses that are not aligned
    assert "".join(wide.split()).count("reinterpret_cast<detail::Pack<bf16,V_>const*>(x+") == 1
    assert "body_(cute::Int<8>{});" in text


@pytest.mark.spec("pipeline.source", "pipeline.host-part")
def test_device_code_includes_the_umbrella_alone_and_the_host_no_cuda():
    parts = source_of(normed)
    for text in (*parts.devices, parts.host):
        assert [line for line in text.splitlines() if line.startswith("#include")] == [
            "#include <tilefoundry/runtime.h>"
        ]
    assert "cute" not in parts.host and "dim3" not in parts.host
    assert all("// " in text and "tf." in text for text in parts.devices)
    assert "TVM_FFI_DLL_EXPORT_TYPED_FUNC(normed," in parts.host


@pytest.mark.spec("pipeline.steps")
def test_lower_gives_prim_functions_of_one_target_and_build_loads_them():
    lowered = lower(normed, target=H200)
    assert all(isinstance(function, PrimFunction) for function in lowered.functions)
    assert lowered.target is H200 and lowered.entry == "normed"
    built = build(lowered)
    assert (built.name, built.type.name) == ("normed", "normed")
    with pytest.raises(LoweringError, match="lower"):
        build(normed)


def test_launches_cover_dynamic_rows_and_tail_blocks_store_nothing():
    (kernel,), _ = kernels_of(gated)
    assert "B" in str(_derive_launch_config(kernel).grid)
    assert "if (first < B * 128) {" in source_of(gated).devices[0]


@pytest.mark.spec("pipeline.libraries")
def test_a_library_needs_neither_cudart_nor_libcuda_and_opens_without_a_gpu(tmp_path, monkeypatch):
    monkeypatch.setenv("TILEFOUNDRY_CACHE_DIR", str(tmp_path / "a cäche"))
    compiled = jit(awkward, target=H200)
    library = compiled._linked.library_path
    needed = subprocess.run(["readelf", "-d", library], capture_output=True, text=True, check=True).stdout
    assert not any(name in needed for name in ("libcuda", "cudart", "blas"))
    assert compiled.type.name == "awkward" and [p.name for p in compiled.type.input_params] == [
        "max",
        "template",
        "blockIdx",
    ]


@pytest.mark.spec("target.no-gpu")
def test_without_a_gpu_the_bare_target_names_the_way_out(monkeypatch):
    monkeypatch.setattr(
        "tilefoundry.target.cuda._current_capability", lambda: "torch sees no usable NVIDIA GPU"
    )
    with pytest.raises(RuntimeError, match=r'CudaTarget\("nvidia.h200_sxm"\)'):
        jit(gated, target="cuda")


@pytest.mark.spec("target.unknown-gpu")
def test_an_architecture_that_the_compiler_lacks_is_refused_with_those_it_has():
    with pytest.raises(ToolchainError, match="cannot target sm_35; it knows sm_"):
        device_tool("sm_35", CompilerOptions())
