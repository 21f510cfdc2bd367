"""From kernels as HIR functions over strided views to TIR under a mesh of blocks and threads."""

from tilefoundry.codegen.cuda.schedule.kernel import accepts, instances_for, rows_of, schedule
from tilefoundry.codegen.cuda.schedule.prologues import prologue_refusal
from tilefoundry.codegen.cuda.schedule.row_shapes import row_shape

__all__ = ["accepts", "instances_for", "prologue_refusal", "row_shape", "rows_of", "schedule"]
