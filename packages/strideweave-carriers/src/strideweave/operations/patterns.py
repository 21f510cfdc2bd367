"""Patterns such as ``"a b -> a"``: names for modes, and which of them a result keeps or groups."""

from __future__ import annotations

import re
from typing import Any

Tree = Any
"""A name, or a tuple of Trees where the pattern has parentheses."""

_TOKEN = re.compile(r"\s*([A-Za-z_]\w*|[()]|->)")


def parse(name: str, pattern: str) -> tuple[list[Tree], list[Tree]]:
    """Both sides of ``pattern``, as lists of names and (nested) groups.

    Raises:
        TypeError: ``pattern`` is no string.
        ValueError: no arrow, unbalanced parentheses, or a name that occurs twice on a side.
    """
    if not isinstance(pattern, str):
        raise TypeError(f"{name}: the pattern must be a string such as 'a b -> a', got {pattern!r}")
    halves = pattern.split("->")
    if len(halves) != 2:
        raise ValueError(f"{name}: pattern {pattern!r} needs exactly one '->', as in 'a b -> a'")
    left, right = (_side(name, pattern, half) for half in halves)
    return left, right


def _side(name: str, pattern: str, text: str) -> list[Tree]:
    stack: list[list[Tree]] = [[]]
    seen: set[str] = set()
    rest = text.strip()
    while rest:
        match = _TOKEN.match(rest)
        if match is None or match[1] == "->":
            raise ValueError(f"{name}: pattern {pattern!r}: cannot read {rest!r}")
        rest = rest[match.end() :].strip()
        _take(name, pattern, match[1], stack, seen)
    if len(stack) != 1:
        raise ValueError(f"{name}: pattern {pattern!r}: a parenthesis is not closed")
    return stack[0]


def _take(name: str, pattern: str, token: str, stack: list[list[Tree]], seen: set[str]) -> None:
    if token == "(":
        stack.append([])
    elif token == ")":
        if len(stack) == 1:
            raise ValueError(f"{name}: pattern {pattern!r}: a parenthesis is closed that was not opened")
        group = tuple(stack.pop())
        stack[-1].append(group)
    else:
        if token in seen:
            raise ValueError(f"{name}: pattern {pattern!r}: {token} occurs twice on one side")
        seen.add(token)
        stack[-1].append(token)


def names(tree: Tree) -> list[str]:
    """All names in a Tree or a list of Trees, left to right."""
    if isinstance(tree, str):
        return [tree]
    return [n for part in tree for n in names(part)]


def reduced_modes(name: str, pattern: str, rank: int) -> tuple[int, ...]:
    """Positions of the modes that a reduction's pattern leaves out.

    Raises:
        ValueError: another number of modes, groups, a new name, another order, or nothing left out.
    """
    left, right = parse(name, pattern)
    if not all(isinstance(t, str) for t in (*left, *right)):
        raise ValueError(f"{name}: pattern {pattern!r}: a reduction names whole modes, without parentheses")
    if len(left) != rank:
        raise ValueError(f"{name}: pattern {pattern!r} names {len(left)} modes, the tensor has {rank}")
    if [n for n in left if n in right] != right:
        raise ValueError(
            f"{name}: pattern {pattern!r}: the right side must keep modes of the left in their order"
        )
    dropped = tuple(k for k, n in enumerate(left) if n not in right)
    if not dropped:
        raise ValueError(f"{name}: pattern {pattern!r} leaves out no mode, so there is nothing to reduce")
    return dropped
