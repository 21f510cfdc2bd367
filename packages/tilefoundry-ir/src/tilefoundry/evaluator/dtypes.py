"""Between DTypes and torch dtypes; the definitions live beside the ops."""

from tilefoundry.ir.hir.torch_dtypes import dtype_of_tensor, torch_dtype

__all__ = ["dtype_of_tensor", "to_torch_dtype", "torch_dtype"]

to_torch_dtype = torch_dtype
"""The name that model files use."""
