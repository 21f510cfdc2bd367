"""Flight: a move under way between two carriers that are held for it; its own completion."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import forks
from ..carriers.base import Carrier
from ..carriers.pairs import drop_pair
from .completion import Completion

if TYPE_CHECKING:
    from ..tensor import Tensor
    from .convoy import Convoy


class Flight(Completion["Tensor"]):
    """What is held for a move, and what it will give. Ends once, whoever says so first, from any thread."""

    __slots__ = ("_held", "convoy", "keep", "tensor")

    def __init__(self, source: Carrier, target: Carrier) -> None:
        Completion.__init__(self)
        # Of two threads that end it one finds the carriers gone. A handle does not keep the source alive afterwards.
        self._held = [(source, target)]
        self.tensor: Tensor | None = None
        """What it gives, made before anything can end it."""
        self.convoy: Convoy | None = None
        """The device copies that it is one of; None where the host copies."""
        self.keep: Any = None
        """What must not be given back before the end."""

    def ended(self, error: BaseException | None) -> None:
        """Let both carriers go and settle."""
        try:
            source, target = self._held.pop()
        except IndexError:
            return
        drop_pair(source, target, error is None)
        tensor, self.tensor, self.keep = self.tensor, None, None
        self._settle(tensor if error is None else None, error)

    def abandon(self) -> None:
        """It was never begun, or has failed before anybody got a handle: let both carriers go."""
        try:
            source, target = self._held.pop()
        except IndexError:
            return
        self.keep = None
        drop_pair(source, target, False)

    def help(self) -> None:
        convoy = self.convoy
        if convoy is None:
            Completion.help(self)
        else:
            convoy.help()

    def look(self) -> None:
        convoy = self.convoy
        if convoy is None:
            Completion.look(self)
        elif self._born == forks.generation:
            convoy.look()

    def hurry(self) -> None:
        self.urgent = True
        convoy = self.convoy
        if convoy is None:
            Completion.hurry(self)
        else:
            convoy.hurry()
