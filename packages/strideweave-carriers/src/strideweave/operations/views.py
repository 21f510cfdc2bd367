"""Views: slicing, rearranging, reshaping and broadcasting without moving a value, where the algebra allows.

A view shares its source's carrier, so a write shows in both. Each records one node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilefoundry.ir import layout as algebra
from tilefoundry.ir.layout import CompositionError, IntTuple, flatten, product

from ..autograd.mode import is_grad_enabled
from ..autograd.node import Node
from ..carriers.definition import definition_of
from ..errors import UnsupportedOperationPlan, no_tensor
from ..layout import Layout
from ..shape import Shape
from ..tensor import Tensor, attach, detached
from .cast import copy
from .patterns import Tree, names, parse
from .slice_gradient import slice_gradient
from .unbroadcast import sum_to


def _source(name: str, tensor: Tensor) -> None:
    if not isinstance(tensor, Tensor):
        raise no_tensor(name, tensor)
    tensor.carrier.require_live(name)
    cls = type(tensor.carrier)
    if definition_of(cls) is not None:
        raise UnsupportedOperationPlan(
            f"{name}: {cls.__name__} has no views; project a selection and view its result"
        )


def _view(name: str, source: Tensor, offset: int, layout: Layout, vjp: Callable[[Tensor], Tensor]) -> Tensor:
    view = Tensor(source.carrier, offset, layout)
    if not (source.is_differentiable() and is_grad_enabled()):
        return attach(view, None)
    return attach(view, Node(name, (source,), lambda gradient: (vjp(gradient),)))


def as_shape(tensor: Tensor, extents: IntTuple) -> Tensor:
    """A dense tensor under another shape of the same size, outside any graph."""
    return detached(Tensor(tensor.carrier, tensor.offset, Layout(extents)))


def reshape(tensor: Tensor, shape: Any) -> Tensor:
    """The same values in the order of coordinates under another shape: a view where one exists, else a copy.

    Raises:
        ValueError: the sizes differ.
    """
    _source("reshape", tensor)
    wanted = shape if isinstance(shape, Shape) else Shape(shape)
    if wanted.size() != tensor.size():
        raise ValueError(
            f"reshape: {tensor.shape.extents} has {tensor.size()} values, {wanted.extents} {wanted.size()}"
        )
    try:
        inner = algebra.composition(tensor.layout.concrete, algebra.Layout(wanted.extents))
    except CompositionError:
        return reshape(copy(tensor), wanted)
    if not algebra.congruent(inner.shape, wanted.extents):
        return reshape(copy(tensor), wanted)
    before = tensor.shape.extents
    return _view("reshape", tensor, tensor.offset, Layout.of(inner), lambda g: as_shape(_dense(g), before))


def _dense(tensor: Tensor) -> Tensor:
    return tensor if tensor.layout.is_dense() else detached(copy(tensor))


def broadcast_to(tensor: Tensor, shape: Any) -> Tensor:
    """The tensor seen over a larger shape of the same form: leaves of extent 1 repeat.

    Raises:
        ValueError: another form, or a leaf that is neither equal nor 1.
    """
    _source("broadcast_to", tensor)
    wanted = shape if isinstance(shape, Shape) else Shape(shape)
    mine = tensor.shape.extents
    if not algebra.congruent(mine, wanted.extents):
        raise ValueError(f"broadcast_to: shapes {mine} and {wanted.extents} are trees of different form")
    strides = []
    for have, want, stride in zip(flatten(mine), wanted.leaves(), flatten(tensor.layout.stride), strict=True):
        if have not in (1, want):
            raise ValueError(
                f"broadcast_to: {mine} does not repeat to {wanted.extents}: leaf {have} to {want}"
            )
        strides.append(stride if have == want else 0)
    layout = Layout(wanted, algebra.unflatten(tuple(strides), wanted.extents))
    return _view("broadcast_to", tensor, tensor.offset, layout, lambda g: sum_to(g, mine))


def rearrange(tensor: Tensor, pattern: str, **sizes: int) -> Tensor:
    """Modes permuted, grouped and split by name: ``"a b -> b a"``, ``"a b c -> (a b) c"``, ``"(a b) c -> a b c"``.

    A group on the left splits a mode, first name fastest; give all sizes but one by keyword. A group on the right
    is a nested mode. Always a view.

    Raises:
        ValueError: names that do not match the modes, sizes that do not divide, or a mode that cannot be split.
    """
    _source("rearrange", tensor)
    left, right = parse("rearrange", pattern)
    if sorted(names(left)) != sorted(names(right)):
        raise ValueError(f"rearrange: pattern {pattern!r}: both sides must have the same names")
    if len(left) != tensor.shape.rank:
        raise ValueError(
            f"rearrange: pattern {pattern!r} has {len(left)} modes, the tensor {tensor.shape.rank}"
        )
    parts: dict[str, algebra.Layout] = {}
    for tree, mode in zip(left, tensor.layout.concrete.modes(), strict=True):
        parts.update(_split(pattern, tree, mode, sizes))
    whole = algebra.concatenate(*(_build(t, parts) for t in right))
    back = _inverse_layout(left, right, parts, tensor.shape.extents)
    return _view("rearrange", tensor, tensor.offset, Layout.of(whole), lambda g: back(_dense(g)))


def _split(
    pattern: str, tree: Tree, mode: algebra.Layout, sizes: dict[str, int]
) -> dict[str, algebra.Layout]:
    if isinstance(tree, str):
        return {tree: mode}
    members = names(tree)
    known = {n: sizes[n] for n in members if n in sizes}
    rest = [n for n in members if n not in sizes]
    if isinstance(mode.shape, tuple) and not known and len(mode.shape) == len(members):
        return dict(zip(members, mode.modes(), strict=True))
    total = product(tuple(known.values()))
    if len(rest) > 1 or mode.size() % total or (not rest and total != mode.size()):
        raise ValueError(f"rearrange: pattern {pattern!r}: {known} do not split a mode of size {mode.size()}")
    known.update({n: mode.size() // total for n in rest})
    inner = algebra.composition(mode, algebra.Layout(tuple(known[n] for n in members)))
    return dict(zip(members, inner.modes(), strict=True))


def _build(tree: Tree, parts: dict[str, algebra.Layout]) -> algebra.Layout:
    if isinstance(tree, str):
        return parts[tree]
    return algebra.concatenate(*(_build(t, parts) for t in tree))


def _inverse_layout(
    left: Sequence[Tree], right: Sequence[Tree], parts: dict[str, algebra.Layout], extents: IntTuple
) -> Callable[[Tensor], Tensor]:
    """From a dense tensor in the right form, the same values seen in the left form with the source's shape."""
    order, step = {}, 1
    for name in names(list(right)):
        order[name] = algebra.Layout(
            parts[name].shape, _scaled(algebra.compact_strides(parts[name].shape), step)
        )
        step *= parts[name].size()
    flat = [m for n in names(list(left)) for m in order[n].flat_modes()]

    def back(gradient: Tensor) -> Tensor:
        strides = tuple(d for _, d in flat)
        shape = tuple(s for s, _ in flat)
        seen = detached(Tensor(gradient.carrier, gradient.offset, Layout(shape, strides)))
        return as_shape(detached(copy(seen)), extents)

    return back


