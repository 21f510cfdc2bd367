"""Nested tuples of integers: the trees that shapes, strides and coordinates are made of."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from operator import index as as_index
from typing import Any

IntTuple = Any
"""An ``int`` or a tuple whose entries are again IntTuples; ``()`` is the tree without leaves."""


def as_int(value: object, what: str) -> int:
    """``value`` as a plain int.

    Raises:
        TypeError: ``value`` is a bool or has no ``__index__``.
    """
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{what}: expected an integer, got {type(value).__name__} {value!r}; pass an int")
    return as_index(value)  # type: ignore[arg-type] # hasattr above is the check


def as_tree(value: object, what: str, least: int) -> IntTuple:
    """``value`` with lists made tuples and every leaf a plain int of at least ``least``.

    Raises:
        TypeError: a leaf is no integer.
        ValueError: a leaf is below ``least``.
    """
    if isinstance(value, (tuple, list)):
        return tuple(as_tree(v, what, least) for v in value)
    leaf = as_int(value, what)
    if leaf < least:
        raise ValueError(f"{what}: got {leaf} in a position that must be at least {least}")
    return leaf


def leaves(tree: IntTuple) -> Iterator[int]:
    """The leaves of ``tree``, left to right."""
    if isinstance(tree, tuple):
        for entry in tree:
            yield from leaves(entry)
    else:
        yield tree


def flatten(tree: IntTuple) -> tuple[int, ...]:
    """The leaves of ``tree`` as one flat tuple."""
    return tuple(leaves(tree))


def unflatten(flat: tuple[Any, ...], profile: IntTuple) -> Any:
    """The entries of ``flat`` hung onto the tree ``profile``, left to right.

    Raises:
        ValueError: the numbers of leaves differ.
    """
    count = len(flatten(profile))
    if count != len(flat):
        raise ValueError(f"unflatten: {len(flat)} values for a tree of {count} leaves, {profile}")
    return _hang(iter(flat), profile)


def _hang(source: Iterator[Any], profile: IntTuple) -> Any:
    if isinstance(profile, tuple):
        return tuple(_hang(source, entry) for entry in profile)
    return next(source)


def product(tree: IntTuple) -> int:
    """The product of all leaves; 1 for a tree without leaves."""
    return prod(leaves(tree))


def depth(tree: IntTuple) -> int:
    """Nesting depth: 0 for an int, 1 for a flat tuple."""
    if isinstance(tree, tuple):
        return 1 + max((depth(entry) for entry in tree), default=0)
    return 0


def rank(tree: IntTuple) -> int:
    """Number of top-level modes: 1 for an int."""
    return len(tree) if isinstance(tree, tuple) else 1


def congruent(a: IntTuple, b: IntTuple) -> bool:
    """Whether ``a`` and ``b`` are the same tree apart from the values of their leaves."""
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(congruent, a, b))
    return not isinstance(a, tuple) and not isinstance(b, tuple)


def weakly_congruent(a: IntTuple, b: IntTuple) -> bool:
    """Whether ``b`` refines ``a``: where ``a`` has a leaf, ``b`` may have any tree."""
    if not isinstance(a, tuple):
        return True
    return isinstance(b, tuple) and len(a) == len(b) and all(map(weakly_congruent, a, b))


def compact_strides(shape: IntTuple) -> IntTuple:
    """Strides of the dense layout of ``shape`` with the first leaf fastest."""
    flat, step = [], 1
    for extent in leaves(shape):
        flat.append(step)
        step *= extent
    return unflatten(tuple(flat), shape)
