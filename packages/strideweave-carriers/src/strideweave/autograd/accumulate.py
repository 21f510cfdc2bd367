"""Sums of gradients and their final form, by the exact carrier class."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from .. import registry
from ..carriers.base import Carrier
from ..layout import Layout
from ..tensor import Tensor, detached

Pairing = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True, slots=True)
class GradientRules:
    """What is done with gradients that touch a carrier class.

    ``accumulate(a, b)`` sums two of which one is on the class. ``adopt(leaf, gradient)`` makes one the ``grad`` of a
    leaf on it. ``begin(root, gradient)`` gives the form in which a backward begins, where either is on it.
    ``copy(gradient)`` gives one on it storage of its own.
    """

    accumulate: Pairing
    adopt: Pairing
    begin: Pairing
    copy: Callable[[Tensor], Tensor]


_rules: dict[type, GradientRules] = {}


def register_gradients(cls: type[Carrier], rules: GradientRules) -> None:
    """Have ``rules`` say what is done with gradients that touch ``cls``."""
    _rules[cls] = rules


def as_seed(root: Tensor, gradient: Tensor) -> Tensor:
    """The caller's ``gradient`` of ``root``, detached, in the form in which ``root``'s node takes it."""
    seed = detached(gradient)
    for tensor in (root, gradient):
        own = _rules.get(type(tensor.carrier))
        if own is not None:
            return own.begin(root, seed)
    return seed


def apart(gradients: Sequence[Tensor], taken: Iterable[Carrier]) -> list[Tensor]:
    """``gradients``, each with storage that neither another one nor ``taken`` has: whoever gets one may write it."""
    known, out = {id(carrier) for carrier in taken}, []
    for gradient in gradients:
        if id(gradient.carrier) in known:
            own = _rules.get(type(gradient.carrier))
            gradient = (
                own.copy(gradient) if own is not None else detached(in_class_of(gradient.carrier, gradient))
            )
        known.add(id(gradient.carrier))
        out.append(gradient)
    return out


def accumulate(a: Tensor, b: Tensor) -> Tensor:
    """``a + b`` as a fresh tensor; each operand stays as it was. A class with a sum of its own decides."""
    for tensor in (a, b):
        own = _rules.get(type(tensor.carrier))
        if own is not None:
            return own.accumulate(a, b)
    total = registry.call("add", _computable(a), _computable(b))
    return total if type(total.carrier) is type(a.carrier) else in_class_of(a.carrier, total)


def as_leaf_gradient(leaf: Tensor, gradient: Tensor) -> Tensor:
    """``gradient`` as a detached value in exactly the leaf's class, type and shape."""
    own = _rules.get(type(leaf.carrier))
    if own is not None:
        return own.adopt(leaf, gradient)
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
