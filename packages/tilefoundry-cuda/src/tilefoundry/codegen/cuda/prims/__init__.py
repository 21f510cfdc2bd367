"""Statement-level programs: ``@prim_func`` kernels, and hosts that launch them."""

from tilefoundry.codegen.cuda.prims.called import lower_statements
from tilefoundry.codegen.cuda.prims.program import LowerPrims, OnGraphs

__all__ = ["LowerPrims", "OnGraphs", "lower_statements"]
