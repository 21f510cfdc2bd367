"""Element types, extents, tensor types and storage kinds."""

from tilefoundry.ir.types.dim import Dim, DimExpr, DimVar, bounds, ceildiv, dim_vars, evaluate_dim, substitute
from tilefoundry.ir.types.dtype import DType
from tilefoundry.ir.types.storage import StorageKind
from tilefoundry.ir.types.tensor_type import TensorType, TupleType, Type, scalar, type_dim_vars

__all__ = [
    "DType",
    "Dim",
    "DimExpr",
    "DimVar",
    "StorageKind",
    "TensorType",
    "TupleType",
    "Type",
    "bounds",
    "ceildiv",
    "dim_vars",
    "evaluate_dim",
    "scalar",
    "substitute",
    "type_dim_vars",
]
