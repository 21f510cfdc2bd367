"""Derivatives of direct operations. A tiled operand's gradient is made tile by tile and is tiled itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from itertools import repeat
from typing import TYPE_CHECKING, Any, NamedTuple

from tilefoundry.ir.layout import product as size_of

from ...dtypes import Float32
from ...layout import Layout
from ...operations.dispatch import compute
from ...operations.operation import Attributes, Operand, Operation, Result
from ...operations.reduce import spread
from ...operations.rules import promoted
from ...operations.unbroadcast import sum_to
from ...tensor import Tensor, detached
from ..torch_storage import TorchStorage, plain_torch
from .access import Access, Box, blocks, boxes, cells, cut, mode_sizes
from .carrier import TiledEvictable
from .compatibility import footprint
from .construction import like
from .contraction import contract, products
from .geometry import TileGeometry
from .gradients import from_dense, on_primary_class, tiled, whole
from .irregular import Picks, Spread, in_parts, put, summed, tile_places
from .packing import packing
from .projecting import gather_pinned
from .refined import Refined, is_regular, refined_operands
from .session import session
from .tensors import flat_values
from .tile_reader import TileWriter, groups, row

if TYPE_CHECKING:
    import torch

Pieces = Callable[[Sequence[Box]], AbstractContextManager[Iterator["torch.Tensor"]]]
"""The values of a gradient in each of some boxes, in turn."""


def gradients(
    operation: Operation,
    operands: Sequence[Operand],
    attributes: Attributes,
    result: Result,
    gradient: Tensor,
    wanted: Sequence[bool],
) -> Sequence[Tensor | None]:
    """One gradient per Tensor operand that ``wanted`` one, else None."""
    tensors = [o for o in operands if isinstance(o, Tensor)]
    core = next(t.carrier._core for t in tensors if isinstance(t.carrier, TiledEvictable))
    # Dense, like the result that it is a gradient of.
    gradient = on_primary_class(core, gradient)
    with session(
        [*tensors, gradient], f"backward of {operation.name}", "backward", _read(operation, operands)
    ):
        if not isinstance(core.primary.prototype, TorchStorage):
            return _by_reference(operation, operands, attributes, gradient)
        return [
            _one(operation, operands, attributes, result, gradient, k) if wanted[k] else None
            for k in range(len(tensors))
        ]


def _read(operation: Operation, operands: Sequence[Operand]) -> list[Tensor]:
    """The operands whose values a derivative of ``operation`` looks at."""
    tensors = [o for o in operands if isinstance(o, Tensor)]
    linear = operation.name in ("add", "reduce_sum") or len(tensors) < len(operands)
    return [] if linear else tensors


def _by_reference(
    operation: Operation, operands: Sequence[Operand], attributes: Attributes, gradient: Tensor
) -> Sequence[Tensor | None]:
    """The operation's own derivative on operands gathered whole: for the Python reference carrier."""
    dense = [_whole(o) for o in operands]
    twin = compute(operation, dense, attributes)
    parts = operation.vjp(dense, attributes, twin, gradient)  # type: ignore[misc, arg-type] # the six have one
    tensors = [o for o in operands if isinstance(o, Tensor)]
    return [
        from_dense(t.carrier, t.layout, p) if p is not None and isinstance(t.carrier, TiledEvictable) else p
        for t, p in zip(tensors, parts, strict=True)
    ]


def _whole(operand: Operand) -> Operand:
    if isinstance(operand, Tensor) and isinstance(operand.carrier, TiledEvictable):
        compact = gather_pinned(operand.carrier, operand, whole(operand.carrier))
        return detached(Tensor(compact.carrier, 0, Layout(operand.shape)))
    return operand


def _one(
    operation: Operation,
    operands: Sequence[Operand],
    attributes: Attributes,
    result: Result,
    gradient: Tensor,
    k: int,
) -> Tensor:
    name = operation.name
    tensors = [o for o in operands if isinstance(o, Tensor)]
    if name == "matmul":
        return _of_matmul(tensors, gradient, k)
    target = tensors[k]
    if name == "reduce_sum":
        return _by_tile(target, Access(spread(gradient, target, attributes["leaves"])).read)
    mine = _index(operands, k)
    other = next((o for i, o in enumerate(operands) if i != mine), None)
    if not isinstance(target.carrier, TiledEvictable):
        return _ordinary(name, target, other, gradient, result)
    if _is_irregular(operands, result):
        return _by_tile(target, _pieces_by_index(name, target, other, result, gradient))
    parts, shape = _in_boxes([*operands, gradient], result)
    mate = next((o for i, o in enumerate(parts[:-1]) if i != mine), None)
    return _by_tile(parts[mine], _pointwise_pieces(name, parts[mine], mate, shape, parts[-1]))


