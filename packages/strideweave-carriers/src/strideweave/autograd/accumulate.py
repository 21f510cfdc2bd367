"""Sums of gradients and their final form, by the exact carrier class."""

from __future__ import annotations

from collections.abc import Callable

from .. import registry
from ..carriers.base import Carrier
from ..layout import Layout
from ..tensor import Tensor, detached

Accumulate = Callable[[Tensor, Tensor], Tensor]
Adopt = Callable[[Tensor, Tensor], Tensor]
Begin = Callable[[Tensor, Tensor], Tensor]

_sums: dict[type, Accumulate] = {}
_leaves: dict[type, Adopt] = {}
_seeds: dict[type, Begin] = {}


def register_gradients(cls: type[Carrier], accumulate: Accumulate, adopt: Adopt, begin: Begin) -> None:
    """Say how gradients that touch ``cls`` are summed, how one becomes the ``grad`` of a leaf on ``cls``, and in what
    form a backward ``begin(root, gradient)`` where root or gradient is on ``cls``.
    """
    _sums[cls] = accumulate
    _leaves[cls] = adopt
    _seeds[cls] = begin


def as_seed(root: Tensor, gradient: Tensor) -> Tensor:
    """The caller's ``gradient`` of ``root``, detached, in the form in which ``root``'s node takes it."""
    seed = detached(gradient)
    for tensor in (root, gradient):
        own = _seeds.get(type(tensor.carrier))
        if own is not None:
            return own(root, seed)
    return seed


def accumulate(a: Tensor, b: Tensor) -> Tensor:
    """``a + b`` as a fresh tensor; each operand stays as it was. A class with a sum of its own decides."""
    for tensor in (a, b):
        own = _sums.get(type(tensor.carrier))
        if own is not None:
            return own(a, b)
    total = registry.call("add", _computable(a), _computable(b))
    return total if type(total.carrier) is type(a.carrier) else in_class_of(a.carrier, total)


def as_leaf_gradient(leaf: Tensor, gradient: Tensor) -> Tensor:
    """``gradient`` as a detached value in exactly the leaf's class, type and shape."""
    own = _leaves.get(type(leaf.carrier))
    if own is not None:
        return own(leaf, gradient)
    if gradient.dtype() is not leaf.dtype():
        gradient = registry.call("cast", _computable(gradient), leaf.dtype())
    if type(gradient.carrier) is not type(leaf.carrier):
        gradient = in_class_of(leaf.carrier, gradient)
    return detached(gradient)


def in_class_of(carrier: Carrier, tensor: Tensor) -> Tensor:
    """A copy of ``tensor`` in a fresh carrier like ``carrier``."""
    fresh = carrier.allocate_like(0, mutable=True, dtype=tensor.dtype())
    return registry.call("move", tensor, fresh)


def _computable(tensor: Tensor) -> Tensor:
    if tensor.carrier.compute or tensor.carrier.dependent:
        return tensor
    return registry.call("to_cpu", tensor)


def ones_for(root: Tensor) -> Tensor:
    """The gradient of a tensor of size 1 with respect to itself."""
    compute = root.carrier.compute_carrier()
    base = compute if compute.compute else None
    if base is None:
        cpu = registry.call("to_cpu", detached(root))
        base = cpu.carrier
    carrier = base.new_like([1.0], mutable=True, dtype=root.dtype())
    return detached(Tensor(carrier, 0, Layout(root.shape)))
