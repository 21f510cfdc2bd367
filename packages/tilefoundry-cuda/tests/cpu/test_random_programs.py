"""Random programs, many per library. Oracle: the evaluator; a failure is reported on its smallest prefix."""

from __future__ import annotations

import pytest

from . import shrinking
from .harness import RUNNER
from .shrinking import compare_seeds

PER_LIBRARY = 25
LIBRARIES = 12


@pytest.mark.parametrize("batch", range(LIBRARIES))
@pytest.mark.spec("programs.random")
def test_random_programs_equal_the_evaluator(batch):
    compare_seeds(range(batch * PER_LIBRARY, (batch + 1) * PER_LIBRARY))


@pytest.mark.spec("programs.random")
def test_a_failure_is_reported_on_a_small_program(monkeypatch):
    # Oracle: a runner that spoils every result of programs with a reduction; the report ends with one.
    def spoiled(module, tensors, options):
        outputs = RUNNER[0](module, tensors, options)
        text = str(
            [getattr(s.value, "op", None) and s.value.op.name for f in module.functions for s in f.stmts()]
        )
        return [output + 1 for output in outputs] if "'reduce'" in text else outputs

    monkeypatch.setattr(shrinking, "STEPS", 8)
    RUNNER.append(spoiled)
    try:
        with pytest.raises(AssertionError, match=r"seed 3, \d steps") as caught:
            compare_seeds([3])
    finally:
        RUNNER.pop()
    lines = [line for line in str(caught.value).splitlines() if " = " in line]
    assert sum("= reduce(" in line for line in lines) == 1, lines
