"""Direct operations: a tiled operand stands for its full logical tensor.

Work goes box by box in an order that geometry and Layout alone decide, so that neither residency nor capacity
changes a bit of the result, and no dense operand is built on the device. One node is recorded per operation.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from itertools import repeat

from ...autograd.mode import is_grad_enabled
from ...autograd.node import Node
from ...layout import Layout
from ...operations.checked import can_wrap, unwrapped
from ...operations.dispatch import compute
from ...operations.operation import Attributes, Operand, Operation, Result
from ...tensor import Tensor, attach, detached
from ..base import Carrier
from ..torch_storage import TorchStorage, plain_torch
from . import direct_gradients
from .access import Access, boxes, cells, cut, mode_sizes
from .carrier import TiledEvictable
from .contraction import contract, wide
from .gradients import whole
from .irregular import Picks, first_tiled, put, tile_places
from .projecting import gather_pinned
from .refined import Refined, is_regular, refined_operands
from .session import check, session
from .tensors import flat_values

NAMES = ("add", "elementwise_mul", "mul", "relu", "reduce_sum", "matmul")


def execute(operation: Operation, operands: Sequence[Operand], attributes: Attributes) -> Tensor:
    """Run one of ``NAMES`` on operands of which at least one is tiled; the result is an ordinary dense tensor.

    Raises:
        TypeError: an ordinary operand, or another tiled one's primary, of a different class than the primary.
        ValueError: a Tensor that does not fit the tiles, or shapes that do not fit one another.
        RuntimeError: a tile without a value, or covered by a promotion or eviction that has not ended.
    """
    tensors = [o for o in operands if isinstance(o, Tensor)]
    prototype = _prototype(operation.name, tensors)
    for tensor in tensors:
        if isinstance(tensor.carrier, TiledEvictable):
            tensor.carrier._footprint(tensor.layout, tensor.offset, operation.name)
    result = operation.infer(operands, attributes)
    with session(tensors, operation.name, "operation"):
        out = _compute(operation, operands, attributes, result, prototype)
    return attach(out, _node(operation, operands, attributes, result, out))


def _prototype(name: str, tensors: Sequence[Tensor]) -> Carrier:
    """A carrier of the one class that all operands compute on."""
    found: Carrier | None = None
    for tensor in tensors:
        carrier = tensor.carrier
        mine = carrier._core.primary.prototype if isinstance(carrier, TiledEvictable) else carrier
        if found is not None and type(mine) is not type(found):
            names = " and ".join(sorted((type(mine).__name__, type(found).__name__)))
            raise TypeError(f"{name}: operands compute on {names}; move one to the other's class first")
        found = mine
    assert found is not None
    return found


def _compute(
    operation: Operation,
    operands: Sequence[Operand],
    attributes: Attributes,
    result: Result,
    prototype: Carrier,
) -> Tensor:
    if not isinstance(prototype, TorchStorage):
        return compute(operation, [_dense(o) for o in operands], attributes)
    shape = result.extents
    if operation.name not in ("matmul", "reduce_sum") and not is_regular(operands, result):
        finer = refined_operands(operands, result)
        if finer is None:
            return _by_index(operation, operands, attributes, result, prototype)
        operands, result = finer
    carrier = prototype.allocate_like(max(1, Layout(result.extents).size()), dtype=result.dtype, empty=True)
    with plain_torch():
        out = flat_values(carrier).view(mode_sizes(result.extents)[::-1])
        if operation.name == "matmul":
            lhs, rhs = (Access(o) for o in operands if isinstance(o, Tensor))
            contract(lhs, rhs, out, result.dtype)
        elif operation.name == "reduce_sum":
            _reduce(operation, operands, attributes, result, flat_values(carrier))
        else:
            _pointwise(operation, operands, attributes, result, out)
    return detached(Tensor(carrier, 0, Layout(shape)))


def _by_index(
    operation: Operation,
    operands: Sequence[Operand],
    attributes: Attributes,
    result: Result,
    prototype: Carrier,
) -> Tensor:
    """A pointwise operation where tiles are no boxes of broadcast leaves: tile by tile, element by element."""
    picks = [Picks(o, result.extents) if isinstance(o, Tensor) else o for o in operands]
    carrier = prototype.allocate_like(Layout(result.extents).size(), dtype=result.dtype, empty=True)
    with plain_torch():
        out = flat_values(carrier).view(mode_sizes(result.extents)[::-1])
        for places in tile_places(first_tiled(operands), result.extents):
            views = [p.at(places) if isinstance(p, Picks) else p for p in picks]
            put(out, places, operation.torch(views, attributes, result))
    return detached(Tensor(carrier, 0, Layout(result.extents)))


def _dense(operand: Operand) -> Operand:
    """A tiled operand gathered whole, for the Python reference."""
    if isinstance(operand, Tensor) and isinstance(operand.carrier, TiledEvictable):
        compact = gather_pinned(operand.carrier, operand, whole(operand.carrier))
        return detached(Tensor(compact.carrier, 0, Layout(operand.shape)))
    return operand


def _pointwise(
    operation: Operation, operands: Sequence[Operand | Refined], attributes: Attributes, result: Result, out
) -> None:
    sizes = mode_sizes(result.extents)
    accesses = [Access(o, like=result.extents) if isinstance(o, (Tensor, Refined)) else o for o in operands]
    order = list(boxes(cells(accesses, sizes)))
    with ExitStack() as stack:
        views = [stack.enter_context(a.read(order)) if isinstance(a, Access) else repeat(a) for a in accesses]
        for box, *values in zip(order, *views, strict=False):
            cut(out, box).copy_(operation.torch(values, attributes, result))


def _reduce(
    operation: Operation, operands: Sequence[Operand], attributes: Attributes, result: Result, flat
) -> None:
    access = Access(operands[0])  # type: ignore[arg-type] # the one operand is a Tensor
    dropped = set(attributes["modes"])
    kept = [n for m, n in enumerate(access.sizes) if m not in dropped]
    kind = attributes["accumulator"] if result.dtype.is_float else wide(result.dtype)
    total = flat.new_zeros(kept[::-1], dtype=kind.torch())
    near = total.double() if not result.dtype.is_float and can_wrap(result.dtype) else None
    dims = [len(access.sizes) - 1 - m for m in dropped]
    order = list(boxes(cells([access], access.sizes)))
    with access.read(order) as views:
        for box, values in zip(order, views, strict=True):
            at = [taken for m, taken in enumerate(box) if m not in dropped]
            cut(total, at).add_(values.sum(dims, dtype=kind.torch()) if dims else values)
            if near is not None:
                cut(near, at).add_(values.double().sum(dims) if dims else values)
    if not result.dtype.is_float:
        unwrapped(operation.name, total, near, result.dtype)
    flat.copy_(total.reshape(-1))


def _node(
    operation: Operation, operands: Sequence[Operand], attributes: Attributes, result: Result, out: Tensor
) -> Node | None:
    tensors = [o for o in operands if isinstance(o, Tensor)]
    if not (is_grad_enabled() and result.dtype.is_float and any(t.is_differentiable() for t in tensors)):
        return None
    kept = tuple(detached(o) if isinstance(o, Tensor) else o for o in operands)
    read = [detached(t) for t in tensors] if operation.name not in ("add", "reduce_sum") else []
    wanted = tuple(t.is_differentiable() for t in tensors)
    everyone = [detached(t) for t in tensors]

    def vjp(gradient: Tensor) -> Sequence[Tensor | None]:
        return direct_gradients.gradients(operation, kept, attributes, result, gradient, wanted)

    def prepare() -> None:
        for tensor in everyone:
            tensor.carrier.require_live(f"backward of {operation.name}")
        check(read, f"backward of {operation.name}")

    return Node(operation.name, tensors, vjp, read, prepare)
