"""`tilefoundry::copy` between shards and plain tensors of other shapes: which element lands where.

Oracle: a plain tensor is the row-major reshape of what it holds, the whole canonical shape or one instance's part,
worked out coordinate by coordinate. With nothing split the two readings are the same.
"""

from __future__ import annotations

import itertools
import subprocess
from dataclasses import dataclass
from math import prod
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[4] / "cpp-runtime" / "tests" / "host" / "copies.cc"
MESH = (2, 3)
ELEMENTS = 256


def right(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Row-major strides."""
    return tuple(prod(shape[d + 1 :]) for d in range(len(shape)))


def left(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Column-major strides."""
    return tuple(prod(shape[:d]) for d in range(len(shape)))


@dataclass(frozen=True, slots=True)
class Case:
    """A shard (`splits[m]`: the axis that mesh axis m splits) and a plain tensor; `part`: one for each instance."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    splits: tuple[int | None, ...]
    plain: tuple[int, ...]
    plain_strides: tuple[int, ...]
    part: bool

    def elements(self, instance: int) -> list[tuple[int, int]]:
        """(offset in the shard's memory, offset in the plain tensor) of what the instance owns, in row-major order."""
        at = dict(zip(self.splits, divmod(instance, MESH[1]), strict=True))
        owned = [(at[d],) if d in at else range(n) for d, n in enumerate(self.shape)]
        held = tuple(len(range_) for range_ in owned) if self.part else self.shape
        out = []
        for c in itertools.product(*owned):
            inner = tuple(0 if self.part and d in at else x for d, x in enumerate(c))
            number = sum(x * s for x, s in zip(inner, right(held), strict=True))
            place = [number // s % n for n, s in zip(self.plain, right(self.plain), strict=True)]
            out.append((dot(c, self.strides), dot(place, self.plain_strides)))
        return out


def dot(a, b) -> int:
    return sum(x * y for x, y in zip(a, b, strict=True))


FOUR, SPLIT, NOTHING = (2, 4, 3, 2), (0, 2), (None, None)
LEFT = (4, 3, 5)


def four(splits, plain, order, *, part: bool) -> Case:
    return Case(FOUR, right(FOUR), splits, plain, order(plain), part)


CASES = {
    "nothing_same": four(NOTHING, FOUR, right, part=False),
    "nothing_flat": four(NOTHING, (48,), right, part=False),
    "nothing_logical": four(NOTHING, (2, 24), right, part=False),
    "nothing_columns": four(NOTHING, (8, 6), left, part=False),
    "nothing_dynamic": four(NOTHING, (48,), right, part=False),
    "whole_logical": four(SPLIT, (2, 24), right, part=False),
    "whole_columns": four(SPLIT, (8, 6), left, part=False),
    "part_same": four(SPLIT, (1, 4, 1, 2), right, part=True),
    "part_flat": four(SPLIT, (8,), right, part=True),
    "part_rows": four(SPLIT, (4, 2), right, part=True),
    "part_columns": four(SPLIT, (2, 4), left, part=True),
    "part_left": Case(LEFT, left(LEFT), (None, 1), (20,), (1,), True),
    "whole_left": Case(LEFT, left(LEFT), (None, 1), (12, 5), right((12, 5)), False),
    "dynamic_whole": Case(LEFT, right(LEFT), (None, 1), LEFT, right(LEFT), False),
}


def expected(case: Case, instances: range | list[int]) -> tuple[list[int], list[int]]:
    """Memory after the copies of these instances: the plain tensor's, and the shard's."""
    out, into = [-1] * ELEMENTS, [-1] * ELEMENTS
    for instance in instances:
        for shard, plain in case.elements(instance):
            out[plain] = shard
            into[shard] = plain
    return out, into


@pytest.fixture(scope="module")
def printed(cuda_gxx) -> dict[tuple[str, str, int], list[int]]:
    """What the program says, by case, direction and instance."""
    built = cuda_gxx(SOURCE.read_text(), "-O1")
    assert built.ok, built.log
    lines = subprocess.run([built.path], capture_output=True, text=True, check=True).stdout.splitlines()
    words = [line.split() for line in lines]
    return {(name, direction, int(i)): [int(v) for v in values] for name, direction, i, *values in words}


@pytest.mark.spec("cpp.copies")
@pytest.mark.parametrize("name", CASES)
def test_elements_land_in_row_major_order(name: str, printed):
    case = CASES[name]
    for group in [[i] for i in range(6)] if case.part else [range(6)]:
        out, into = expected(case, group)
        assert printed[name, "out", group[0]] == out
        assert printed[name, "in", group[0]] == into


def test_every_case_of_the_program_is_checked(printed):
    assert {name for name, _, _ in printed} == set(CASES)
