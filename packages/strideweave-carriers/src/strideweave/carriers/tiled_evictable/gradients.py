"""Gradients of tiled tensors: tiled themselves, with implicit zeros wherever nothing was contributed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ... import registry
from ...autograd.accumulate import in_class_of
from ...layout import Layout
from ...movement.interrupts import interrupts_deferred
from ...tensor import Tensor, detached
from ..torch_storage import plain_torch
from .construction import like
from .core import Core
from .packing import Packing, packing
from .request import Request
from .requests import ask_policy, enter, submit
from .scatter import Scatter
from .selection import TileSelection
from .tensors import dense_bits
from .tile_reader import TileWriter, groups, read_tiles, row

if TYPE_CHECKING:
    import torch

    from .carrier import TiledEvictable


def compact_values(core: Core, compact: Tensor) -> Callable[[], torch.Tensor]:
    """The values of a compact tensor, flat and dense; to be called where the mover computes."""
    return lambda: dense_bits(compact).view(core.dtype.torch())


def whole(carrier: TiledEvictable) -> TileSelection:
    """Every tile."""
    return TileSelection([range(n) for n in carrier.grid_shape])


def tiled(carrier: TiledEvictable, core: Core, layout: Layout) -> Tensor:
    """A detached tensor over a fresh core."""
    return detached(type(carrier)._over(core, layout))


def on_primary_class(core: Core, tensor: Tensor) -> Tensor:
    """``tensor`` on a carrier of the compute class, copied there if it is on another."""
    if type(tensor.carrier) is type(core.primary.prototype):
        return tensor
    return detached(in_class_of(core.primary.prototype, tensor))


def scattered(carrier: TiledEvictable, layout: Layout, selection: TileSelection, gradient: Tensor) -> Tensor:
    """The gradient of a projection: ``gradient`` at the selected tiles, zero elsewhere; asks the policy."""
    core = carrier._core
    codes = selection.bind(core.geometry)
    plan = ask_policy(core, carrier._policy, codes, "backward")
    fresh = like(core, "zero")
    form = _form(carrier, layout, selection)
    request = Request(core, "backward of project")

    def begin() -> tuple[int, ...]:
        return enter(core, request, codes, plan, "backward of project")

    _scatter_into(request, core, fresh, form, codes, gradient, begin)
    return tiled(carrier, fresh, layout)


def from_dense(carrier: TiledEvictable, layout: Layout, gradient: Tensor) -> Tensor:
    """A dense gradient of the full logical shape as a tiled one. No request on the primal is made."""
    core, selection = carrier._core, whole(carrier)
    fresh = like(core, "zero")
    request = Request(fresh, "backward")

    def begin() -> tuple[int, ...]:
        with fresh.lock:
            fresh.admit(request)
        return ()

    codes = selection.bind(core.geometry)
    _scatter_into(request, fresh, fresh, _form(carrier, layout, selection), codes, gradient, begin)
    return tiled(carrier, fresh, layout)


def _form(carrier: TiledEvictable, layout: Layout, selection: TileSelection) -> Packing:
    inside = carrier._footprint(layout, 0, "backward")
    return packing(inside, carrier._core.geometry, selection.compact_grid_shape, "canonical")


def _scatter_into(
    request: Request,
    owner: Core,
    fresh: Core,
    form: Packing,
    codes: tuple[int, ...],
    gradient: Tensor,
    begin: Callable[[], tuple[int, ...]],
) -> None:
    """``begin`` enters the request and says what its policy promotes."""

    def work(promote: tuple[int, ...]) -> None:
        placed = on_primary_class(fresh, gradient)
        placed.carrier.hold_for_read()
        # However it ends; it goes on where the wait for it is cut short.
        request.finish = request.abandon = placed.carrier.drop_read
        scatter = Scatter(request, fresh, codes, form, compact_values(fresh, placed))
        request.mark = scatter.mark
        scatter.run(promote, owner)

    with interrupts_deferred():
        promote = begin()
        submit(request, lambda: work(promote))
    request.completion.result()


def adopt(leaf: Tensor, gradient: Tensor) -> Tensor:
    """``gradient`` as a detached tiled tensor with the leaf's carrier form and Layout."""
    carrier = leaf.carrier
    if gradient.dtype() is not leaf.dtype():
        gradient = registry.call("cast", gradient, leaf.dtype())
    if type(gradient.carrier) is not type(carrier):
        return from_dense(carrier, leaf.layout, gradient)  # type: ignore[arg-type] # leaf is on a TiledEvictable
    return relaid(carrier, leaf.layout, gradient)  # type: ignore[arg-type] # likewise


def relaid(carrier: TiledEvictable, layout: Layout, gradient: Tensor) -> Tensor:
    """A tiled gradient with ``layout``: itself where it has that already, else a copy made tile by tile."""
    source: TiledEvictable = gradient.carrier  # type: ignore[assignment] # the caller has looked
    if gradient.layout == layout:
        return detached(gradient)
    core, one = source._core, (1,) * source._core.geometry.rank
    before = packing(source._footprint(gradient.layout, 0, "backward"), core.geometry, one, "canonical")
    after = packing(carrier._footprint(layout, 0, "backward"), core.geometry, one, "canonical")
    fresh = like(carrier._core, "zero")
    codes = written(core)
    with pinned(core, codes, "backward"):
        writer = TileWriter(fresh)
        for group in groups(core, codes):
            sources, places = read_tiles(core, group), writer.slots(group)
            fresh.mover.run(lambda s=sources, p=places: _permute(core, fresh, s, p, before, after))
            writer.keep(places)
    return tiled(carrier, fresh, layout)


def _permute(core: Core, fresh: Core, sources: dict, places: dict, before: Packing, after: Packing) -> None:
    with plain_torch():
        for code, slot in places.items():
            tile = row(core, sources[code])
            compact = tile.new_empty(tile.shape)
            before.by_tile(compact)[before.place(0)].copy_(tile.view(before.tile_dims))
            row(fresh, slot).view(after.tile_dims).copy_(after.by_tile(compact)[after.place(0)])


def written(core: Core) -> tuple[int, ...]:
    """The tiles of a gradient that something was contributed to, ascending."""
    if core.table.initial != "zero":
        return tuple(range(core.geometry.tile_count))
    with core.lock:
        return tuple(sorted(r.code for r in core.table.touched() if r.valid and not r.is_zero()))


class pinned:
    """Keeps tiles where they are within a ``with`` block."""

    def __init__(self, core: Core, codes: tuple[int, ...], verb: str) -> None:
        self._core, self._codes, self._verb = core, codes, verb
        self._request = Request(core, verb, keeps=True)

    def __enter__(self) -> None:
        try:
            with interrupts_deferred():
                enter(self._core, self._request, self._codes, None, self._verb)
        except KeyboardInterrupt:
            self.__exit__()
            raise

    def __exit__(self, *_: object) -> None:
        with interrupts_deferred():
            self._request.close()
