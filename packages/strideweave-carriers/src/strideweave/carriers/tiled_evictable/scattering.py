"""scatter and update: checks in their order, then the copying; and the node of a scatter's result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from ...autograd.mode import is_grad_enabled
from ...autograd.node import Node
from ...errors import no_tensor
from ...movement.completion import AwaitMove
from ...movement.interrupts import interrupts_deferred
from ...tensor import Tensor, attach, detached
from .construction import like
from .core import Core
from .gather import spread
from .gradients import compact_values, scattered
from .packing import Packing, packing
from .projecting import check_selection, check_source, refuse_own_storage
from .request import Request
from .requests import ask_policy, check_conflicts, check_readable, enter, submit
from .scatter import Scatter, sum_into
from .selection import TileSelection
from .slots import Slot
from .update import write_tiles

if TYPE_CHECKING:
    from .carrier import TiledEvictable

Reduction = Literal["replace", "add"]
REDUCTIONS: tuple[Reduction, ...] = ("replace", "add")
ARITHMETIC = ("Float32", "Float16", "BFloat16", "Int32", "Int64", "Int8", "UInt8")


def _check_compact(carrier: TiledEvictable, compact: object, verb: str) -> Tensor:
    if not isinstance(compact, Tensor):
        raise no_tensor(f"{verb} compact", compact)
    wanted = carrier.primary_class
    if type(compact.carrier) is not wanted:
        raise TypeError(
            f"{verb} compact: is on {type(compact.carrier).__name__}, expected exactly {wanted.__name__}, as "
            "the primary is; move it there first"
        )
    return compact


def _check_reduction(core: Core, reduction: object, verb: str) -> None:
    if reduction not in REDUCTIONS:
        raise ValueError(f"{verb} reduction: got {reduction!r}, expected one of {', '.join(REDUCTIONS)}")
    if reduction == "add" and core.dtype.name not in ARITHMETIC:
        raise TypeError(f"{verb} reduction: {core.dtype} takes part in no arithmetic and cannot be added")


def _check_shape(core: Core, compact: Tensor, selection: TileSelection, verb: str) -> None:
    if compact.dtype() is not core.dtype:
        raise TypeError(f"{verb} compact: holds {compact.dtype()}, the tiles {core.dtype}; cast it first")
    sizes = tuple(mode.size() for mode in compact.layout.modes())
    counts = selection.compact_grid_shape
    wanted = tuple(n * t for n, t in zip(counts, core.geometry.tile_shape, strict=True))
    if sizes != wanted:
        raise ValueError(f"{verb} compact: modes of size {sizes}, the selected region has {wanted}")


def _checked(
    carrier: TiledEvictable, compact: Any, template: Any, selection: Any, reduction: Any, verb: str
) -> tuple[TileSelection, tuple[int, ...], Packing]:
    """The checks that scatter and update share; nothing has happened when one fails."""
    core = carrier._core
    _check_compact(carrier, compact, verb)
    check_source(carrier, template, verb, "template")
    chosen = check_selection(selection, verb)
    carrier._ready(verb)
    compact.carrier.require_live(f"{verb} compact")
    _check_reduction(core, reduction, verb)
    codes = chosen.bind(core.geometry, verb)
    _check_shape(core, compact, chosen, verb)
    inside = carrier._footprint(template.layout, template.offset, f"{verb} template")
    return chosen, codes, packing(inside, core.geometry, chosen.compact_grid_shape, "canonical")


def scatter(
    carrier: TiledEvictable, compact: Any, template: Any, selection: Any, reduction: Any
) -> AwaitMove[Tensor]:
    """See ``TiledEvictable.scatter``."""
    core = carrier._core
    chosen, codes, form = _checked(carrier, compact, template, selection, reduction, "scatter")
    check_conflicts(core, codes, "scatter")
    if reduction == "add":
        check_readable(core, codes, "scatter")
    plan = ask_policy(core, carrier._policy, codes, "scatter")
    fresh = like(core, "zero" if core.table.initial == "zero" else "invalid")
    tensor = type(carrier)._over(fresh, template.layout)
    result = tensor.carrier
    attach(tensor, _node(carrier, compact, template, chosen, reduction))

    def let_go() -> None:
        compact.carrier.drop_read()
        carrier.drop_read()

    def finish() -> Tensor:
        let_go()
        result.wrote()
        return tensor

    request = Request(core, "scatter", finish=finish, abandon=let_go)
    base = core if reduction == "add" else None
    with interrupts_deferred():
        compact.carrier.hold_for_read()
        carrier.hold_for_read()
        try:
            promote = enter(core, request, codes, plan, "scatter", readable=reduction == "add")
        except BaseException:
            let_go()
            raise
        work = Scatter(request, fresh, codes, form, compact_values(core, compact), base)
        request.mark = work.mark
        submit(request, lambda: work.run(promote, core))
    return AwaitMove(request.completion)


def _node(
    carrier: TiledEvictable, compact: Tensor, template: Tensor, selection: TileSelection, reduction: Reduction
) -> Node | None:
    if not (is_grad_enabled() and (compact.is_differentiable() or template.is_differentiable())):
        return None
    layout, extents = template.layout, compact.shape

    def vjp(gradient: Tensor) -> tuple[Tensor | None, ...]:
        # The cotangent is tiled like the result, so its own carrier projects it.
        cotangent: TiledEvictable = gradient.carrier  # type: ignore[assignment] # made tiled by prepare
        piece = cotangent.project(gradient, selection).wait()
        shaped = detached(Tensor(piece.carrier, 0, type(layout)(extents)))
        if reduction == "replace":
            return shaped, None
        return shaped, scattered(carrier, layout, selection, piece)

    return Node("scatter", (compact, template), vjp)


def update(carrier: TiledEvictable, selection: Any, compact: Any, reduction: Any) -> AwaitMove[Tensor]:
    """See ``TiledEvictable.update``."""
    core = carrier._core
    full = detached(carrier.full_tensor()) if not carrier.is_released() else None
    if full is None:
        carrier.require_live("update")
    _, codes, form = _checked(carrier, compact, full, selection, reduction, "update")
    refuse_own_storage(carrier, compact.carrier, "update compact")
    position = {code: k for k, code in enumerate(codes)}
    values = compact_values(core, compact)

    def write(slots: list[tuple[int, Slot]]) -> None:
        tiles = [(position[c], s) for c, s in slots]
        if reduction == "add":
            sum_into(core, values(), form, tiles)
        else:
            spread(core, values(), form, tiles)

    def finish() -> Tensor:
        compact.carrier.drop_read()
        carrier.wrote()
        return full  # type: ignore[return-value] # released carriers were refused

    entered: list[bool] = []
    with interrupts_deferred():
        compact.carrier.hold_for_read()
        try:
            completion = write_tiles(
                core, codes, "update", write, blank=reduction == "replace", finish=finish,
                abandon=lambda: (entered.append(True), compact.carrier.drop_read())[1],
            )  # fmt: skip
        except BaseException:
            if not entered:
                compact.carrier.drop_read()
            raise
    return AwaitMove(completion)
