"""The CUDA target."""

from tilefoundry.codegen.cuda.backend import CudaBackend

__all__ = ["BACKEND"]

BACKEND = CudaBackend()
"""What the entry point ``tilefoundry.targets:cuda`` names."""
