"""The value-level ops (``tf.*``) by name: ``HIR_OPS``. One file per family holds schema, type rule and evaluator."""

from tilefoundry.ir.core.op import OpRegistry
from tilefoundry.ir.hir import binary

__all__ = ["HIR_OPS"]

HIR_OPS = OpRegistry("HIR")
for _family in (binary,):
    for _op in _family.OPS:
        HIR_OPS.register(_op)
