"""The value-level ops (``tf.*``) by name: ``HIR_OPS``.

One file per family holds schema, type rule and evaluator side by side.
"""

from tilefoundry.ir.core.op import OpRegistry
from tilefoundry.ir.hir import (
    activation,
    attention,
    binary,
    convolution,
    creation,
    indexing,
    joining,
    matmul,
    normalization,
    quantization,
    reduction,
    rope,
    selection,
    shape,
    sharding,
    slicing,
    unary,
)
from tilefoundry.ir.hir.quantization import QUANT_LIMITS

__all__ = ["HIR_OPS", "QUANT_LIMITS"]

HIR_OPS = OpRegistry("HIR")
for _family in (
    binary,
    unary,
    activation,
    normalization,
    matmul,
    convolution,
    rope,
    attention,
    reduction,
    quantization,
    shape,
    slicing,
    joining,
    indexing,
    selection,
    creation,
    sharding,
):
    for _op in _family.OPS:
        HIR_OPS.register(_op)
