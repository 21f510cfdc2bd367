"""The reference: walk a function over torch tensors."""

from tilefoundry.evaluator.evaluate import evaluate

__all__ = ["evaluate"]
