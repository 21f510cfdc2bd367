"""Session: everything that an operation or a backward needs of its tiled operands, held for its duration.

Policy is asked once per carrier; all tiles are pinned; what fits goes onto primary, the rest is read past it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from ...movement.interrupts import interrupts_deferred
from ...tensor import Tensor
from .acquire import acquire
from .carrier import TiledEvictable
from .core import Core
from .plan import Purpose
from .request import Request
from .requests import ask_policy, check_conflicts, check_readable, close_at_end, enter, submit

if TYPE_CHECKING:
    from collections.abc import Iterator


def tiled_carriers(tensors: Sequence[Tensor]) -> list[TiledEvictable]:
    """The distinct tiled carriers, in order of creation."""
    found = {t.carrier for t in tensors if isinstance(t.carrier, TiledEvictable)}
    return sorted(found, key=lambda c: c.serial)


def check(tensors: Sequence[Tensor], verb: str) -> None:
    """Raise what would keep the operands from being read; changes nothing."""
    for tensor in tensors:
        if isinstance(tensor.carrier, TiledEvictable):
            tensor.carrier._footprint(tensor.layout, tensor.offset, verb)
    for carrier in tiled_carriers(tensors):
        carrier._ready(verb)
        every = range(carrier.geometry.tile_count)
        check_conflicts(carrier._core, every, verb)
        check_readable(carrier._core, every, verb)


@contextmanager
def session(
    tensors: Sequence[Tensor], verb: str, purpose: Purpose, read: Sequence[Tensor] | None = None
) -> Iterator[None]:
    """Keep every tile of the tiled operands, and the ordinary operands, in place within the block.

    Tiles of the operands in ``read`` (default: all) come onto primary where there is room; of others, whose values
    are not looked at, only those that the policy promotes.
    """
    check(tensors, verb)
    carriers = tiled_carriers(tensors)
    moved = carriers if read is None else tiled_carriers(read)
    plans = []
    for carrier in carriers:
        codes = tuple(range(carrier.geometry.tile_count))
        plans.append((carrier, codes, ask_policy(carrier._core, carrier._policy, codes, purpose)))
    stack = ExitStack()
    try:
        for held in sorted({t.carrier for t in tensors}, key=lambda c: c.serial):
            with interrupts_deferred():
                held.hold_for_read()
                stack.callback(held.drop_read)
        for carrier, codes, plan in plans:
            core = carrier._core
            request = Request(core, verb, keeps=True)
            with interrupts_deferred():
                promote = enter(core, request, codes, plan, verb)
                reads = carrier in moved
                submit(
                    request, lambda c=core, r=request, w=codes, p=promote, m=reads: _acquire(c, r, w, p, m)
                )
                stack.callback(close_at_end, request)
            request.completion.result()
            stack.callback(core.mover.finish)
        yield
    finally:
        with interrupts_deferred():
            stack.close()


def _acquire(
    core: Core, request: Request, codes: tuple[int, ...], promote: tuple[int, ...], reads: bool
) -> None:
    # Every tile is pinned and named, so that others give way to those that are promoted.
    if reads or promote:
        acquire(core, request, codes, set(promote), lambda ready, direct: None, cache=reads)
