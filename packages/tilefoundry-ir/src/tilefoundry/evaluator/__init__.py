"""The reference: walk a function over torch tensors."""

from tilefoundry.evaluator.dtypes import dtype_of_tensor, to_torch_dtype, torch_dtype
from tilefoundry.evaluator.evaluate import evaluate
from tilefoundry.evaluator.observe import ObservedCall, observed_calls

__all__ = ["ObservedCall", "dtype_of_tensor", "evaluate", "observed_calls", "to_torch_dtype", "torch_dtype"]
