"""Reverse mode: order the graph, check all of it, propagate, and write gradients only at the end."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Sequence

from ..carriers.base import Carrier
from ..errors import no_tensor
from ..tensor import Tensor, detached
from .accumulate import accumulate, apart, as_leaf_gradient, as_seed, ones_for
from .mode import keeps_mode, no_grad

_commit = threading.Lock()


def _after_fork() -> None:
    global _commit
    _commit = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


@keeps_mode
def backward(root: Tensor, gradient: Tensor | None, retain_graph: bool) -> None:
    """See ``Tensor.backward``."""
    seed = _seed(root, gradient)
    order = _ordered(root)
    found = _propagate(root, seed, order, lambda t: t.retains_grad())
    _write(found, gradient)
    if not retain_graph:
        _free(order)


@keeps_mode
def grad(
    output: Tensor,
    inputs: Tensor | Sequence[Tensor],
    gradient: Tensor | None = None,
    *,
    retain_graph: bool = False,
    create_graph: bool = False,
) -> tuple[Tensor | None, ...]:
    """The gradients of ``output`` with respect to ``inputs``, without touching any ``grad``.

    An input that ``output`` does not depend on gives None. Raises as ``Tensor.backward``.
    """
    if create_graph is not False:
        raise TypeError("grad: create_graph is not provided; gradients of gradients are not recorded")
    wanted = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    for tensor in wanted:
        if not isinstance(tensor, Tensor):
            raise no_tensor("grad inputs", tensor)
    seed = _seed(output, gradient)
    order = _ordered(output)
    ids = {id(t) for t in wanted}
    found = {id(t): g for t, g in _propagate(output, seed, order, lambda t: id(t) in ids)}
    with no_grad():
        reached = {id(t): t for t in wanted if id(t) in found}
        made = [as_leaf_gradient(t, found[key]) for key, t in reached.items()]
        own = dict(zip(reached, apart(made, _carriers(gradient, reached.values())), strict=True))
        results = tuple(own.get(id(t)) for t in wanted)
    if not retain_graph:
        _free(order)
    return results


def _seed(root: Tensor, gradient: Tensor | None) -> Tensor:
    if not root.is_differentiable():
        raise RuntimeError(f"backward: this {root.describe()} wants no gradient; was it made under no_grad?")
    if gradient is None:
        if root.size() != 1:
            raise ValueError(f"backward: this {root.describe()} has several values; pass gradient=")
        return ones_for(root)
    if not isinstance(gradient, Tensor):
        raise no_tensor("backward gradient", gradient)
    if gradient.dtype() is not root.dtype():
        raise TypeError(f"backward: gradient is {gradient.dtype()}, the tensor {root.dtype()}; cast it")
    if gradient.shape.modes() != root.shape.modes():
        raise ValueError(
            f"backward: gradient has shape {gradient.shape.extents}, the tensor {root.shape.extents}"
        )
    gradient.carrier.require_live("backward: gradient")
    gradient.carrier.check_gradient(gradient.layout, gradient.offset)
    return as_seed(root, gradient)


def _ordered(root: Tensor) -> list[Tensor]:
    """Every differentiable tensor that ``root`` depends on, each after all that consume it."""
    done: set[int] = set()
    out: list[Tensor] = []
    stack: list[tuple[Tensor, bool]] = [(root, False)]
    while stack:
        tensor, expanded = stack.pop()
        if expanded:
            out.append(tensor)
        elif id(tensor) not in done:
            done.add(id(tensor))
            stack.append((tensor, True))
            if tensor.autograd_ctx is not None:
                stack.extend((t, False) for t in tensor.autograd_ctx.inputs() if t.is_differentiable())
    return out[::-1]


def _propagate(
    root: Tensor, seed: Tensor, order: list[Tensor], keep: Callable[[Tensor], bool]
) -> list[tuple[Tensor, Tensor]]:
    for tensor in order:
        if tensor.autograd_ctx is not None:
            tensor.autograd_ctx.validate()
    sums: dict[int, Tensor] = {id(root): seed}
    found: list[tuple[Tensor, Tensor]] = []
    with no_grad():
        for tensor in order:
            total = sums.pop(id(tensor), None)
            if total is None:
                continue
            if keep(tensor):
                found.append((tensor, total))
            node = tensor.autograd_ctx
            if node is None:
                continue
            for source, part in zip(node.inputs(), node.apply(total), strict=True):
                if part is not None and source.is_differentiable():
                    before = sums.get(id(source))
                    sums[id(source)] = part if before is None else accumulate(before, part)
    return found


def _write(found: list[tuple[Tensor, Tensor]], given: Tensor | None) -> None:
    # All new gradients are made before the first is written, so that a failure leaves every grad as it was.
    with _commit, no_grad():
        tensors = [t for t, _ in found]
        made = [as_leaf_gradient(t, g) for t, g in found]
        sums = [g if t.grad is None else accumulate(t.grad, g) for t, g in zip(tensors, made, strict=True)]
        for tensor, total in zip(tensors, apart(sums, _carriers(given, tensors)), strict=True):
            tensor.grad = detached(total)


def _carriers(given: Tensor | None, tensors: Iterable[Tensor]) -> list[Carrier]:
    """Whose storage no gradient may have: that of the caller's gradient, and of the values themselves."""
    return [t.carrier for t in (*tensors, given) if t is not None]


def _free(order: list[Tensor]) -> None:
    for tensor in order:
        if tensor.autograd_ctx is not None:
            tensor.autograd_ctx.free()
