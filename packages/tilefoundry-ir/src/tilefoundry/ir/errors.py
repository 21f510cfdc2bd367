"""One exception class per stage; every message names subject, actual, expected and remedy."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

__all__ = [
    "CheckpointError",
    "DslError",
    "EvaluationError",
    "LoweringError",
    "TileFoundryError",
    "TypeRuleError",
    "UnknownNameError",
    "UnsupportedError",
    "VerificationError",
    "briefly",
]

Result = TypeVar("Result")


class TileFoundryError(Exception):
    """Base of every error that a stage of this project raises about a program."""


class TypeRuleError(TileFoundryError, TypeError):
    """An operation was given operands or attributes that its type rule refuses."""


class DslError(TileFoundryError, SyntaxError):
    """A DSL source cannot be read; the message carries file, line, column and the source line.

    ``filename``, ``lineno``, ``offset`` (from 1) and ``text`` say where, as on every ``SyntaxError``; they are
    None where there is no source to point at.
    """

    def __str__(self) -> str:
        if self.lineno is None:
            return str(self.msg)
        where = f"{self.filename}:{self.lineno}:{self.offset}: {self.msg}"
        if self.text is None:
            return where
        width = 1
        if self.end_lineno == self.lineno and self.end_offset is not None and self.offset is not None:
            width = max(1, self.end_offset - self.offset)
        line = self.text.rstrip("\n")
        return f"{where}\n    {line}\n    {' ' * ((self.offset or 1) - 1)}{'^' * width}"


class EvaluationError(TileFoundryError, ValueError):
    """Arguments of an evaluation disagree with the function's declared parameters."""


class CheckpointError(TileFoundryError, ValueError):
    """A checkpoint is damaged, or a tensor of it disagrees with the weight's declaration."""


class UnknownNameError(TileFoundryError, KeyError):
    """Nothing has the name asked for; unlike a bare KeyError it prints as its message."""

    __str__ = Exception.__str__


class VerificationError(TileFoundryError, ValueError):
    """A pass received or produced a program that breaks an invariant of the IR."""


class LoweringError(TileFoundryError, ValueError):
    """A program cannot be lowered to the asked target."""


class UnsupportedError(LoweringError, NotImplementedError):
    """A target refuses a construct by name; the message says what to write instead."""


def briefly(kinds: type[Exception] | tuple[type[Exception], ...], action: Callable[[], Result]) -> Result:
    """What ``action`` gives; an error of ``kinds`` is raised anew from here, without the frames that led to it.

    For errors whose message names everything: what the reader gave, where, and what to do about it.
    """
    try:
        return action()
    except kinds as error:
        raise error.with_traceback(None) from error.__cause__
