"""TileFoundry: write a model step once as a typed tensor program; evaluate, compile and check the same text.

This package is shared by several wheels; every public name is loaded when it is first asked for.
"""

from __future__ import annotations

import time
from importlib import import_module
from importlib.util import find_spec
from pkgutil import extend_path
from typing import TYPE_CHECKING, Any

__path__ = extend_path(__path__, __name__)

IMPORTED_AT = time.time()
"""Seconds of the epoch before which everything that this process runs of the package lay on disk."""

_HOME = {
    "tilefoundry.dsl": ("func", "module", "prim_func", "Tensor", "ConstTensor", "tile"),
    "tilefoundry.verbs": ("lower", "build", "compile", "jit"),
    "tilefoundry.evaluator": ("evaluate",),
    "tilefoundry.target": ("CompilerOptions", "CpuTarget", "CudaTarget", "Target"),
    "tilefoundry.inspection": ("view",),
    "tilefoundry.ir.core.module": ("LoadedModule", "Module"),
    "tilefoundry.ir.hir.function": ("Function",),
    "tilefoundry.ir.core.pattern": ("DimVarRangePat", "Pattern"),
    "tilefoundry.ir.core.kinds": ("BinaryKind", "ReduceKind", "UnaryKind"),
    "tilefoundry.ir.types": ("DType", "DimVar", "StorageKind", "TensorType", "TupleType", "ceildiv"),
    "tilefoundry.ir.types.shard": (
        "B",
        "Broadcast",
        "ComposedLayout",
        "Dynamic",
        "Layout",
        "Mesh",
        "P",
        "Partial",
        "S",
        "ShardLayout",
        "Split",
        "Topology",
        "make_mesh",
    ),
}
_WHEELS = {"runtime": "tilefoundry-runtime", "codegen": "tilefoundry-cuda"}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}

if TYPE_CHECKING:
    from tilefoundry.dsl import ConstTensor, Tensor, func, module, prim_func, tile
    from tilefoundry.evaluator import evaluate
    from tilefoundry.inspection import view
    from tilefoundry.ir.core.kinds import BinaryKind, ReduceKind, UnaryKind
    from tilefoundry.ir.core.module import LoadedModule, Module
    from tilefoundry.ir.core.pattern import DimVarRangePat, Pattern
    from tilefoundry.ir.hir.function import Function
    from tilefoundry.ir.types import DimVar, DType, StorageKind, TensorType, TupleType, ceildiv
    from tilefoundry.ir.types.shard import (
        B,
        Broadcast,
        ComposedLayout,
        Dynamic,
        Layout,
        Mesh,
        P,
        Partial,
        S,
        ShardLayout,
        Split,
        Topology,
        make_mesh,
    )
    from tilefoundry.target import CompilerOptions, CpuTarget, CudaTarget, Target
    from tilefoundry.verbs import build, compile, jit, lower

__all__ = [
    # authoring
    "ConstTensor",
    "Tensor",
    "func",
    "module",
    "prim_func",
    "tile",
    # verbs
    "CompilerOptions",
    "build",
    "compile",
    "evaluate",
    "jit",
    "lower",
    "view",
    # programs
    "Function",
    "LoadedModule",
    "Module",
    # types
    "DType",
    "DimVar",
    "StorageKind",
    "TensorType",
    "TupleType",
    "ceildiv",
    # patterns and kinds
    "BinaryKind",
    "DimVarRangePat",
    "Pattern",
    "ReduceKind",
    "UnaryKind",
    # meshes and layouts
    "B",
    "Broadcast",
    "ComposedLayout",
    "Dynamic",
    "Layout",
    "Mesh",
    "P",
    "Partial",
    "S",
    "ShardLayout",
    "Split",
    "Topology",
    "make_mesh",
    # targets
    "CpuTarget",
    "CudaTarget",
    "Target",
]


def __getattr__(name: str) -> Any:
    home = _MODULE_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{_whence(name)}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def _whence(name: str) -> str:
    """What to do about a part of the package that another wheel brings and that nobody imported."""
    wheel = _WHEELS.get(name)
    if wheel is None:
        return ""
    if find_spec(f"{__name__}.{name}") is None:
        return f"; it comes with the wheel {wheel}: pip install {wheel}"
    return f" before it is imported: import {__name__}.{name}"


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
