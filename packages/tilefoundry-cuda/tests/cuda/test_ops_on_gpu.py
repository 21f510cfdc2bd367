"""Every program of the CPU target's op tests on a GPU. Oracle: the evaluator, on full tensors."""

import pytest

from ..cpu.harness import compare
from ..cpu.random_programs import random_program
from ..cpu.test_ops import *  # noqa: F403  # the same tests
from .runners import computing_with, run_on_gpu

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def on_gpu():
    with computing_with(run_on_gpu):
        yield


@pytest.mark.parametrize("batch", range(30))
def test_random_programs_equal_the_evaluator(batch):
    compare(
        [random_program(seed, 14) for seed in range(batch * 10, batch * 10 + 10)], length=4096, floor=0.05
    )
