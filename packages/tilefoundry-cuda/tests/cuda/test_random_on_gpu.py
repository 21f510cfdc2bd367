"""Random programs on a GPU, many kernels per library. Oracle: the evaluator; a failure is shrunk to a small program.

``TILEFOUNDRY_RANDOM_PROGRAMS`` says how many programs there are, ``TILEFOUNDRY_RANDOM_FIRST`` the first seed.
"""

from __future__ import annotations

import os

import pytest

from ..cpu.shrinking import compare_seeds
from .runners import computing_with, run_on_gpu

pytestmark = pytest.mark.gpu

COUNT = int(os.environ.get("TILEFOUNDRY_RANDOM_PROGRAMS", "320"))
FIRST = int(os.environ.get("TILEFOUNDRY_RANDOM_FIRST", "0"))
PER_LIBRARY = 20


@pytest.mark.parametrize("first", range(FIRST, FIRST + COUNT, PER_LIBRARY))
@pytest.mark.spec("programs.random")
def test_random_programs_equal_the_evaluator(first):
    with computing_with(run_on_gpu):
        compare_seeds(range(first, min(first + PER_LIBRARY, FIRST + COUNT)))
