"""Write typed tensor programs in Python: decorators, annotations, extents, meshes, ops.

``from tilefoundry.dsl import *`` is what a notebook starts with.
"""

from tilefoundry.dsl import T, tf
from tilefoundry.dsl.annotations import ConstTensor, Tensor
from tilefoundry.dsl.func_decorator import func
from tilefoundry.dsl.module_decorator import module
from tilefoundry.dsl.prim_decorator import prim_func
from tilefoundry.dsl.ranges import tile
from tilefoundry.ir.core.kinds import BinaryKind, ReduceKind, UnaryKind
from tilefoundry.ir.core.pattern import DimVarRangePat
from tilefoundry.ir.types import DimVar, ceildiv
from tilefoundry.ir.types.shard import B, Mesh, P, S, Topology

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
    # ops and kinds
    "T",
    "tf",
    "BinaryKind",
    "ReduceKind",
    "UnaryKind",
]