def _index(operands: Sequence[Operand], k: int) -> int:
    """The position among the operands of the k-th Tensor."""
    return [i for i, o in enumerate(operands) if isinstance(o, Tensor)][k]


def _ordinary(name: str, target: Tensor, other: Operand | None, gradient: Tensor, result: Result) -> Tensor:
    """The gradient of the ordinary operand of add or a product: dense, like the result."""
    if name == "add":
        return sum_to(gradient, target.shape.extents)
    assert isinstance(other, Tensor)
    carrier = gradient.carrier.allocate_like(gradient.size(), dtype=gradient.dtype(), empty=True)
    dense = detached(Tensor(carrier, 0, Layout(gradient.shape)))
    if _is_irregular([other], result):
        factor, g = Picks(other, result.extents), Picks(gradient, result.extents)
        with plain_torch():
            out = flat_values(carrier).view(mode_sizes(result.extents)[::-1])
            for places in tile_places(other, result.extents):
                put(out, places, g.at(places) * factor.at(places))
        return sum_to(dense, target.shape.extents)
    pair, shape = _in_boxes([other, gradient], result)
    factor, g = Access(pair[0], like=shape.extents), Access(pair[1])
    sizes = mode_sizes(shape.extents)
    order = list(boxes(cells([factor], sizes)))
    with plain_torch(), g.read(order) as theirs, factor.read(order) as factors:
        out = flat_values(carrier).view(sizes[::-1])
        for box, one, other in zip(order, theirs, factors, strict=True):
            cut(out, box).copy_(one * other)
    return sum_to(dense, target.shape.extents)


def _is_irregular(operands: Sequence[Operand], result: Result) -> bool:
    """Whether tiles of the operands are no boxes of leaves where another operand is larger at a leaf."""
    return not is_regular(operands, result) and refined_operands(operands, result) is None


def _pieces_by_index(
    name: str, target: Tensor, other: Operand | None, result: Result, gradient: Tensor
) -> Pieces:
    """The gradient of a sum's or product's tiled operand at boxes of it."""
    spread_out, g = Spread(target, result.extents), Picks(gradient, result.extents)
    factor = Picks(other, result.extents) if name != "add" and isinstance(other, Tensor) else None

    most = target.carrier._core.slots_at_once()  # type: ignore[attr-defined] # the caller has looked that it is tiled

    def part_of(met: Sequence[torch.Tensor]) -> torch.Tensor:
        places = [m.reshape(-1) for m in met]
        values = g.at(places)
        if factor is not None:
            values = (values * factor.at(places)).to(values.dtype)
        return summed(values, met, Float32.torch())

    def piece(box: Box) -> torch.Tensor:
        first, *others = in_parts(spread_out.met_by(box), most)
        total = part_of(first)
        for met in others:
            total = total.to(Float32.torch()) + part_of(met)
        return total

    return lambda order: nullcontext(map(piece, order))


def _in_boxes(operands: Sequence[Operand], result: Result) -> tuple[list[Any], Result]:
    """The operands as they are, or refined where a nested mode broadcasts."""
    if is_regular(operands, result):
        return list(operands), result
    finer = refined_operands(operands, result)
    assert finer is not None  # the caller has looked
    return finer


def _pointwise_pieces(
    name: str,
    target: Tensor | Refined,
    other: Operand | Refined | None,
    result: Result,
    gradient: Tensor | Refined,
) -> Pieces:
    sizes, mine = mode_sizes(result.extents), mode_sizes(target.layout.shape.extents)
    g = Access(gradient)
    by_tensor = isinstance(other, (Tensor, Refined)) and name != "add"
    factor = Access(other, like=result.extents) if by_tensor else None  # type: ignore[arg-type] # by_tensor says which it is
    itself = Access(target) if name == "relu" else None
    dims = [len(sizes) - 1 - m for m, n in enumerate(sizes) if mine[m] != n]
    scalar = other if isinstance(other, (bool, int, float)) and name != "add" else 1

    def piece(values: torch.Tensor, by: Any) -> torch.Tensor:
        if itself is not None:
            values = values * (by > 0).to(values.dtype)
        elif factor is not None:
            values = (values * by).to(values.dtype)
        elif name != "add":
            values = values * by
        return values.sum(dims, keepdim=True, dtype=Float32.torch()) if dims else values

    modes = [
        Mode(n, own != n, _step(factor, m, n)) for m, (own, n) in enumerate(zip(mine, sizes, strict=True))
    ]

    @contextmanager
    def pieces(order: Sequence[Box]) -> Iterator[Iterator[torch.Tensor]]:
        # Mostly tiles of the one are tiles of the other.
        split = any(m.broadcast or m.step % len(own) for own, m in zip(order[0], modes, strict=True))
        parts = [list(_parts(box, modes)) for box in order] if split else []
        every = [part for of_box in parts for part in of_box] if split else order
        with ExitStack() as stack:
            values = stack.enter_context(g.read(every))
            if factor is not None:
                by = stack.enter_context(factor.read(every))
            else:
                by = stack.enter_context(itself.read(order)) if itself is not None else repeat(scalar)
            made = map(piece, values, by)
            joined = (_joined(box, of_box, modes, made) for box, of_box in zip(order, parts, strict=True))
            yield joined if split else made

    return pieces


