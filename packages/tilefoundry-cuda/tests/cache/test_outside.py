"""What compilers read besides the generated text: files that flags name, the environment, headers edited meanwhile.

Oracle: the bytes of the library, which hold what the file held when it was compiled last.
"""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest

from tilefoundry import CompilerOptions, CpuTarget, CudaTarget, compile, func, jit
from tilefoundry.codegen import headers, own_code
from tilefoundry.codegen.cache import DiskCache, kept_library
from tilefoundry.codegen.cpu import link as cpu_link
from tilefoundry.codegen.cuda import link as cuda_link
from tilefoundry.codegen.toolchain import file_flag, flags_of_environment
from tilefoundry.codegen.toolchain.outside import VARIABLES
from tilefoundry.dsl import Tensor

H200 = CudaTarget("nvidia.h200_sxm")
HARMLESS = (
    "-DNAME=a/b.h",
    "-UNAME",
    "-O2",
    "-Ofast",
    "-g",
    "-g2",
    "-gdwarf-4",
    "-G",
    "-Wall",
    "-Wno-unused",
    "-Werror=format",
    "-std=c++20",
    "-march=x86-64-v3",
    "-mtune=native",
    "-ffast-math",
    "-ffp-contract=off",
    "-fno-such-flag",
    "-pthread",
    "--use_fast_math",
    "-use_fast_math",
    "--fmad=false",
    "--maxrregcount=64",
    "--ptxas-options=-O1",
    "-lineinfo",
    "--diag-suppress=177,20012",
)
FILES = (
    "-include",
    "-includemy.h",
    "-imacros",
    "-I.",
    "-I",
    "-isystem",
    "-iquote",
    "-idirafter",
    "-L/lib",
    "-lmine",
    "-B/bin",
    "@response",
    "my.h",
    "-fplugin=/x.so",
    "-fprofile-use",
    "-fprofile-use=run.gcda",
    "-fauto-profile=x",
    "-fuse-ld=mine",
    "-Wl,-rpath,/lib",
    "-Wp,-include,my.h",
    "-specs=mine",
    "--sysroot=/x",
    "--pre-include=my.h",
    "--include-path=/x",
    "--options-file=x",
    "-fmodule-file=a.pcm",
    "-march=x/y",
    "--an-unknown-flag",
)


@func
def shifted(x: Tensor[(8,), "f32"]) -> Tensor[(8,), "f32"]:
    return x + 2.5


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TILEFOUNDRY_CACHE_DIR", str(tmp_path / "cache"))
    jit.cache_clear()
    yield
    jit.cache_clear()


@pytest.mark.spec("cache.key")
def test_flags_that_may_name_files_are_told_from_those_that_do_not():
    assert [flag for flag in HARMLESS if file_flag((flag,)) is not None] == []
    assert [flag for flag in FILES if file_flag((*HARMLESS, flag)) != flag] == []


@pytest.mark.spec("cache.key")
@pytest.mark.parametrize(
    ("target", "flags", "text"),
    [
        (CpuTarget(), ("-include", "{file}"), 'extern "C" const char marked[] = "the file is {number}";'),
        (
            H200,
            ("--pre-include={file}",),
            'extern "C" __device__ const char marked[] = "the file is {number}";',
        ),
    ],
    ids=["g++", "nvrtc"],
)
def test_files_that_flags_name_are_read_each_time(target, flags, text, tmp_path):
    file = tmp_path / "my.h"
    options = CompilerOptions(opt_level=1, extra_flags=tuple(f.format(file=file) for f in flags))
    for number, verb in (("one", compile), ("two", jit)):
        file.write_text(text.format(number=number) + "\n")
        library = Path(verb(shifted, target=target, options=options)._linked.library_path)
        assert f"the file is {number}".encode() in library.read_bytes()
    assert DiskCache(tmp_path / "cache").entries() == [] and not (tmp_path / "cache" / "programs").exists()


@pytest.mark.spec("cache.key")
@pytest.mark.parametrize("name", VARIABLES)
def test_every_key_holds_the_compilers_environment(name, monkeypatch):
    def keys() -> list[str | None]:
        return [
            cpu_link.cpu_program_key("p", CpuTarget("x86-64"), CompilerOptions()),
            cuda_link.cuda_program_key("p", H200, CompilerOptions()),
            str(cpu_link.cpu_headers(Path("/"), CpuTarget("x86-64"), CompilerOptions()).folder),
        ]

    # Sources of a checkout may be younger than this process; keys do not hang on that here.
    monkeypatch.setattr("tilefoundry.codegen.recall.own_code", lambda: "own")
    monkeypatch.delenv(name, raising=False)
    found = keys()
    for value in ("/one", "/two"):
        monkeypatch.setenv(name, value)
        found += keys()
    assert None not in found and len(set(found)) == len(found)


