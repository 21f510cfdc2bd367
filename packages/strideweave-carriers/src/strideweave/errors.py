"""Errors that are not one of Python's own kinds."""

from __future__ import annotations


class UnsupportedOperationPlan(NotImplementedError):
    """No plan exists for an operation, or a move, on the carriers at hand; the message says what there is."""


class ForkedProcessError(RuntimeError):
    """A request or a device carrier was inherited through ``fork``; start workers with ``spawn``."""
