"""What compiler options change. Oracles: the files beside the library, its sections, the compilers' flags."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tilefoundry import CompilerOptions, compile, func
from tilefoundry.codegen.cuda.link import device_tool
from tilefoundry.codegen.cuda.toolchain import find_nvrtc
from tilefoundry.dsl import Tensor, tf
from tilefoundry.target import CpuTarget, CudaTarget

H200 = CudaTarget("nvidia.h200_sxm")
TARGETS = [pytest.param(CpuTarget(), "source.cc", id="cpu"), pytest.param(H200, "source.txt", id="cuda")]


@func
def doubled(x: Tensor[(8,), "f32"]) -> Tensor[(8,), "f32"]:
    return tf.exp(x) + x


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TILEFOUNDRY_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("TILEFOUNDRY_PRECOMPILED", "0")


def folder_of(target, **options) -> tuple[Path, str]:
    compiled = compile(doubled, target=target, options=CompilerOptions(**options))
    return Path(compiled._linked.library_path).parent, compiled.source


@pytest.mark.spec("options.sources")
@pytest.mark.parametrize(("target", "name"), TARGETS)
def test_sources_are_kept_when_asked_for_also_of_a_library_that_was_there(target, name):
    folder, _ = folder_of(target)
    assert sorted(file.name for file in folder.iterdir()) == ["entry.json", "library.so"]
    again, source = folder_of(target, keep_sources=True)
    assert again == folder
    assert sorted(file.name for file in folder.iterdir()) == sorted(["entry.json", "library.so", name])
    assert (folder / name).read_text() == source


@pytest.mark.spec("options.sources")
def test_nvcc_leaves_nothing_behind():
    folder, _ = folder_of(H200, device_compiler="nvcc")
    assert sorted(file.name for file in folder.iterdir()) == ["entry.json", "library.so"]


@pytest.mark.spec("options.sources")
def test_a_cache_that_cannot_be_written_is_named(monkeypatch):
    folder, _ = folder_of(CpuTarget())

    def refuse(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tilefoundry.codegen.cache.disk.os.replace", refuse)
    with pytest.warns(UserWarning, match=r"source.cc: sources are not kept \(Permission denied\)"):
        folder_of(CpuTarget(), keep_sources=True)
    assert not (folder / "source.cc").exists()


@pytest.mark.spec("options.flags")
def test_line_tables_and_flags_reach_the_cpu_compiler():
    def sections(**options):
        library = folder_of(CpuTarget(), **options)[0] / "library.so"
        return subprocess.run(["readelf", "-SW", library], capture_output=True, text=True, check=True).stdout

    assert ".debug_line" not in sections() and ".debug_line" in sections(line_info=True)
    assert ".debug_info" in sections(extra_flags=("-g2",))
    with pytest.raises(Exception, match="no-such-flag"):
        folder_of(CpuTarget(), extra_flags=("-fno-such-flag",))


@pytest.mark.spec("options.flags")
@pytest.mark.parametrize(
    ("target", "file"), [pytest.param(CpuTarget(), "/source.cc", id="cpu"), pytest.param(H200, "", id="cuda")]
)
def test_line_tables_name_the_folder_that_sources_are_kept_in(target, file):
    """Oracle: the library's bytes. The folder that it was compiled in had another name and is gone."""
    folder, _ = folder_of(target, line_info=True, keep_sources=True)
    content = (folder / "library.so").read_bytes()
    assert f"{folder}{file}\0".encode() in content
    assert f"{folder.parent.parent}/.".encode() not in content
    assert not file or Path(f"{folder}{file}").is_file()


@pytest.mark.spec("options.flags")
@pytest.mark.parametrize("device_compiler", ["nvrtc", "nvcc"])
def test_levels_line_tables_and_flags_reach_the_device_compiler(device_compiler):
    def flags(**options):
        tool = device_tool("sm_90a", CompilerOptions(device_compiler=device_compiler, **options))
        return " ".join(tool.flags)

    assert "-O0" in flags(opt_level=0) and "-O0" not in flags()
    assert "-lineinfo" in flags(line_info=True) and "-lineinfo" not in flags()
    assert flags(extra_flags=("-DHERE",)).endswith("-DHERE")


@pytest.mark.spec("options.flags")
def test_nvrtc_obeys_the_level():
    text = (
        "__global__ void f(float* x, int n) { float s = 0; for (int i = 0; i < n; ++i) s += x[i]; x[0] = s; }"
    )
    images = {}
    for level in (0, 1, 3):
        tool = device_tool("sm_90a", CompilerOptions(opt_level=level))
        images[level] = find_nvrtc().compile(text, "f.cu", tool.flags)
    assert len(set(images.values())) == 3
