"""What is known of each launch of a library. Oracles: the program's own names and extents, the driver on a GPU."""

from __future__ import annotations

import ctypes
import re

import pytest
import torch

from tilefoundry import CompilerOptions, compile, func, lower, module
from tilefoundry.codegen import explain
from tilefoundry.codegen.cuda import BACKEND
from tilefoundry.codegen.cuda.link import compile_images, device_tool
from tilefoundry.dsl import DimVar, Tensor, tf
from tilefoundry.runtime import load_compiled
from tilefoundry.target import CpuTarget, CudaTarget

H200 = CudaTarget("nvidia.h200_sxm")
N = DimVar("N", 1, 5000)


@module(entry="step")
class Net:
    """A product between two row kernels, and two layers that are equal."""

    @func
    def layer(x: Tensor[(N, 64), "f32"]) -> Tensor[(N, 64), "f32"]:
        return tf.softmax(x)

    @func
    def step(x: Tensor[(N, 64), "f32"], w: Tensor[(64, 64), "f32"]) -> Tensor[(N, 64), "f32"]:
        return layer(layer(tf.silu(x) @ w) @ w)


@pytest.mark.spec("kernels.records")
@pytest.mark.parametrize("device_compiler", ["nvrtc", "nvcc"])
def test_every_launch_has_path_geometry_and_resources(device_compiler):
    options = CompilerOptions(device_compiler=device_compiler)
    records = compile(Net, target=H200, options=options).kernels
    assert [r.path for r in records] == [f"Net.step.{r.name}" for r in records]
    names = [r.name.split("_", 1)[1] for r in records]
    assert names == ["silu", "matmul", "reduce_exp_sub", "matmul", "reduce_exp_sub"]
    assert all("N" in r.grid and r.block == 256 for r in records)
    assert all(r.registers > 8 and r.local_bytes == 0 and r.constant_bytes > 512 for r in records)
    assert records[1].shared_bytes > 4096 and records[0].shared_bytes == 0
    # equal kernels share their code
    assert [r.symbol for r in records[1:3]] == [r.symbol for r in records[3:]]
    assert records[1].symbol == f"kernel_Net_step_{records[1].name}"


@pytest.mark.spec("kernels.records")
def test_records_survive_the_disk_cache_and_saving(tmp_path, monkeypatch):
    monkeypatch.setenv("TILEFOUNDRY_CACHE_DIR", str(tmp_path / "cache"))
    first = compile(Net, target=H200)
    assert compile(Net, target=H200).kernels == first.kernels
    first.save(str(tmp_path / "saved"))
    assert load_compiled(str(tmp_path / "saved")).kernels == first.kernels


@pytest.mark.spec("kernels.records")
def test_a_cpu_library_names_its_kernels_and_no_registers():
    records = compile(Net, target="cpu").kernels
    # A product's rows are computed as they are read, and its results go on in the same kernel.
    first = "Net.step.k0_matmul_silu_reduce"
    assert records[0].path == first and {r.registers for r in records} == {None}
    assert str(records[0]) == first


@pytest.mark.spec("explain.launches")
def test_explain_says_what_is_known_without_compiling():
    text = str(explain(Net, target=H200))
    assert "launched as Net.step.k0_silu, grid ((N * 64 + 1023) // 1024), block 256" in text
    assert "launched as Net.step.k0_matmul_silu_reduce\n" in str(explain(Net, target=CpuTarget()))


@func
def wide(x: Tensor[(4096, 4096), "bf16"], w: Tensor[(4096, 4096), "bf16"]) -> Tensor[(4096, 4096), "bf16"]:
    return x @ w


@pytest.mark.spec("kernels.records")
def test_shared_memory_of_a_launch_counts_and_is_told_apart():
    (record,) = compile(wide, target=H200).kernels
    assert record.path == "wide.k0_matmul" and record.grid.startswith("min(")
    assert record.shared_bytes >= record.dynamic_shared_bytes > 48 * 1024
    assert f"({record.dynamic_shared_bytes} dynamic)" in repr(record)


def _long(words: int):
    source = f"{'very_' * words}long"
    body = "def {0}(x: Tensor[(8,), 'f32']) -> Tensor[(8,), 'f32']:\n    return tf.exp(x)\n"
    return source, body.format(source)


@pytest.mark.spec("kernels.symbols")
def test_symbols_carry_the_path_within_a_sane_length(tmp_path, monkeypatch):
    for words in (1, 60):
        name, text = _long(words)
        (tmp_path / f"long{words}.py").write_text(
            f"from tilefoundry import func\nfrom tilefoundry.dsl import Tensor, tf\n\n@func\n{text}"
        )
        monkeypatch.syspath_prepend(str(tmp_path))
        program = getattr(__import__(f"long{words}"), name)
        (record,) = compile(program, target=H200).kernels
        assert record.path == f"{name}.k0_exp"
        assert len(record.symbol) <= 128 and record.symbol.startswith(f"kernel_{name[:40]}")
        assert re.fullmatch(r"[A-Za-z]\w*", record.symbol)


# Codes of cuFuncGetAttribute.
ATTRIBUTES = {"shared_bytes": 1, "local_bytes": 3, "registers": 4}


@pytest.mark.gpu
@pytest.mark.spec("kernels.records")
def test_the_driver_gives_the_same_counts(tmp_path):
    target = CudaTarget.current()
    torch.zeros(1, device="cuda")
    driver = ctypes.CDLL("libcuda.so.1")
    linkable = BACKEND.emit(lower(Net, target=target), target, CompilerOptions())
    compile_images(linkable.parts, tmp_path, device_tool(target.arch, CompilerOptions()))
    handles = []
    for file in sorted(tmp_path.glob("*.cubin")):
        handle = ctypes.c_void_p()
        assert driver.cuModuleLoadData(ctypes.byref(handle), file.read_bytes()) == 0
        handles.append(handle)
    for record in compile(Net, target=target).kernels:
        function, value = ctypes.c_void_p(), ctypes.c_int()
        codes = [
            driver.cuModuleGetFunction(ctypes.byref(function), handle, record.symbol.encode())
            for handle in handles
        ]
        assert 0 in codes, record
        for field, code in ATTRIBUTES.items():
            assert driver.cuFuncGetAttribute(ctypes.byref(value), code, function) == 0
            assert value.value == getattr(record, field), (record, field)
