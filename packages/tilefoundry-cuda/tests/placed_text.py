"""A placed program as text, read back. Oracle of ``same_code``: the source of the program that was placed."""

from __future__ import annotations

import importlib.util
import itertools
import sys
import tempfile
from pathlib import Path
from typing import Any

from tilefoundry import CompilerOptions, lower
from tilefoundry.codegen import place
from tilefoundry.codegen.cpu import BACKEND as CPU
from tilefoundry.codegen.cuda import BACKEND as CUDA
from tilefoundry.inspection import as_script
from tilefoundry.ir.core.module import Module
from tilefoundry.target import CpuTarget, CudaTarget, Target

H200 = CudaTarget("nvidia.h200_sxm")
_COUNT = itertools.count()


def read_back(text: str, name: str) -> Module:
    """What the text calls ``name``, run as a module file of its own."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"placed_{next(_COUNT)}.py"
        file.write_text(text)
        spec = importlib.util.spec_from_file_location(file.stem, file)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[file.stem] = module
        try:
            spec.loader.exec_module(module)
        finally:
            del sys.modules[file.stem]
        return getattr(module, name)


def source_of(program: Any, target: Target) -> str:
    """Everything that is compiled, names and comments included."""
    backend, options = CPU if isinstance(target, CpuTarget) else CUDA, CompilerOptions()
    resolved = backend.resolve(target)
    return backend.emit(lower(program, target=resolved, options=options), resolved, options).source


def same_code(program: Any, target: Target) -> str:
    """The text of the placed program, which gives the program's own code and, placed again, the same text."""
    placed = place(program, target=target)
    text = as_script(placed)
    again = read_back(text, placed.name)
    wanted = source_of(program, target)
    assert source_of(again, target) == wanted, text
    assert source_of(placed, target) == wanted, text
    assert as_script(place(again, target=target)) == text
    return text
