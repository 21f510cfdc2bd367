"""From kernels as HIR functions over strided views to TIR under a mesh of blocks and threads."""

from tilefoundry.codegen.cuda.schedule.kernel import accepts, instances_for, schedule

__all__ = ["accepts", "instances_for", "schedule"]
