"""project: checks in their order, policy, destination, then the gather; and the node of the result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...errors import no_tensor
from ...movement.completion import AwaitResult
from ...movement.interrupts import interrupts_deferred
from ...tensor import Tensor, attach, detached
from ..base import Carrier
from .arriving import project_arriving
from .awaiting import AwaitProjection
from .core import Core
from .gather import gather
from .gather_node import gather_node
from .packing import ORDERS, Order, Packing, packing
from .projection import Projection, Queue
from .request import Request
from .requests import ask_policy, check_conflicts, check_readable, enter, submit
from .resident import project_here
from .selection import TileSelection
from .slots import Slot
from .tensors import flat_bits
from .tile_reader import groups, read_tiles

if TYPE_CHECKING:
    from .carrier import TiledEvictable

KEPT = 256
"""Forms of compact tensors that a carrier remembers."""


def check_source(carrier: TiledEvictable, tensor: object, verb: str, role: str = "tensor") -> Tensor:
    """``tensor`` if it is a Tensor on exactly ``carrier``.

    Raises:
        TypeError: it is not.
    """
    if isinstance(tensor, AwaitResult):
        raise TypeError(
            f"{verb} {role}: got a pending {type(tensor).__name__}; call wait() and pass its Tensor"
        )
    if not isinstance(tensor, Tensor):
        raise no_tensor(f"{verb} {role}", tensor)
    if tensor.carrier is not carrier:
        raise TypeError(f"{verb} {role}: the {tensor.describe()} is not backed by this carrier")
    return tensor


def check_selection(selection: object, verb: str) -> TileSelection:
    """``selection`` if it is a TileSelection; TypeError otherwise."""
    if isinstance(selection, TileSelection):
        return selection
    if isinstance(selection, tuple) and selection and isinstance(selection[0], TileSelection):
        raise TypeError(
            f"{verb}: expected a TileSelection, got a tuple that begins with one; from_tensor gives the selection and "
            "the inverse, pass the first"
        )
    raise TypeError(
        f"{verb}: expected a TileSelection, got {type(selection).__name__} {selection!r}; make one with "
        "TileSelection([[...], ...]), a list of coordinates per grid axis"
    )


def project(
    carrier: TiledEvictable, tensor: Any, selection: Any, destination: Any, order: Order
) -> AwaitProjection:
    """See ``TiledEvictable.project``."""
    core = carrier._core
    # The ordinary case is looked at first: a call of a check takes longer than what it checks.
    if type(tensor) is not Tensor or tensor._carrier is not carrier:
        check_source(carrier, tensor, "project")
    chosen = selection if type(selection) is TileSelection else check_selection(selection, "project")
    if destination is not None:
        _check_destination_type(core, destination)
    if carrier._released or carrier._stranded or core.orphaned or carrier._policy is not None:
        carrier._ready("project")
    codes = chosen.bind(core.geometry, "project")
    form = _packing(carrier, tensor, chosen, order)
    ordinary = destination is None and carrier._policy is None and core.in_torch
    if ordinary and not core.mover.in_inference():
        with interrupts_deferred():
            handle = project_here(carrier, tensor, chosen, codes, form)
            if handle is None:
                handle = project_arriving(carrier, tensor, chosen, codes, form)
        if handle is not None:
            return handle
    if destination is not None:
        _check_destination(carrier, destination, form)
    prepared = core.mover.prepare_for(core, codes)
    plan = None
    if carrier._policy is not None:
        # Without a policy this is checked once, when the tiles are pinned.
        check_conflicts(core, codes, "project")
        check_readable(core, codes, "project")
        plan = ask_policy(core, carrier._policy, codes, "projection")
    with interrupts_deferred():
        return _begin(carrier, tensor, chosen, codes, form, destination, plan, prepared)


def _packing(carrier: TiledEvictable, tensor: Tensor, selection: TileSelection, order: Order) -> Packing:
    # By identity: a layout is frozen, hashing its trees takes as long as the gather, and the entry keeps it.
    if type(order) is not str:
        raise TypeError(
            f"project order: expected {' or '.join(map(repr, ORDERS))}, got {type(order).__name__} {order!r}"
        )
    layout, counts = tensor._layout, selection._counts
    key = (id(layout), tensor._offset, counts, order)
    kept = carrier._forms.get(key)
    if kept is not None:
        return kept[0]
    if order not in ORDERS:
        raise ValueError(f"project: order {order!r} is none of {', '.join(ORDERS)}")
    inside = carrier._footprint(tensor.layout, tensor.offset, "project")
    form = packing(inside, carrier._core.geometry, counts, order)
    if len(carrier._forms) >= KEPT:
        carrier._forms.clear()
    carrier._forms[key] = form, layout
    return form


def _check_destination_type(core: Core, destination: object) -> None:
    wanted = type(core.primary.prototype)
    if type(destination) is not wanted:
        raise TypeError(
            f"project destination: expected exactly a {wanted.__name__} carrier, as the primary is, got "
            f"{type(destination).__name__}; project there and move the result"
        )
    assert isinstance(destination, Carrier)
    if destination.dtype() is not core.dtype:
        raise TypeError(
            f"project destination: holds {destination.dtype()}, the tiles {core.dtype}; make it with dtype={core.dtype}"
        )


def _check_destination(carrier: TiledEvictable, destination: Carrier, form: Packing) -> None:
    destination.require_writable("project destination")
    if 0 < destination.size() < form.slots:
        raise ValueError(
            f"project destination: has {destination.size()} slots, the compact tensor needs {form.slots}"
        )
    refuse_own_storage(carrier, destination, "project destination")


def refuse_own_storage(carrier: TiledEvictable, given: Carrier, what: str) -> None:
    """Raise RuntimeError where a carrier that is read or written beside the tiles is made of the same memory."""
    core = carrier._core
    for own in (*core.primary.carriers(), *core.secondary.carriers(), *carrier._tiers):
        if given.size() and own.size() and given.shares_storage(own):
            raise RuntimeError(f"{what}: shares storage with a tier of the carrier; pass other memory")


def _begin(
    carrier: TiledEvictable,
    tensor: Tensor,
    selection: TileSelection,
    codes: tuple[int, ...],
    form: Packing,
    destination: Carrier | None,
    plan: Any,
    prepared: Any,
) -> AwaitProjection:
    core = carrier._core
    request = Request(core, "project")
    promote = enter(core, request, codes, plan, "project")
    try:
        publication = _Publication(carrier, core, destination, form)
        attach(publication.tensor, gather_node(carrier, tensor, selection))
    except BaseException as error:
        request.withdraw(error)
        raise
    request.finish, request.abandon = publication.publish, lambda: publication.abandon(request)
    work = Projection(core, request, codes, form, publication.target, prepared, keep=publication.keeps)
    publication.queue = work.queue
    submit(request, lambda: work.run(codes, promote))
    return AwaitProjection(request, work.queue, publication.publish)


def gather_pinned(carrier: TiledEvictable, tensor: Tensor, selection: TileSelection) -> Tensor:
    """A dense compact copy on the calling thread, for a caller that has pinned the tiles; outside any graph."""
    core = carrier._core
    form = _packing(carrier, tensor, selection, "canonical")
    target = core.primary.prototype.allocate_like(form.slots, empty=True)
    codes = selection.bind(core.geometry)
    for at in groups(core, range(len(codes))):
        found = read_tiles(core, [codes[k] for k in at])
        present = [(k, slot) for k in at if (slot := found[codes[k]]) is not None]
        zeros = [k for k in at if found[codes[k]] is None]
        core.mover.run(lambda p=present, z=zeros: _fill(core, target, form, p, z))
        core.mover.finish()
    return detached(Tensor(target, 0, form.layout))


def _fill(
    core: Core, target: Carrier, form: Packing, present: list[tuple[int, Slot]], zeros: list[int]
) -> None:
    out = flat_bits(target)
    if present:
        gather(core, present, out, form)
    view = form.by_tile(out)
    for k in zeros:
        view[form.place(k)].zero_()


class _Publication:
    """The compact tensor of a projection, and what is held until it may be used: its carrier and the source."""

    def __init__(
        self, carrier: TiledEvictable, core: Core, destination: Carrier | None, form: Packing
    ) -> None:
        # A fresh destination lives on the caller's stream, unlike what the mover allocates for itself.
        fresh = destination is None
        self.target = core.primary.prototype.allocate_like(form.slots, empty=True) if fresh else destination
        self.target.hold_for_write("project destination")
        self._carrier, self._grew, self._published = carrier, False, False
        self.keeps = not fresh and self.target.size() > 0
        """Whether the destination has values that a failure must leave there."""
        self.queue: Queue | None = None
        try:
            if self.target.size() == 0:
                self.target.grow(form.slots)
                self._grew = True
            self.tensor = Tensor(self.target, 0, form.layout)
            carrier.hold_for_read()
        except BaseException:
            if self._grew:
                self.target.grow(0)
            self.target.drop_write(False)
            raise

    def publish(self) -> Tensor:
        """Let the compact tensor be used; the second call does nothing."""
        if not self._published:
            self._published = True
            self.target.drop_write(True)
            self._carrier.drop_read()
        return self.tensor

    def abandon(self, request: Request) -> None:
        """Give everything back after a failure; a destination that was grown is empty again."""
        if self.queue is not None:
            self.queue.close(request.error)
        if not self._published:
            self._published = True
            if self._grew:
                self.target.grow(0)
            self.target.drop_write(False)
            self._carrier.drop_read()