@pytest.mark.spec("cache.key")
@pytest.mark.parametrize("name", ["CPATH", "CPLUS_INCLUDE_PATH"])
def test_headers_in_folders_of_the_environment_are_seen(name, tmp_path, monkeypatch):
    """A folder whose ``climits`` stands before the system's, edited in place."""
    folder = tmp_path / "include"
    folder.mkdir()
    monkeypatch.setenv(name, f"{tmp_path / 'nowhere'}{os.pathsep}{folder}")
    for number in ("one", "two"):
        (folder / "climits").write_text(
            f'#include_next <climits>\nextern "C" const char mark[] __attribute__((used)) = "the file is {number}";\n'
        )
        jit.cache_clear()
        library = Path(jit(shifted, target="cpu")._linked.library_path)
        assert f"the file is {number}".encode() in library.read_bytes()


@pytest.mark.spec("cache.key")
def test_flags_of_the_environment_count_as_flags(monkeypatch):
    nvcc = CompilerOptions(device_compiler="nvcc")

    def kept(options: CompilerOptions) -> bool:
        return cuda_link._is_kept(options, cuda_link.find_cxx())

    monkeypatch.setenv("NVCC_APPEND_FLAGS", "-DHERE --use_fast_math")
    assert flags_of_environment("nvcc") == ("-DHERE", "--use_fast_math") and kept(nvcc)
    monkeypatch.setenv("NVCC_PREPEND_FLAGS", "-include 'my file.h'")
    assert not kept(nvcc) and kept(CompilerOptions())
    monkeypatch.setenv("NVCC_PREPEND_FLAGS", "'open")
    assert not kept(nvcc)


@pytest.fixture
def tree(tmp_path, monkeypatch) -> Path:
    """Headers of the test's own, of the past."""
    folder = tmp_path / "include" / "tilefoundry"
    for name in (
        "runtime.h",
        "runtime/cpu/a.h",
        "runtime/cpu/dtype.h",
        "runtime/host/b.h",
        "runtime/cuda/ops/c.cuh",
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    monkeypatch.setattr(headers, "include_dirs", lambda cute: (tmp_path / "include",))
    monkeypatch.setattr(headers, "_digests", {})
    return folder


@pytest.mark.spec("cache.key")
@pytest.mark.parametrize(
    ("name", "seen"),
    [
        ("runtime.h", {"cpu", "cuda"}),
        ("runtime/cpu/a.h", {"cpu"}),
        ("runtime/cpu/dtype.h", {"cpu", "cuda"}),
        ("runtime/cpu/new.h", {"cpu"}),
        ("runtime/host/b.h", {"cpu", "cuda"}),
        ("runtime/cuda/ops/c.cuh", {"cuda"}),
    ],
)
def test_headers_edited_while_a_process_lives_are_seen(tree, name, seen, monkeypatch):
    """Of the same size, with the time of the last edit set back."""
    before = {target: headers.headers_digest(target) for target in ("cpu", "cuda")}
    file = tree / name
    time_before = file.stat().st_mtime_ns if file.exists() else 0
    file.write_text(name.upper())
    os.utime(file, ns=(time_before, time_before))
    after = {target: headers.headers_digest(target) for target in before}
    assert {target for target in before if before[target] != after[target]} == seen


@pytest.mark.spec("cache.key")
def test_headers_that_stay_are_read_once(tree, monkeypatch):
    """Oracle: what is told of equal files is what was told before, whatever they hold now."""
    monkeypatch.setattr(headers, "_SETTLED", -1.0)
    first = headers.headers_digest("cpu")
    unchanged = headers.status_of([tree / "runtime.h"])
    monkeypatch.setattr(headers, "status_of", lambda files: unchanged)
    headers._digests["cpu", unchanged.digest] = "kept"
    assert headers.headers_digest("cpu") == "kept" != first


@pytest.mark.spec("cache.recall")
def test_no_program_is_recalled_once_a_header_was_edited(tree, monkeypatch):
    monkeypatch.setattr("tilefoundry.IMPORTED_AT", 4e9)
    own_code._as_begun.cache_clear()
    assert own_code.own_code() is not None
    (tree / "runtime" / "cuda" / "ops" / "c.cuh").write_text("another text")
    assert own_code.own_code() is None
    own_code._as_begun.cache_clear()


@pytest.mark.spec("cache.key")
def test_what_changed_during_a_build_is_built_again(tmp_path):
    """Oracle: the key that the library lies under, and how often it was built."""
    keys = iter(["0" * 64, "1" * 64, "2" * 64, "2" * 64])
    built: list[Path] = []

    def build(root: Path, folder: Path, final: Path) -> None:
        built.append(final)
        (folder / "library.so").write_bytes(b"a library")

    library = kept_library(lambda: next(keys), build)
    assert library.parent.name == "2" * 64 and [one.name for one in built] == ["0" * 64, "2" * 64]
    assert [usage.key for usage in DiskCache(tmp_path / "cache").entries()] == ["2" * 64]


@pytest.mark.spec("cache.key")
def test_what_changes_in_every_build_is_not_kept(tmp_path):
    numbers = itertools.count()
    with pytest.raises(
        RuntimeError, match="changed in each of 3 builds of a library; compile again when they stay"
    ):
        kept_library(lambda: f"{next(numbers):064x}", _write)
    assert DiskCache(tmp_path / "cache").entries() == []


def _write(root: Path, folder: Path, final: Path) -> None:
    (folder / "library.so").write_bytes(b"a library")
