"""The precompiled runtime headers. Oracles: the files that appear, and the compiler's own account of what it read."""

from __future__ import annotations

import subprocess
import time

import pytest

from tilefoundry.codegen.cpu.link import cpu_headers
from tilefoundry.codegen.toolchain import ToolchainError, clear_precompiled
from tilefoundry.codegen.toolchain.precompiled import VARIABLE
from tilefoundry.runtime.linking import native_arch
from tilefoundry.target import CompilerOptions, CpuTarget

UNIT = "#include <tilefoundry/runtime.h>\nint answer() { return 42; }\n"


@pytest.fixture
def headers(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, "1")
    found = cpu_headers(tmp_path / "a b", CpuTarget(arch=native_arch()), CompilerOptions(opt_level=0))
    if not found.enabled:
        pytest.skip("the compiler is not g++")
    return found


def compiled(headers, folder) -> None:
    (folder / "unit.cc").write_text(UNIT)
    headers.compile(["-c", "unit.cc", "-o", "unit.o"], folder)
    assert (folder / "unit.o").is_file()


@pytest.mark.spec("cache.headers")
def test_the_second_unit_starts_a_build_and_later_ones_use_it(headers, tmp_path):
    compiled(headers, tmp_path)
    assert (headers.folder / "wanted").is_file() and not (headers.folder / "claim").exists()
    compiled(headers, tmp_path)
    until = time.monotonic() + 120
    while not headers.file.is_file() and time.monotonic() < until:
        time.sleep(0.1)
    assert headers.file.is_file()
    assert headers.flag() == (f"-I{headers.folder}",)
    shown = subprocess.run(
        [
            headers.compiler.path,
            *headers.flags,
            *headers.flag(),
            *headers.includes,
            "-H",
            "-c",
            "unit.cc",
            "-o",
            "x.o",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stderr.startswith(f"! {headers.file}"), shown.stderr[:200]
    compiled(headers, tmp_path)


def test_one_process_claims_the_build_and_an_abandoned_claim_counts_for_nothing(headers):
    headers._prepare()
    assert headers._claimed() and not headers._claimed()
    import os

    os.utime(headers.folder / "claim", (0, 0))
    assert headers._claimed()


def test_a_damaged_file_costs_one_more_compilation_and_goes(headers, tmp_path):
    headers.build()
    size = headers.file.stat().st_size
    with open(headers.file, "r+b") as file:
        file.truncate(size // 2)
    compiled(headers, tmp_path)
    # The compiler either passes over the file or fails with it; then it is removed.
    assert not headers.file.is_file() or headers.file.stat().st_size == size // 2


@pytest.mark.spec("cache.headers")
def test_it_can_be_turned_off_and_cleared(headers, tmp_path, monkeypatch):
    headers.build()
    assert clear_precompiled(headers.root) == 1 and not headers.file.is_file()
    monkeypatch.setenv(VARIABLE, "0")
    assert headers.build() is None and headers.flag() == ()
    compiled(headers, tmp_path)
    assert not headers.folder.exists()


def test_a_refused_unit_shows_the_compilers_words(headers, tmp_path):
    (tmp_path / "unit.cc").write_text("this is no C++\n")
    with pytest.raises(ToolchainError, match=r"failed with code 1 on generated code:\n.*unit\.cc"):
        headers.compile(["-c", "unit.cc", "-o", "unit.o"], tmp_path)
