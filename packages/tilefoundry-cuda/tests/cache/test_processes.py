"""Caches and toolchains across processes. Oracle: results, and how often the compiler ran."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys, time
import torch
from tilefoundry import func, jit
from tilefoundry.dsl import Tensor, tf

@func
def doubled(x: Tensor[(8,), "f32"]) -> Tensor[(8,), "f32"]:
    return x + x

import tvm_ffi
start = time.perf_counter()
compiled = jit(doubled, target="cpu")
took = time.perf_counter() - start
assert torch.equal(compiled(torch.ones(8)), torch.full((8,), 2.0))
print("took", took)
"""


@pytest.fixture
def program(tmp_path):
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    return file


def environment(cache: Path, **extra: str) -> dict[str, str]:
    return {**os.environ, "TILEFOUNDRY_CACHE_DIR": str(cache), "OMP_NUM_THREADS": "1", **extra}


def run(program: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(program)], env=env, capture_output=True, text=True, timeout=300
    )


def counting_compiler(folder: Path) -> Path:
    """A compiler that leaves one file per compilation beside itself."""
    folder.mkdir()
    script = folder / "counting-g++"
    script.write_text(
        f'#!/bin/sh\ncase "$*" in *source.cc*) mktemp "{folder}/call.XXXXXX" >/dev/null;; esac\nexec g++ "$@"\n'
    )
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return script


@pytest.mark.parametrize("name", ["a b", "größe-日本"])
@pytest.mark.spec("case.directory-names")
def test_odd_directory_names_build_and_run(tmp_path, program, name):
    done = run(program, environment(tmp_path / name))
    assert done.returncode == 0, done.stderr
    assert list((tmp_path / name).glob("??/*/library.so"))


@pytest.mark.spec("case.directory-names")
def test_an_ascii_locale_opens_libraries_in_other_folders(tmp_path, program):
    """Oracle: the bytes of a folder's name are the same under every locale."""
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = run(program, environment(tmp_path / "größe", **ascii_only))
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.spec("case.cold-processes")
def test_eight_cold_processes_compile_once(tmp_path, program):
    compiler = counting_compiler(tmp_path / "bin")
    env = environment(tmp_path / "cache", CXX=str(compiler))
    started = [
        subprocess.Popen([sys.executable, str(program)], env=env, stderr=subprocess.PIPE, text=True)
        for _ in range(8)
    ]
    for process in started:
        _, error = process.communicate(timeout=600)
        assert process.returncode == 0, error
    assert len(list((tmp_path / "bin").glob("call.*"))) == 1


@pytest.mark.spec("cache.second-process")
def test_a_second_process_does_not_compile(tmp_path, program):
    compiler = counting_compiler(tmp_path / "bin")
    env = environment(tmp_path / "cache", CXX=str(compiler))
    for _ in range(2):
        done = run(program, env)
        assert done.returncode == 0, done.stderr
    assert len(list((tmp_path / "bin").glob("call.*"))) == 1


@pytest.mark.spec("case.no-tools")
def test_no_compiler_is_one_clear_error_and_a_retry_works(tmp_path, program):
    env = environment(tmp_path / "cache", PATH=str(tmp_path / "empty"))
    env.pop("CXX", None)
    done = run(program, env)
    assert done.returncode != 0
    last = done.stderr.strip().splitlines()[-1]
    assert "no C++ compiler" in last and "apt-get install g++" in last
    assert run(program, environment(tmp_path / "cache")).returncode == 0


@pytest.mark.spec("case.no-tools")
def test_a_wrong_cxx_is_named(tmp_path, program):
    done = run(program, environment(tmp_path / "cache", CXX="/nowhere/g++"))
    assert done.returncode != 0 and "CXX=/nowhere/g++" in done.stderr


@pytest.mark.spec("cache.killed")
def test_a_killed_builder_leaves_no_lock(tmp_path, program):
    slow = tmp_path / "slow-g++"
    slow.write_text('#!/bin/sh\ncase "$*" in *source.cc*) sleep 60;; esac\nexec g++ "$@"\n')
    slow.chmod(0o755)
    killed = subprocess.Popen(
        [sys.executable, str(program)], env=environment(tmp_path / "cache", CXX=str(slow))
    )
    locks = tmp_path / "cache" / "locks"
    for _ in range(600):
        if locks.is_dir() and list(tmp_path.glob("cache/.*/source.cc")):
            break
        killed.poll()
        import time

        time.sleep(0.1)
    killed.kill()
    killed.wait()
    done = run(program, environment(tmp_path / "cache"))
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes anywhere")
@pytest.mark.spec("case.no-tools")
def test_a_read_only_cache_still_serves(tmp_path, program):
    cache = tmp_path / "cache"
    assert run(program, environment(cache)).returncode == 0
    for path in [cache, *cache.rglob("*")]:
        path.chmod(path.stat().st_mode & ~0o222)
    done = run(program, environment(cache))
    assert done.returncode == 0, done.stderr
