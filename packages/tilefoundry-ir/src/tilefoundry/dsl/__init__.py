"""Write typed tensor programs in Python: decorators, annotations, extents, meshes, ops.

``from tilefoundry.dsl import *`` is what a notebook starts with. Every name is loaded when it is first asked
for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

_HOME = {
    "tilefoundry.dsl.func_decorator": ("func",),
    "tilefoundry.dsl.module_decorator": ("module",),
    "tilefoundry.dsl.prim_decorator": ("prim_func",),
    "tilefoundry.dsl.annotations": ("ConstTensor", "Tensor"),
    "tilefoundry.dsl.ranges": ("tile",),
    "tilefoundry.ir.core.kinds": ("BinaryKind", "ReduceKind", "UnaryKind"),
    "tilefoundry.ir.core.pattern": ("DimVarRangePat",),
    "tilefoundry.ir.types": ("DimVar", "ceildiv"),
    "tilefoundry.ir.types.shard": ("B", "Mesh", "P", "S", "Topology", "persistent"),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}
_SUBMODULES = ("T", "tf")

if TYPE_CHECKING:
    from tilefoundry.dsl import T, tf
    from tilefoundry.dsl.annotations import ConstTensor, Tensor
    from tilefoundry.dsl.func_decorator import func
    from tilefoundry.dsl.module_decorator import module
    from tilefoundry.dsl.prim_decorator import prim_func
    from tilefoundry.dsl.ranges import tile
    from tilefoundry.ir.core.kinds import BinaryKind, ReduceKind, UnaryKind
    from tilefoundry.ir.core.pattern import DimVarRangePat
    from tilefoundry.ir.types import DimVar, ceildiv
    from tilefoundry.ir.types.shard import B, Mesh, P, S, Topology, persistent

__all__ = [
    # decorators
    "func",
    "module",
    "prim_func",
    # annotations and extents
    "ConstTensor",
    "DimVar",
    "DimVarRangePat",
    "Tensor",
    "ceildiv",
    "tile",
    # meshes and layouts
    "B",
    "Mesh",
    "P",
    "S",
    "Topology",
    "persistent",
    # ops and kinds
    "T",
    "tf",
    "BinaryKind",
    "ReduceKind",
    "UnaryKind",
]


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return import_module(f"{__name__}.{name}")
    home = _MODULE_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
