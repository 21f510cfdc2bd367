"""Pairs of an output and an input that one tensor may serve, as the CUDA target records them. Oracle: the programs'
own text, whose first output is their first input with a window replaced."""

from __future__ import annotations

import pytest

from tilefoundry import compile
from tilefoundry.target import CudaTarget

from ..cpu.test_inplace import CASES


@pytest.mark.parametrize("program,inputs", CASES, ids=lambda value: getattr(value, "name", ""))
@pytest.mark.spec("inplace.window")
def test_a_replaced_window_is_recorded(program, inputs):
    compiled = compile(program, target=CudaTarget("nvidia.h200_sxm"))
    assert compiled.type.inplace == ((0, 0),)
    assert "inplace_" in compiled.source
