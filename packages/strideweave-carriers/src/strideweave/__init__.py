"""Tensors over carriers: flat runs of slots in Python, host memory, device memory, files and tiles.

Importing this package loads neither torch nor numpy; each is loaded where it is first needed. The tiled carriers,
which are half of its modules, come with the first use of one of their names.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from . import shipped
from ._identity import check_only_distribution
from .algebra import (
    blocked_product,
    coalesce,
    complement,
    composition,
    flat_divide,
    logical_divide,
    logical_product,
    raked_product,
    tiled_divide,
    zipped_divide,
)
from .autograd.engine import grad
from .autograd.mode import enable_grad, is_grad_enabled, no_grad, set_grad_enabled
from .autograd.node import Node
from .carriers.base import Carrier
from .carriers.block_device import BlockDevice, BlockDeviceCarrier
from .carriers.cpu import CPU
from .carriers.cuda import CUDA
from .carriers.definition import CarrierDefinition, definition_of, install_definition
from .carriers.evictable import Evictable
from .carriers.file_backed import FileBacked
from .carriers.generic import Generic
from .carriers.metal import Metal
from .constructors import (
    from_dlpack,
    from_numpy,
    from_torch,
    full,
    ones,
    tensor,
    to_dlpack,
    to_numpy,
    to_torch,
    tolist,
    zeros,
)
from .dtypes import (
    BFloat16,
    Bool,
    DType,
    Float8E4M3,
    Float8E5M2,
    Float16,
    Float32,
    Int8,
    Int32,
    Int64,
    UInt8,
)
from .errors import ForkedProcessError, UnsupportedOperationPlan
from .layout import Layout
from .movement.completion import AwaitMove, AwaitResult
from .movement.move import move, move_async
from .movement.transfer import register_host_carrier, register_transfer
from .operations.cast import cast, copy
from .operations.dispatch import (
    operation_capabilities,
    plan_refusal,
    require_operation_plan,
    supports_operation_plan,
)
from .operations.elementwise import add, div, elementwise_mul, mul, sub, where
from .operations.index_select import index_select
from .operations.kernels import python_family, register_family
from .operations.matmul import matmul
from .operations.reduce import reduce_max, reduce_mean, reduce_min, reduce_sum
from .operations.softmax import softmax
from .operations.unary import exp, gelu, log, neg, relu, rsqrt, sigmoid, silu, sqrt, tanh
from .operations.views import broadcast_to, rearrange, reshape
from .shape import Shape
from .tensor import Tensor

if TYPE_CHECKING:
    from .carriers.tiled_evictable import (
        LFU,
        LRU,
        AwaitProjection,
        AwaitResidency,
        Bundle,
        DeviceBudget,
        PinSet,
        Prefetcher,
        ResidencyPlan,
        ResidencyPolicy,
        TiledEvictable,
        TiledResidencyFacet,
        TileSelection,
        TileSet,
    )

__version__ = "0.1.0"

check_only_distribution()
shipped.install()

__all__ = [
    # values
    "Shape",
    "Layout",
    "Tensor",
    # layout algebra
    "coalesce",
    "composition",
    "complement",
    "logical_divide",
    "zipped_divide",
    "tiled_divide",
    "flat_divide",
    "logical_product",
    "blocked_product",
    "raked_product",
    # element types
    "DType",
    "Float32",
    "Float16",
    "BFloat16",
    "Float8E4M3",
    "Float8E5M2",
    "Int64",
    "Int32",
    "Int8",
    "UInt8",
    "Bool",
    # carriers
    "Carrier",
    "CarrierDefinition",
    "install_definition",
    "definition_of",
    "Generic",
    "CPU",
    "CUDA",
    "Metal",
    "FileBacked",
    "BlockDevice",
    "BlockDeviceCarrier",
    "Evictable",
    # tiled carriers
    "TiledEvictable",
    "TiledResidencyFacet",
    "TileSelection",
    "TileSet",
    "ResidencyPlan",
    "ResidencyPolicy",
    "AwaitProjection",
    "AwaitResidency",
    "LRU",
    "LFU",
    "PinSet",
    "Prefetcher",
    "Bundle",
    "DeviceBudget",
    # making and handing over
    "tensor",
    "zeros",
    "ones",
    "full",
    "from_torch",
    "to_torch",
    "from_numpy",
    "to_numpy",
    "from_dlpack",
    "to_dlpack",
    "tolist",
    # operations
    "add",
    "sub",
    "mul",
    "elementwise_mul",
    "div",
    "neg",
    "relu",
    "exp",
    "log",
    "sqrt",
    "rsqrt",
    "sigmoid",
    "tanh",
    "silu",
    "gelu",
    "softmax",
    "reduce_sum",
    "reduce_mean",
    "reduce_max",
    "reduce_min",
    "matmul",
    "where",
    "cast",
    "copy",
    "index_select",
    "rearrange",
    "reshape",
    "broadcast_to",
    # plans
    "UnsupportedOperationPlan",
    "operation_capabilities",
    "supports_operation_plan",
    "require_operation_plan",
    "plan_refusal",
    "register_family",
    "python_family",
    # autograd
    "Node",
    "grad",
    "no_grad",
    "enable_grad",
    "set_grad_enabled",
    "is_grad_enabled",
    # movement
    "move",
    "move_async",
    "AwaitResult",
    "AwaitMove",
    "register_transfer",
    "register_host_carrier",
    "ForkedProcessError",
]

_TILED = frozenset(
    (
        "TiledEvictable",
        "TileSelection",
        "TileSet",
        "ResidencyPlan",
        "ResidencyPolicy",
        "AwaitProjection",
        "AwaitResidency",
        "TiledResidencyFacet",
        "LRU",
        "LFU",
        "PinSet",
        "Prefetcher",
        "Bundle",
        "DeviceBudget",
    )
)


def __getattr__(name: str) -> object:
    if name not in _TILED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(".carriers.tiled_evictable", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
