"""Statements that a tensor program calls, as one kernel of it."""

from __future__ import annotations

from dataclasses import replace

from tilefoundry.codegen.cuda.prims.kernel import lower_kernel
from tilefoundry.ir.tir import PrimFunction

__all__ = ["lower_statements"]


def lower_statements(function: PrimFunction) -> PrimFunction:
    """The kernel of a ``@prim_func``, over the levels that it declares.

    Raises:
        NotFollowed: a statement without a form on a GPU.
    """
    return replace(lower_kernel(function, tuple(function.topologies or ())), topologies=None)
