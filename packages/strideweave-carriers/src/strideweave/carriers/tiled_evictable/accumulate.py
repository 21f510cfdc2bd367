"""Gradients of which at least one is tiled: how a backward begins with them, and their sums.

Sums are made tile by tile, zeros left out, neither operand changed.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from ...layout import Layout
from ...tensor import Tensor, detached
from ..torch_storage import plain_torch
from .carrier import TiledEvictable
from .construction import like
from .core import Core
from .gradients import from_dense, pinned, relaid, tiled, whole, written
from .projecting import gather_pinned
from .scatter import checked_sum
from .session import session
from .slots import Slot
from .tile_reader import TileWriter, groups, read_tiles, row

if TYPE_CHECKING:
    import torch

ARITHMETIC = ("Float32", "Float16", "BFloat16", "Int32", "Int64", "Int8", "UInt8")


def refuse_add(core: Core, verb: str) -> None:
    """Raise TypeError for element types that cannot be added."""
    if core.dtype.name not in ARITHMETIC:
        raise TypeError(
            f"{verb}: {core.dtype} takes part in no arithmetic, so contributions cannot be added; use BFloat16 weights"
        )


def begin(root: Tensor, gradient: Tensor) -> Tensor:
    """The caller's ``gradient`` in the form of ``root``: tiled as it is, or dense where ``root`` is ordinary.

    Raises:
        RuntimeError: a tile of a tiled ``gradient`` has no value, or is covered by a promotion or eviction that has
            not ended.
    """
    target, given = root.carrier, gradient.carrier
    if isinstance(given, TiledEvictable):
        if isinstance(target, TiledEvictable) and target.geometry == given.geometry:
            return gradient
        gradient = _gathered(gradient, given)
    if isinstance(target, TiledEvictable):
        return from_dense(target, root.layout, gradient)
    return gradient


def _gathered(gradient: Tensor, carrier: TiledEvictable) -> Tensor:
    with session([gradient], "backward: gradient", "backward"):
        compact = gather_pinned(carrier, gradient, whole(carrier))
    return detached(Tensor(compact.carrier, 0, Layout(gradient.shape)))


def accumulate(a: Tensor, b: Tensor) -> Tensor:
    """``a + b``; a dense one of the two becomes tiled first.

    Raises:
        TypeError: both contribute to a tile and the type cannot be added.
    """
    if not isinstance(a.carrier, TiledEvictable):
        a, b = b, a
    carrier = a.carrier
    assert isinstance(carrier, TiledEvictable)
    dense = not isinstance(b.carrier, TiledEvictable)
    b = from_dense(carrier, a.layout, b) if dense else relaid(carrier, a.layout, b)
    assert isinstance(b.carrier, TiledEvictable)
    return tiled(carrier, _sum(carrier._core, b.carrier._core), a.layout)


def copy(gradient: Tensor) -> Tensor:
    """A tiled gradient over a carrier of its own: the sum with one that has nothing but zeros."""
    carrier = gradient.carrier
    assert isinstance(carrier, TiledEvictable)
    return tiled(carrier, _sum(carrier._core, like(carrier._core, "zero")), gradient.layout)


def _sum(a: Core, b: Core) -> Core:
    ours, theirs = written(a), written(b)
    in_a, in_b = frozenset(ours), frozenset(theirs)
    if in_a & in_b:
        refuse_add(a, "backward")
    fresh = like(a, "zero")
    codes = tuple(sorted(in_a | in_b))
    with ExitStack() as stack:
        for core, mine in {id(c): (c, m) for c, m in ((a, ours), (b, theirs))}.values():
            stack.enter_context(pinned(core, mine, "backward"))
        writer = TileWriter(fresh)
        for group in groups(fresh, codes):
            from_a = read_tiles(a, [c for c in group if c in in_a])
            from_b = read_tiles(b, [c for c in group if c in in_b])
            places = writer.slots(group)
            fresh.mover.run(lambda p=places, x=from_a, y=from_b: _add(fresh, p, (a, x), (b, y)))
            writer.keep(places)
    return fresh


Side = tuple[Core, dict[int, "Slot | None"]]


def _add(fresh: Core, places: dict[int, Slot], a: Side, b: Side) -> None:
    with plain_torch():
        for code, slot in places.items():
            terms = [row(core, found[code]) for core, found in (a, b) if found.get(code) is not None]  # type: ignore[arg-type] # None is filtered
            row(fresh, slot).copy_(_total(fresh, terms))


def _total(core: Core, terms: list[torch.Tensor]) -> torch.Tensor:
    if len(terms) == 1:
        return terms[0]
    return terms[0] + terms[1] if core.dtype.is_float else checked_sum(terms[0], terms[1], core)
