"""Precompiled headers of NVRTC. Oracle: what the compiler makes without them."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tilefoundry import CompilerOptions
from tilefoundry.codegen.cuda.link import device_headers, device_tool
from tilefoundry.codegen.cuda.toolchain import DeviceHeaders, find_nvrtc

TEXT = """#define TILEFOUNDRY_USE_ELEMENTWISE
#include <tilefoundry/runtime.h>

namespace tilefoundry {
extern "C" __global__ void halve(float* p) { p[threadIdx.x] = ops::mul_op{}(p[threadIdx.x], 0.5f); }
}
"""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def flags() -> tuple[str, ...]:
    tool = device_tool("sm_90a", CompilerOptions())
    return (*tool.flags, *tool.includes)


@pytest.fixture(scope="module")
def headers(tmp_path_factory: pytest.TempPathFactory) -> DeviceHeaders:
    """Made once; skipped where a system does not let a process choose its addresses."""
    tool = device_tool("sm_90a", CompilerOptions())
    made = device_headers(tmp_path_factory.mktemp("a cache"), tool, TEXT)
    if made.build() is None:
        pytest.skip("this system randomises addresses for every process")
    return made


def test_the_cubin_is_the_one_that_plain_compilation_gives(headers, flags):
    assert headers.compile(TEXT, "image0.cu") == find_nvrtc().compile(TEXT, "image0.cu", flags)
    assert not list(headers.folder.glob("making-*"))


def test_other_directives_do_not_use_it(headers):
    other = TEXT.replace("ELEMENTWISE", "REDUCE")
    assert headers.compile(other, "image0.cu") is None
    assert (
        device_headers(headers.root, device_tool("sm_90a", CompilerOptions()), other).folder != headers.folder
    )


def test_a_fault_in_the_text_is_left_to_the_caller_and_costs_nothing_else(headers):
    assert headers.compile(TEXT.replace("0.5f", "half_"), "image0.cu") is None
    assert headers.file.is_file() and headers.compile(TEXT, "image0.cu") is not None


def test_the_variable_turns_it_off(headers, monkeypatch):
    monkeypatch.setenv("TILEFOUNDRY_PRECOMPILED", "0")
    assert headers.compile(TEXT, "image0.cu") is None and headers.build() is None


def test_a_damaged_file_falls_back(headers, tmp_path):
    damaged = device_headers(tmp_path, device_tool("sm_90a", CompilerOptions()), TEXT)
    damaged.folder.mkdir(parents=True)
    damaged.file.write_bytes(headers.file.read_bytes()[:4096])
    assert damaged.compile(TEXT, "image0.cu") in (None, headers.compile(TEXT, "image0.cu"))


def test_the_second_wish_makes_it_in_the_background(headers, tmp_path: Path):
    wished = device_headers(tmp_path, device_tool("sm_90a", CompilerOptions()), TEXT)
    wished.want()
    assert not wished.file.exists() and not (wished.folder / "claim").exists()
    wished.want()
    deadline = time.monotonic() + 120
    while (wished.folder / "claim").exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert wished.file.is_file()
