"""The C++ test programs on this machine's GPU: each compares one part of the CUDA surface with a float64 host oracle.

tools/gpu_check.py lists and builds them, and runs them under compute-sanitizer when asked.
"""

from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[4]


def load_tool() -> ModuleType:
    """tools/gpu_check.py as a module."""
    spec = importlib.util.spec_from_file_location("gpu_check", ROOT / "tools" / "gpu_check.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


TOOL = load_tool()


@pytest.mark.spec("cpp.gpu")
@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.parametrize("program", TOOL.programs(), ids=lambda p: p.name)
def test_program(program, tmp_path: Path):
    """Every check inside the program holds, guard bytes included."""
    if shutil.which("nvcc") is None:
        pytest.skip("no nvcc on PATH")
    built = TOOL.build([program], tmp_path, ROOT / "cpp-runtime" / "tests" / "gpu", 1)[program]
    assert built.ok, built.text
    result = TOOL.run(program.name, [str(tmp_path / program.name)], timeout=120)
    assert result.ok, result.text


def test_programs_have_distinct_names():
    """Outputs of one build lie in one folder."""
    names = [p.name for p in TOOL.programs()]
    assert len(set(names)) == len(names)


def test_every_source_is_listed():
    """A program that no table names would never run."""
    sources = {p.stem for p in (ROOT / "cpp-runtime" / "tests" / "gpu").glob("*.cu")}
    assert {p.source for p in TOOL.programs()} == sources
