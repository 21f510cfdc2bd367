"""Projections whose tiles all lie on primary already, in one slab: one gather, and next to no bookkeeping before it.

The calling thread makes it itself, on a device on its current stream. It is by far the most frequent request, and
what it costs in Python is all that a caller can notice of it: one object holds what a ``Request`` and its parts hold
for others, and the tiles are pinned as a group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...movement.completion import Completion
from ...tensor import Tensor, attach, made
from .awaiting import AwaitProjection
from .gather import gather_fresh
from .gather_node import gather_node
from .packing import Packing
from .selection import TileSelection
from .standing import Standing, pin_resident, unpin_resident

if TYPE_CHECKING:
    from .carrier import TiledEvictable
    from .core import Core


class Gathering:
    """One such projection, from its gather to its end. It is what its handle refers to."""

    __slots__ = ("compact", "completion", "core", "events", "standing")

    what = "project"
    holder: int | None = None
    """No thread's ``with`` block ends it."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self.completion: Completion[Tensor] = Completion()
        self.standing: Standing | None = None
        self.compact: Tensor | None = None
        self.events: list[Any] = []

    def ended(self, error: BaseException | None) -> None:
        """The gather has run, or failed; called once, from any thread."""
        core = self.core
        unpin_resident(core, self, self.standing)  # type: ignore[arg-type] # it was pinned before anything ran
        if error is None:
            self.completion.resolve(self.compact)  # type: ignore[arg-type] # likewise made before
        else:
            self.completion.reject(error)
        if core.deferred:
            core.poke()

    def withdraw(self) -> None:
        """Undo one that submitted nothing."""
        core = self.core
        unpin_resident(core, self, self.standing)  # type: ignore[arg-type] # only called after pinning
        if core.deferred:
            core.poke()

    def is_closed(self) -> bool:
        """Whether nothing is left to submit."""
        return True

    def wait(self) -> list[Any]:
        """The event after which the gather has run, if there is one: nothing is left to submit."""
        return self.events

    def publish(self) -> Tensor:
        """The compact tensor, which work on the gather's stream may use at once."""
        return self.compact  # type: ignore[return-value] # made before anybody has the handle


def project_here(
    carrier: TiledEvictable, tensor: Tensor, selection: TileSelection, codes: tuple[int, ...], form: Packing
) -> AwaitProjection | None:
    """The projection into a fresh carrier; None, with nothing changed, where it takes more than one gather at once.

    The primary lies in torch storage, and the caller is not in inference mode.

    Raises:
        RuntimeError: released meanwhile; a graph is being captured, and not every tile is held.
    """
    core = carrier._core
    prototype = core.primary.prototype
    # A write that another thread has begun is refused on the way that everything can take.
    if carrier._writers or core.table.lacks(codes[0]):
        return None
    here = core.mover.here(core, codes, form.slots * core.dtype.itemsize)
    if here is None:
        return None
    gathering = Gathering(core)
    standing = gathering.standing = pin_resident(core, gathering, codes, "project")
    if standing is None:
        return None
    try:
        flat = gather_fresh(core, standing, form, here)
        if flat is not None:
            target = type(prototype).filled(flat, core.dtype)  # type: ignore[attr-defined] # in torch storage
            gathering.compact = attach(made(target, form.layout), gather_node(carrier, tensor, selection))
    except BaseException:
        gathering.withdraw()
        raise
    if flat is None:
        gathering.withdraw()
        return None
    event = core.mover.after(here, gathering.ended, gathering.completion)
    if event is not None:
        gathering.events.append(event)
    return AwaitProjection(gathering, gathering, gathering.publish)