def _scaled(strides: IntTuple, factor: int) -> IntTuple:
    return tuple(_scaled(s, factor) for s in strides) if isinstance(strides, tuple) else strides * factor


def slice_view(tensor: Tensor, key: Any) -> Tensor:
    """``tensor[key]``: an integer drops a mode, a slice with a positive step keeps one, ``...`` keeps the rest.

    Raises:
        TypeError: another kind of key.
        IndexError: too many keys, or an integer outside its mode.
        ValueError: an empty slice, a step below 1, or a step over a nested mode that it does not fit.
    """
    _source("slice", tensor)
    keys = _expanded(tensor, key if isinstance(key, tuple) else (key,))
    offset, window = _windows(tensor.layout.concrete, keys)
    extents = tensor.shape.extents
    dense = _windows(algebra.Layout(extents), keys)
    return _view(
        "slice",
        tensor,
        tensor.offset + offset,
        Layout.of(window),
        lambda g: slice_gradient(g, extents, *dense),
    )


def _windows(layout: algebra.Layout, keys: tuple[Any, ...]) -> tuple[int, algebra.Layout]:
    offset, kept = 0, []
    for mode, part in zip(layout.modes(), keys, strict=True):
        start, window = _window(mode, part)
        offset += mode(start)
        if window is not None:
            kept.append(window)
    return offset, kept[0] if len(kept) == 1 and not isinstance(layout.shape, tuple) else algebra.concatenate(
        *kept
    )


def _expanded(tensor: Tensor, keys: tuple[Any, ...]) -> tuple[Any, ...]:
    rank = tensor.shape.rank
    if Ellipsis in keys:
        at = keys.index(Ellipsis)
        keys = (*keys[:at], *[slice(None)] * (rank - len(keys) + 1), *keys[at + 1 :])
    if len(keys) > rank:
        raise IndexError(f"slice: {len(keys)} keys for a tensor of {rank} modes")
    return (*keys, *[slice(None)] * (rank - len(keys)))


def _window(mode: algebra.Layout, key: Any) -> tuple[int, algebra.Layout | None]:
    size = mode.size()
    if isinstance(key, slice):
        if key == slice(None):
            return 0, mode
        picked = range(*key.indices(size))
        if picked.step < 1 or not picked:
            raise ValueError(f"slice: {key} of a mode of size {size} is empty or runs backwards")
        if not isinstance(mode.shape, tuple):
            return picked.start, algebra.Layout(len(picked), mode.stride * picked.step)
        return picked.start, _nested_window(mode, picked)
    if isinstance(key, bool) or not hasattr(key, "__index__"):
        raise TypeError(f"slice: expected an integer, a slice or ..., got {key!r}")
    index = key.__index__()
    if not -size <= index < size:
        raise IndexError(f"slice: {index} is outside a mode of size {size}")
    return index % size, None


def _nested_window(mode: algebra.Layout, picked: range) -> algebra.Layout:
    window = algebra.composition(mode, algebra.Layout(len(picked), picked.step))
    # Composition vouches for a window from 0; from elsewhere each step may carry differently.
    if picked.start and any(mode(i) - mode(picked.start) != window(k) for k, i in enumerate(picked)):
        raise ValueError(
            f"slice: {picked} is no layout over the nested mode {mode}; reshape the tensor first"
        )
    return window
