"""CUDA kernels of the op tests' programs on an emulated block. Oracle: the evaluator, on full tensors."""

import pytest

from ..cpu.harness import compare
from ..cpu.random_programs import random_program
from ..cpu.test_elementwise import *  # noqa: F403  # the same tests
from ..cpu.test_moves import *  # noqa: F403
from ..cpu.test_products import *  # noqa: F403
from ..cpu.test_reductions import *  # noqa: F403
from .emulating import run_emulated
from .runners import computing_with

pytestmark = [pytest.mark.slow, pytest.mark.emulated]


@pytest.fixture(autouse=True)
def emulated():
    with computing_with(run_emulated):
        yield


@pytest.mark.parametrize("batch", range(4))
def test_random_programs_equal_the_evaluator(batch):
    compare([random_program(seed, 10) for seed in range(batch * 8, batch * 8 + 8)], length=4096, floor=0.05)
