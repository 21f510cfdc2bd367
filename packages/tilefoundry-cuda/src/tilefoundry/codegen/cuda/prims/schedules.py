"""What an author asks of a tile-level statement that the runtime decides itself."""

from __future__ import annotations

from tilefoundry.codegen.cuda.authored.refusal import warn_placement
from tilefoundry.ir.tir import TileSchedule

__all__ = ["warn_of_schedule"]


def warn_of_schedule(subject: str, schedule: TileSchedule, split: str | None = None) -> None:
    """Name the stated keywords that change nothing, at the statement's own line.

    ``split`` is the spelling of the schedule's parts where those are among them.
    """
    default = TileSchedule()
    names = {"tile": "tile", "stages": "stages", "cluster": "cluster", "persistent": "persistent"}
    names |= {} if split is None else {"split": split}
    stated = [
        f"{shown}={getattr(schedule, name)}"
        for name, shown in names.items()
        if getattr(schedule, name) != getattr(default, name)
    ]
    if stated:
        verb = "changes" if len(stated) == 1 else "change"
        warn_placement(
            f"{subject}: {', '.join(stated)} {verb} nothing on CUDA, whose runtime chooses that itself; leave it out",
            schedule.place,
        )
