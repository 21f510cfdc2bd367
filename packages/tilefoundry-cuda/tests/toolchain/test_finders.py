"""Distinct errors for tools that are missing, too old, or unable to target a GPU; doctor. Oracle: the rule."""

from __future__ import annotations

import stat

import pytest

from tilefoundry.cli import main
from tilefoundry.codegen.commands import doctor
from tilefoundry.codegen.cuda.link import device_tool
from tilefoundry.codegen.cuda.toolchain import cuda_headers, nvcc, nvrtc
from tilefoundry.codegen.toolchain import (
    GpuNotTargetedError,
    ToolchainError,
    ToolNotFoundError,
    ToolTooOldError,
    find_cxx,
)
from tilefoundry.target import CompilerOptions


def script(path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


@pytest.mark.spec("tools.errors")
def test_no_compiler_an_old_one_and_a_broken_one(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(ToolNotFoundError, match=r"looked for \$CXX, then g\+\+.*apt-get install"):
        find_cxx()
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(ToolNotFoundError, match="CXX=no-such-compiler: no such executable; unset CXX"):
        find_cxx()
    monkeypatch.setenv("CXX", script(tmp_path / "old", "echo 'g++ (GCC) 4.8.5'"))
    with pytest.raises(ToolTooOldError, match=r"4\.8\.5; version 9 or later is needed"):
        find_cxx()
    monkeypatch.setenv("CXX", script(tmp_path / "broken", "exit 3"))
    with pytest.raises(ToolchainError, match="--version failed") as caught:
        find_cxx()
    assert type(caught.value) is ToolchainError


@pytest.mark.spec("tools.errors")
def test_no_nvrtc_an_unusable_one_and_a_gpu_it_does_not_know(tmp_path, monkeypatch):
    nvrtc.find_nvrtc.cache_clear()
    monkeypatch.setattr(nvrtc, "FINDERS", ())
    with pytest.raises(ToolNotFoundError, match=r"NVRTC was not found .*pip install"):
        nvrtc.find_nvrtc()
    broken = tmp_path / "libnvrtc.so.12"
    broken.write_text("no library")
    monkeypatch.setattr(nvrtc, "FINDERS", (lambda: iter([(broken, "a test")]),))
    with pytest.raises(ToolNotFoundError, match=r"libnvrtc\.so\.12"):
        nvrtc.find_nvrtc()
    monkeypatch.undo()
    monkeypatch.setattr(nvrtc, "_OLDEST", (99, 0))
    with pytest.raises(ToolTooOldError, match=r"99\.0 or later is needed"):
        nvrtc.find_nvrtc()
    monkeypatch.undo()
    with pytest.raises(GpuNotTargetedError, match=r"cannot target sm_10; it knows sm_"):
        device_tool("sm_10", CompilerOptions())


@pytest.mark.spec("tools.errors")
def test_no_headers_and_no_nvcc(monkeypatch, tmp_path):
    monkeypatch.setattr(cuda_headers, "FINDERS", ())
    with pytest.raises(ToolNotFoundError, match=r"tilefoundry-cuda\[cu12\]"):
        cuda_headers.find_headers(12)
    nvcc.find_nvcc.cache_clear()
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    (tmp_path / "bin").mkdir()
    script(tmp_path / "bin" / "nvcc", "echo 'Cuda compilation tools, release 11.4, V11.4.1'")
    with pytest.raises(ToolTooOldError, match=r"CUDA 11\.4; 12\.0 or later is needed"):
        nvcc.find_nvcc()
    nvcc.find_nvcc.cache_clear()


@pytest.mark.spec("tools.doctor")
def test_doctor_gives_one_line_each(capsys):
    code = main(["doctor"])
    lines = capsys.readouterr().out.splitlines()
    assert code == 0 and len(lines) == len(doctor.CHECKS)
    for line, (name, _, needed) in zip(lines, doctor.CHECKS, strict=True):
        assert name in line and (line.startswith("ok") or not needed), line


@pytest.mark.spec("tools.doctor")
def test_doctor_names_a_remedy_for_what_is_missing(monkeypatch, capsys):
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert main(["doctor"]) == 1
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "C++ compiler" in line]
    assert line.startswith("--") and "unset CXX, or set it to a C++17 compiler" in line
