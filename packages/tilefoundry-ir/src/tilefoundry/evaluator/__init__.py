"""The reference: walk a function over torch tensors."""

from tilefoundry.evaluator.evaluate import evaluate
from tilefoundry.evaluator.observe import ObservedCall, observed_calls

__all__ = ["ObservedCall", "evaluate", "observed_calls"]
