"""From kernels as HIR functions over strided views to loops in TIR."""

from tilefoundry.codegen.cpu.schedule.kernel import KernelSpec, bind_text, schedule

__all__ = ["KernelSpec", "bind_text", "schedule"]
