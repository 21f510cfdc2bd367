"""Targets: what a program is compiled for, and the options of a compilation."""

from tilefoundry.target.cpu import CpuTarget
from tilefoundry.target.cuda import CudaTarget
from tilefoundry.target.options import CompilerOptions
from tilefoundry.target.target import Target

__all__ = ["CompilerOptions", "CpuTarget", "CudaTarget", "Target"]
