"""Compare many random programs in one library; a failure is reported on its smallest prefix."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .harness import compare
from .random_programs import random_program

__all__ = ["STEPS", "compare_seeds"]

STEPS = 14


def compare_seeds(seeds: Sequence[int]) -> None:
    """The programs of ``seeds`` against the evaluator, compiled together.

    Raises AssertionError with the shortest failing prefix of the first program that differs.
    """
    message = _failure(seeds, STEPS)
    if message is None:
        return
    named = re.search(r"seed(\d+)", message)
    suspects = [int(named[1])] if named else []
    for seed in dict.fromkeys([*suspects, *seeds]):
        shrunk = _smallest(seed)
        if shrunk is not None:
            raise AssertionError(shrunk)
    raise AssertionError(f"seeds {list(seeds)} fail only together: {message}")


def _failure(seeds: Sequence[int], steps: int) -> str | None:
    """What goes wrong; a program that does not compile or run counts too."""
    try:
        compare([random_program(seed, steps) for seed in seeds], length=4096, floor=0.05)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def _smallest(seed: int) -> str | None:
    """The shortest failing prefix of the program as text, or None where it passes alone."""
    if _failure([seed], STEPS) is None:
        return None
    passes, fails = 0, STEPS
    while fails - passes > 1:
        middle = (passes + fails) // 2
        if _failure([seed], middle) is None:
            passes = middle
        else:
            fails = middle
    function, _ = random_program(seed, fails)
    body = "\n".join(
        f"  {s.target.name} = {getattr(s.value, 'op', s.value).name if hasattr(s.value, 'op') else 'call'}"
        f"({[str(a) for a in s.value.args]}, {getattr(s.value, 'attrs', ())})"
        for s in function.stmts()
    )
    return f"seed {seed}, {fails} steps: {_failure([seed], fails)}\n{function}\n{body}"