class Mode(NamedTuple):
    """Of a result: its size, whether the target broadcasts there, and the extent at which another operand is cut."""

    size: int
    broadcast: bool
    step: int


def _step(factor: Access | None, mode: int, size: int) -> int:
    if factor is None or not factor.is_tiled or factor.sizes[mode] != size:
        return size
    return factor.cuts(mode)


def _parts(box: Box, modes: Sequence[Mode]) -> Iterator[Box]:
    """What a target's ``box`` meets, in pieces of which each meets one tile of the other operand."""
    return boxes(
        [blocks(range(m.size) if m.broadcast else own, m.step) for own, m in zip(box, modes, strict=True)]
    )


def _joined(
    box: Box, parts: Sequence[Box], modes: Sequence[Mode], made: Iterator[torch.Tensor]
) -> torch.Tensor:
    """A target's ``box`` from the next pieces made, one for each of ``parts``: side by side, or summed."""
    if len(parts) == 1:
        return next(made)
    summed, total = any(m.broadcast for m in modes), None
    for part in parts:
        values = next(made)
        if total is None:
            total = values.new_zeros(
                [1 if m.broadcast else len(own) for own, m in zip(box, modes, strict=True)][::-1]
            )
        at = [
            range(1) if m.broadcast else range(p.start - own.start, p.stop - own.start)
            for p, own, m in zip(part, box, modes, strict=True)
        ]
        # A zero keeps its sign where nothing is summed.
        cut(total, at).add_(values) if summed else cut(total, at).copy_(values)
    assert total is not None
    return total


def _of_matmul(tensors: Sequence[Tensor], gradient: Tensor, k: int) -> Tensor:
    """lhs: ``g[i, :] rhs[:, k]``; rhs: ``g[:, j]^T lhs[:, k]``."""
    target, other = tensors[k], tensors[1 - k]
    # As the operation has it; the target's own type may be narrower than what is multiplied.
    dtype = promoted("matmul", [gradient, other])
    a, b = Access(gradient, swap=k == 1), Access(other, swap=True)
    if isinstance(target.carrier, TiledEvictable):
        return _by_tile(target, lambda order: products(a, b, order, dtype))
    rows, columns = mode_sizes(target.shape.extents)
    carrier = gradient.carrier.allocate_like(rows * columns, dtype=target.dtype(), empty=True)
    with plain_torch():
        contract(a, b, flat_values(carrier).view(columns, rows), dtype)
    return detached(Tensor(carrier, 0, Layout(target.shape)))


def _by_tile(target: Tensor | Refined, pieces: Pieces) -> Tensor:
    """The gradient whose tiles are ``pieces`` of their boxes; spilled as it is made where primary is too small.

    An ordinary target gets a dense gradient from the one box that covers it.
    """
    whole = target.tensor if isinstance(target, Refined) else target
    carrier = whole.carrier
    if not isinstance(carrier, TiledEvictable):
        return _dense(whole, pieces)
    core = carrier._core
    geometry = core.geometry if isinstance(target, Tensor) or target.geometry is None else target.geometry
    fresh = like(core, "zero")
    inside = footprint(target.layout, whole.offset, geometry, "backward")
    form = packing(inside, geometry, (1,) * geometry.rank, "canonical")
    writer = TileWriter(fresh)
    codes = range(geometry.tile_count)
    with pieces([_box(geometry, code) for code in codes]) as made:
        for group in groups(fresh, codes):
            places = writer.slots(group)
            with plain_torch():
                for code in group:
                    values = next(made).to(core.dtype.torch()).contiguous().reshape(-1)
                    row(fresh, places[code]).view(form.tile_dims).copy_(form.by_tile(values)[form.place(0)])
            writer.keep(places)
    fresh.mover.finish()
    return tiled(carrier, fresh, whole.layout)


def _box(geometry: TileGeometry, code: int) -> Box:
    coordinate = geometry.coordinate(code)
    return tuple(range(c * t, (c + 1) * t) for c, t in zip(coordinate, geometry.tile_shape, strict=True))


def _dense(target: Tensor, pieces: Pieces) -> Tensor:
    carrier = target.carrier.allocate_like(size_of(target.shape.extents), dtype=target.dtype(), empty=True)
    with plain_torch(), pieces([tuple(map(range, mode_sizes(target.shape.extents)))]) as made:
        flat_values(carrier).copy_(next(made).reshape(-1))
    return detached(Tensor(carrier, 0, Layout(target.shape)))
