"""Random programs, many per library. Oracle: the evaluator; a failure is reported on its smallest prefix."""

from __future__ import annotations

import pytest

from .harness import compare
from .random_programs import random_program

STEPS = 14
PER_LIBRARY = 25
LIBRARIES = 12


def fails(seed: int, steps: int) -> str | None:
    try:
        compare([random_program(seed, steps)], length=4096, floor=0.05)
    except AssertionError as error:
        return str(error)
    return None


def smallest(seed: int) -> str:
    """The shortest failing prefix of the program, as text."""
    for steps in range(1, STEPS + 1):
        message = fails(seed, steps)
        if message is not None:
            function, _ = random_program(seed, steps)
            body = "\n".join(
                f"  {s.target.name} = {s.value.op.name}({[str(a) for a in s.value.args]}, {s.value.attrs})"
                for s in function.stmts()
            )
            return f"seed {seed}, {steps} steps: {message}\n{function}\n{body}"
    return f"seed {seed} fails only together with other programs"


@pytest.mark.parametrize("batch", range(LIBRARIES))
def test_random_programs_equal_the_evaluator(batch):
    seeds = range(batch * PER_LIBRARY, (batch + 1) * PER_LIBRARY)
    try:
        compare([random_program(seed, STEPS) for seed in seeds], length=4096, floor=0.05)
    except AssertionError:
        for seed in seeds:
            assert fails(seed, STEPS) is None, smallest(seed)
        raise
