"""The CPU target: placement, loops, C++17."""

from tilefoundry.codegen.cpu.backend import CpuBackend

__all__ = ["BACKEND", "CpuBackend"]

BACKEND = CpuBackend()
