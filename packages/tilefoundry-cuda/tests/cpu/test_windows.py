"""Windows that the call's extents or values put outside. Oracles: the evaluator; outputs that stay as they were."""

from __future__ import annotations

import pytest
import torch

from tilefoundry import func, jit, lower
from tilefoundry.codegen.cuda import BACKEND
from tilefoundry.dsl import DimVar, Tensor, tf
from tilefoundry.evaluator import evaluate
from tilefoundry.target import CompilerOptions, CudaTarget

N = DimVar("N", 1, 100)
H200 = CudaTarget("nvidia.h200_sxm")


@func
def windows(
    x: Tensor[(N, 8), "f32"], i: Tensor[(), "i32"]
) -> tuple[Tensor[(2, 8), "f32"], Tensor[(3, 8), "f32"], Tensor[(N, 8), "f32"]]:
    """Rows 3 and 5, and three from ``i`` on."""
    y = x * 2.0
    return tf.slice(y, (3, 0), sizes=(2, 8), strides=(2, 1)), tf.slice(y, (i, 0), sizes=(3, 8)), y


@pytest.fixture(scope="module")
def compiled():
    return jit(windows, target="cpu", options=CompilerOptions(opt_level=1))


def call(compiled, rows: int, start: int) -> None:
    """A call whose result is the evaluator's, or that raises and leaves its outputs alone."""
    given = torch.randn(rows, 8), torch.tensor(start, dtype=torch.int32)
    outputs = tuple(torch.full(shape, 7.0) for shape in ((2, 8), (3, 8), (rows, 8)))
    try:
        compiled(*given, *outputs)
    except ValueError:
        assert all(bool((out == 7.0).all()) for out in outputs[:2])
        raise
    for got, want in zip(outputs, evaluate(windows, *given), strict=True):
        assert torch.equal(got, want)


@pytest.mark.spec("args.windows")
@pytest.mark.parametrize(("rows", "start"), [(6, 0), (6, 3), (99, 96)])
def test_windows_inside_are_taken(compiled, rows, start):
    call(compiled, rows, start)


@pytest.mark.spec("args.windows")
@pytest.mark.parametrize(
    ("rows", "start", "message"),
    [
        (5, 0, r"tf\.slice\(y, starts=\(3, 0\).*: the window of axis 0, 2 long, leaves its extent N"),
        (1, 0, r"starts=\(3, 0\).*axis 0"),
        (6, 4, r"tf\.slice\(y, i, .*: the window of axis 0, 3 long, leaves its extent N"),
        (6, -1, r"tf\.slice\(y, i, .*axis 0"),
    ],
)
def test_windows_outside_are_refused_by_the_ops_line_and_axis(compiled, rows, start, message):
    with pytest.raises(ValueError, match=message):
        call(compiled, rows, start)
    with pytest.raises(ValueError, match="leaves the extent"):
        evaluate(windows, torch.randn(rows, 8), torch.tensor(start, dtype=torch.int32))


@pytest.mark.spec("args.windows")
def test_extents_stop_a_call_before_any_kernel_runs(compiled):
    out = torch.full((5, 8), 7.0)
    with pytest.raises(ValueError, match="axis 0"):
        compiled(
            torch.randn(5, 8), torch.tensor(0, dtype=torch.int32), torch.empty(2, 8), torch.empty(3, 8), out
        )
    assert bool((out == 7.0).all())


@pytest.mark.spec("args.windows")
def test_a_cuda_entry_checks_extents_before_it_launches():
    @func
    def window(x: Tensor[(N, 8), "f32"]) -> Tensor[(2, 8), "f32"]:
        return tf.slice(tf.exp(x), (3, 0), sizes=(2, 8))

    host = BACKEND.emit(lower(window, target=H200), H200, CompilerOptions()).parts.host
    assert 0 < host.index("leaves its extent N") < host.index("call_.launch(")
