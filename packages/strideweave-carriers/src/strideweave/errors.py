"""Errors that are not one of Python's own kinds."""

from __future__ import annotations

from numbers import Number


class UnsupportedOperationPlan(NotImplementedError):
    """No plan exists for an operation, or a move, on the carriers at hand; the message says what there is."""


class ForkedProcessError(RuntimeError):
    """A request or a device carrier was inherited through ``fork``; start workers with ``spawn``."""


def no_tensor(subject: str, value: object, wanted: str = "a Tensor") -> TypeError:
    """The error for ``value`` where a Tensor is wanted: for a handle on one, or torch's class of the same name, too."""
    kind = type(value)
    library = kind.__module__.partition(".")[0]
    if library == "strideweave" and hasattr(value, "wait"):
        return TypeError(f"{subject}: got a pending {kind.__name__}; call wait() and pass its Tensor")
    if library not in ("torch", "numpy"):
        return TypeError(f"{subject}: expected {wanted}, got {kind.__name__}")
    way = "pass a Python number" if isinstance(value, Number) else f"wrap it with from_{library}"
    return TypeError(f"{subject}: expected {wanted}, got {library}.{kind.__name__}; {way}")
