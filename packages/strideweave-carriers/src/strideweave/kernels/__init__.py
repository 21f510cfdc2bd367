"""Faster copies for devices, found under the entry point group ``strideweave.kernels``.

Torch copies a tensor whose axes come in another order one element at a time. A kernel that goes through shared memory
is several times quicker; one that needs Triton comes with this package. Without any, torch does the copying.
"""

from .finder import Transpose, kernel_for, transpose, use

__all__ = ["Transpose", "kernel_for", "transpose", "use"]
