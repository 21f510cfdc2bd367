"""Every program of the CPU target's op tests on a GPU. Oracle: the evaluator, on full tensors."""

import pytest

from ..cpu.test_elementwise import *  # noqa: F403  # the same tests
from ..cpu.test_moves import *  # noqa: F403
from ..cpu.test_products import *  # noqa: F403
from ..cpu.test_reductions import *  # noqa: F403
from .runners import computing_with, run_on_gpu

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def on_gpu():
    with computing_with(run_on_gpu):
        yield
