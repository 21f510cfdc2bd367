"""One exception class per stage; every message names subject, actual, expected and remedy."""

from __future__ import annotations

__all__ = [
    "CheckpointError",
    "DslError",
    "EvaluationError",
    "LoweringError",
    "TileFoundryError",
    "TypeRuleError",
    "UnsupportedError",
    "VerificationError",
]


class TileFoundryError(Exception):
    """Base of every error that a stage of this project raises about a program."""


class TypeRuleError(TileFoundryError, TypeError):
    """An operation was given operands or attributes that its type rule refuses."""


class DslError(TileFoundryError, SyntaxError):
    """A DSL source cannot be read; the message carries file, line, column and the source line."""


class EvaluationError(TileFoundryError, ValueError):
    """Arguments of an evaluation disagree with the function's declared parameters."""


class CheckpointError(TileFoundryError, ValueError):
    """A checkpoint is damaged, or a tensor of it disagrees with the weight's declaration."""


class VerificationError(TileFoundryError, ValueError):
    """A pass received or produced a program that breaks an invariant of the IR."""


class LoweringError(TileFoundryError, ValueError):
    """A program cannot be lowered to the asked target."""


class UnsupportedError(LoweringError, NotImplementedError):
    """A target refuses a construct by name; the message says what to write instead."""
