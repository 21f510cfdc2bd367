"""TileFoundry: write a model step once as a typed tensor program; evaluate, compile and check the same text.

This package is shared by several wheels; every public name is loaded when it is first asked for.
"""

from __future__ import annotations

import sys
import time
from importlib import import_module
from importlib.machinery import PathFinder
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
    if PathFinder.find_spec(f"{__name__}.{name}", __path__) is None:
        return f"; {_remedy(wheel)}"
    return f" before it is imported: import {__name__}.{name}"


def _remedy(wheel: str) -> str:
    return f"it comes with the wheel {wheel}: pip install {wheel}"


class _AbsentWheel:
    """The last finder to be asked: says which wheel an import of this package lacks.

    Whoever only asks, as ``importlib.util.find_spec`` does, gets None as for any module that is not there.
    """

    @staticmethod
    def find_spec(fullname: str, path: Any = None, target: Any = None) -> None:
        """None; ModuleNotFoundError where the module of an absent wheel is being imported."""
        package, _, name = fullname.rpartition(".")
        if package == __name__ and name in _WHEELS and _imports(sys._getframe(1)):
            raise ModuleNotFoundError(
                f"No module named {fullname!r}; {_remedy(_WHEELS[name])}", name=fullname
            )


def _imports(frame: Any) -> bool:
    """Whether the import system asks in order to import: its own function is the one that asked."""
    return frame.f_back is not None and frame.f_back.f_code.co_name == "_find_and_load_unlocked"


if not any(type(finder).__name__ == _AbsentWheel.__name__ for finder in sys.meta_path):
    sys.meta_path.append(_AbsentWheel())


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
