"""Folders from which the system runs nothing. Oracle: what its loader says of a library on a file system that is
mounted noexec, put in the place of ``dlopen``; the message was taken from such a mount."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest
import torch
import tvm_ffi

from tilefoundry import compile, func
from tilefoundry.cli import main
from tilefoundry.codegen.cache import place
from tilefoundry.dsl import Tensor


@func
def doubled(x: Tensor[(8,), "f32"]) -> Tensor[(8,), "f32"]:
    return x + x


def _refusing(path: str) -> None:
    raise RuntimeError(f"Check failed: {path}: failed to map segment from shared object")


@pytest.mark.spec("case.no-tools")
def test_a_temporary_folder_that_is_noexec_is_named_and_a_retry_works(tmp_path, monkeypatch):
    """The cache cannot be written, so the library goes to a temporary folder, and that one is mounted noexec."""
    monkeypatch.setenv("TILEFOUNDRY_CACHE_DIR", "/proc/nowhere")
    monkeypatch.setattr(place, "_fallbacks", {})
    monkeypatch.setattr(place.tempfile, "tempdir", str(tmp_path))
    with monkeypatch.context() as mounted:
        mounted.setattr(tvm_ffi, "load_module", _refusing)
        with (
            pytest.warns(UserWarning, match="/proc/nowhere cannot be written"),
            pytest.raises(
                OSError, match=rf"doubled: .* run the library {tmp_path}/.*noexec.*TILEFOUNDRY_CACHE_DIR"
            ),
        ):
            compile(doubled, target="cpu")
    monkeypatch.setenv("TILEFOUNDRY_CACHE_DIR", str(tmp_path / "good"))
    assert torch.equal(compile(doubled, target="cpu")(torch.ones(8)), torch.full((8,), 2.0))


@pytest.mark.spec("tools.doctor")
def test_doctor_names_a_cache_that_is_noexec(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TILEFOUNDRY_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_flag=os.ST_NOEXEC))
    main(["doctor"])
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "cache directory" in line]
    assert (
        line.startswith("--") and f"{tmp_path} is mounted noexec" in line and "TILEFOUNDRY_CACHE_DIR" in line
    )
