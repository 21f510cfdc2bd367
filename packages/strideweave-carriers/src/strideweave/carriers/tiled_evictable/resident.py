"""Projections whose tiles all lie on primary already, in one slab: one gather, and next to no bookkeeping before it.

The calling thread makes it itself, on a device on its current stream. It is by far the most frequent request, and
what it costs in Python is all that a caller can notice of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...tensor import Tensor, attach, made
from ..torch_storage import TorchStorage
from .awaiting import AwaitProjection
from .gather import gather_fresh
from .gather_node import gather_node
from .packing import Packing
from .projection import Queue
from .request import Request
from .selection import TileSelection
from .standing import pin_resident

if TYPE_CHECKING:
    from .carrier import TiledEvictable


def project_here(
    carrier: TiledEvictable, tensor: Tensor, selection: TileSelection, codes: tuple[int, ...], form: Packing
) -> AwaitProjection | None:
    """The projection into a fresh carrier; None, with nothing changed, where it takes more than one gather at once.

    Raises:
        RuntimeError: released meanwhile; a graph is being captured, and not every tile is held.
    """
    import torch

    core = carrier._core
    prototype = core.primary.prototype
    if not isinstance(prototype, TorchStorage) or torch.is_inference_mode_enabled():
        return None
    here = core.mover.here(core, codes, form.slots * core.dtype.itemsize)
    if here is None:
        return None
    request = Request(core, "project")
    standing = pin_resident(core, request, codes, "project")
    if standing is None:
        return None
    publication = _Publication(carrier)
    request.finish = request.abandon = publication.publish
    try:
        publication.hold()
        flat = gather_fresh(core, standing, form)
        if flat is not None:
            target = type(prototype).filled(flat, core.dtype)
            publication.compact = attach(made(target, form.layout), gather_node(carrier, tensor, selection))
    except BaseException as error:
        request.withdraw(error)
        raise
    if flat is None:
        request.withdraw(None)
        return None
    request.submitted = True
    event = core.mover.after(here, request.end, request.completion)
    return AwaitProjection(request, Queue.closed([event] if event is not None else []), publication.publish)


class _Publication:
    """The compact tensor, and the source, which is held until the former may be used."""

    __slots__ = ("_carrier", "_held", "compact")

    def __init__(self, carrier: TiledEvictable) -> None:
        self._carrier = carrier
        self._held: list[None] = []
        self.compact: Tensor | None = None

    def hold(self) -> None:
        """Keep the source from being written."""
        self._carrier.hold_for_read()
        self._held.append(None)

    def publish(self) -> Any:
        """Let the source go and give the compact tensor; from any thread, any number of times."""
        try:
            # Of two threads one finds it gone.
            self._held.pop()
        except IndexError:
            return self.compact
        self._carrier.drop_read()
        return self.compact
