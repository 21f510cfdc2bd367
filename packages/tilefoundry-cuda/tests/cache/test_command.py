"""``tilefoundry cache``. Oracle: the folders and files in a cache of its own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tilefoundry import CompilerOptions, CudaTarget, func, lower
from tilefoundry.cli import main
from tilefoundry.codegen.cache import DiskCache
from tilefoundry.codegen.commands import warming
from tilefoundry.codegen.cuda import BACKEND
from tilefoundry.codegen.cuda.toolchain import DeviceHeaders
from tilefoundry.dsl import Tensor, tf

H200 = CudaTarget("nvidia.h200_sxm")


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("TILEFOUNDRY_CACHE_DIR", str(tmp_path / "libraries"))
    return tmp_path / "libraries"


def filled(root: Path, sizes: list[int]) -> list[str]:
    """Keys of libraries of these sizes, the first used longest ago."""
    keys = [f"{i:02x}" * 32 for i in range(len(sizes))]
    for i, (key, size) in enumerate(zip(keys, sizes, strict=True)):
        library = DiskCache(root).get_or_build(key, lambda folder, n=size: _write(folder, n))
        os.utime(library.parent / "entry.json", (1000.0 + i, 1000.0 + i))
    return keys


def _write(folder: Path, size: int) -> None:
    (folder / "library.so").write_bytes(bytes(size))


@pytest.mark.spec("tools.cache")
def test_show_lists_the_last_used_first(root, capsys):
    keys = filled(root, [1000, 3 * 2**20])
    assert main(["cache"]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.startswith(f"{root}: 2 libraries, 3.0 MiB of at most 4.0 GiB")
    assert [line.split()[0] for line in lines] == [keys[1][:16], keys[0][:16]]
    assert all("last used 1970-01-01" in line for line in lines)


@pytest.mark.spec("tools.cache")
def test_prune_removes_the_least_recently_used_down_to_the_limit(root, capsys, monkeypatch):
    keys = filled(root, [5000, 5000, 5000])
    monkeypatch.setenv("TILEFOUNDRY_CACHE_LIMIT", "11000")
    assert main(["cache", "prune"]) == 0
    assert "removed 1 library from" in capsys.readouterr().out
    assert {usage.key for usage in DiskCache(root).entries()} == set(keys[1:])


@pytest.mark.spec("tools.cache")
def test_clear_removes_libraries_and_headers(root, capsys):
    filled(root, [10, 10])
    assert main(["cache", "clear"]) == 0
    assert "removed 2 libraries and 0 precompiled headers" in capsys.readouterr().out
    assert DiskCache(root).entries() == [] and not list(root.glob("??/*"))
    assert main(["cache", "show"]) == 0
    assert ": 0 libraries" in capsys.readouterr().out


@pytest.mark.spec("tools.cache")
def test_one_is_one(root, capsys):
    filled(root, [10])
    assert main(["cache"]) == 0 and ": 1 library, " in capsys.readouterr().out
    assert main(["cache", "clear"]) == 0
    assert "removed 1 library and 0 precompiled headers" in capsys.readouterr().out


@pytest.mark.spec("tools.cache")
def test_a_cache_that_is_not_there_is_empty(root, capsys):
    assert main(["cache"]) == 0 and ": 0 libraries, 0 B" in capsys.readouterr().out
    assert not root.exists()


@pytest.mark.spec("tools.cache")
def test_warm_precompiles_the_headers_of_both_targets(root, capsys, monkeypatch):
    """Device headers take long and are tested elsewhere: here a file stands for each."""
    monkeypatch.setenv("TILEFOUNDRY_PRECOMPILED", "1")
    monkeypatch.setattr(DeviceHeaders, "build", _device_header)
    assert main(["cache", "warm", "--gpu", "sm_90a"]) == 0
    lines = capsys.readouterr().out.splitlines()
    names, files = zip(*(line.rsplit(":", 1)[0].split(": ") for line in lines), strict=True)
    assert names == (
        "host code of the CPU target",
        "host code of CUDA libraries",
        "device code for sm_90a, elementwise",
        "device code for sm_90a, elementwise and reduce",
        "device code for sm_90a, elementwise and matmul",
    )
    assert len(set(files)) == 5 and all(Path(file).is_file() for file in files)
    assert main(["cache", "clear"]) == 0
    assert "and 5 precompiled headers" in capsys.readouterr().out
    assert not any(Path(file).exists() for file in files)


def _device_header(headers: DeviceHeaders) -> Path:
    headers.folder.mkdir(parents=True)
    headers.file.write_text(headers.prefix)
    return headers.file


@pytest.mark.spec("tools.cache")
def test_warm_makes_what_ordinary_kernels_begin_with():
    """Oracle: the device text of a pointwise kernel, of a row kernel and of a product."""

    @func
    def gate(x: Tensor[(64, 64), "f32"]) -> Tensor[(64, 64), "f32"]:
        return tf.silu(x) * x

    @func
    def rows(x: Tensor[(64, 64), "f32"]) -> Tensor[(64, 64), "f32"]:
        return tf.softmax(x)

    @func
    def product(x: Tensor[(64, 64), "f32"]) -> Tensor[(64, 64), "f32"]:
        return x @ x

    options = CompilerOptions()
    for program, feature in zip((gate, rows, product), warming.FEATURES, strict=True):
        (text,) = BACKEND.emit(lower(program, target=H200), H200, options).parts.devices
        assert text.startswith(warming._prefix(feature))


@pytest.mark.spec("tools.cache")
def test_warm_says_what_it_leaves_out(root, capsys, monkeypatch):
    monkeypatch.setenv("TILEFOUNDRY_PRECOMPILED", "0")
    assert main(["cache", "warm"]) == 0
    assert capsys.readouterr().out == "precompiled headers are turned off by TILEFOUNDRY_PRECOMPILED=0\n"
    monkeypatch.setenv("TILEFOUNDRY_PRECOMPILED", "1")
    monkeypatch.setenv("CXX", "/no/compiler")
    monkeypatch.setattr(CudaTarget, "current", _no_gpu)
    assert main(["cache", "warm"]) == 1
    cpu, host, device = capsys.readouterr().out.splitlines()
    for line in (cpu, host):
        assert ": skipped: CXX=/no/compiler: no such executable; unset CXX" in line
    assert (
        device
        == "device code: skipped: no GPU is here; name the one that it is for with --gpu nvidia.h200_sxm"
    )
    assert main(["cache", "warm", "--gpu", "sm_99"]) == 1
    assert "device code: skipped: NVRTC" in capsys.readouterr().out
    assert main(["cache", "warm", "--gpu", "what"]) == 1
    assert "unknown chip 'what'" in capsys.readouterr().err


def _no_gpu() -> CudaTarget:
    raise RuntimeError("no GPU")
