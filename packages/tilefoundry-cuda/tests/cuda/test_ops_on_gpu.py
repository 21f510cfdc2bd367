"""Every program of the CPU target's op tests on a GPU. Oracle: the evaluator, on full tensors."""

import pytest

from ..cpu.test_ops import *  # noqa: F403  # the same tests
from .runners import computing_with, run_on_gpu

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def on_gpu():
    with computing_with(run_on_gpu):
        yield
