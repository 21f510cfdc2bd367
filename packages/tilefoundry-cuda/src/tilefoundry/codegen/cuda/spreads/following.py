"""A kernel whose values have layouts: by the schedule where they are its own, else value by value."""

from __future__ import annotations

from tilefoundry.codegen.cpu.schedule import KernelSpec
from tilefoundry.codegen.cuda.authored import NotFollowed, schedule_placed
from tilefoundry.codegen.cuda.schedule import schedule
from tilefoundry.codegen.cuda.spreads.reading import fitting_layouts, scheduled_spec
from tilefoundry.ir.tir import PrimFunction

__all__ = ["follow"]


def follow(spec: KernelSpec) -> PrimFunction:
    """The kernel that does what the layouts say.

    Raises:
        NotFollowed: there is none; the message names layouts that fit, where the kernel is of a form that has some.
    """
    own = scheduled_spec(spec)
    if own is not None:
        return schedule(own)
    try:
        return schedule_placed(spec)
    except NotFollowed as error:
        fitting = fitting_layouts(spec)
        if fitting is None:
            raise
        raise NotFollowed(f"{error}; {fitting}") from error
