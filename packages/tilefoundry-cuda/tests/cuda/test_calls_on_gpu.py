"""Calls of CUDA libraries: streams, graphs, refusals, edges. Oracle: torch and float64 formulas."""

from __future__ import annotations

import pytest
import torch

from tilefoundry import func, jit
from tilefoundry.dsl import DimVar, Tensor, tf

pytestmark = pytest.mark.gpu
B = DimVar("B", 0, 4097)


@func
def scaled(x: Tensor[(B, 12), "f32"], w: Tensor[(12,), "f32"]) -> Tensor[(B, 12), "f32"]:
    return x * w + 1.0


def rms_of(n):
    @func
    def rms(x: Tensor[(7, n), "f32"]) -> Tensor[(7, n), "f32"]:
        return tf.rms_norm(x, eps=1e-6)

    return rms


@pytest.fixture(scope="module")
def compiled():
    return jit(scaled, target="cuda")


def arguments(rows=5):
    return torch.randn(rows, 12, device="cuda"), torch.randn(12, device="cuda")


@pytest.mark.spec("streams.current")
def test_work_goes_to_the_current_stream(compiled):
    x, w = arguments(4096)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        torch.cuda._sleep(20_000_000)
        x.mul_(2.0)
        got = compiled(x, w)
    stream.synchronize()
    torch.testing.assert_close(got, x * w + 1.0)


@pytest.mark.spec("streams.graphs")
def test_a_graph_replays_on_new_values(compiled):
    x, w = arguments(64)
    out = torch.empty_like(x)
    compiled(x, w, out)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        compiled(x, w, out)
    x.normal_()
    graph.replay()
    torch.testing.assert_close(out, x * w + 1.0)


@pytest.mark.spec("args.refused", "case.wrong-inputs")
def test_a_transposed_a_wide_and_a_misshapen_argument_are_refused(compiled):
    x, w = arguments()
    with pytest.raises(ValueError, match=r"scaled: x .*contiguous"):
        compiled(torch.randn(12, 5, device="cuda").t(), w)
    with pytest.raises(ValueError, match="scaled: x is f64"):
        compiled(x.double(), w)
    with pytest.raises(ValueError, match="scaled: w has shape"):
        compiled(x, torch.randn(3, device="cuda"))
    with pytest.raises(ValueError, match="on cpu"):
        compiled(x.cpu(), w.cpu())


@pytest.mark.spec("args.outputs", "case.strided-output")
def test_a_strided_output_is_refused_and_its_gaps_stay(compiled):
    x, w = arguments(3)
    whole = torch.zeros(6, 24, device="cuda")
    with pytest.raises(ValueError, match="contiguous"):
        compiled(x, w, whole[::2, ::2])
    assert not whole.any()


@pytest.mark.spec("case.odd-offset")
def test_a_view_at_an_odd_offset_takes_the_narrow_path(compiled):
    flat, w = torch.randn(4 * 12 + 1, device="cuda"), torch.randn(12, device="cuda")
    x = flat[1:].view(4, 12)
    torch.testing.assert_close(compiled(x, w), x * w + 1.0)


@pytest.mark.spec("args.empty")
def test_no_rows_launch_nothing(compiled):
    x, w = arguments(0)
    assert compiled(x, w).shape == (0, 12)


@pytest.mark.parametrize("n", [1, 3, 31, 33, 769, 1025])
@pytest.mark.spec("case.awkward-rows")
def test_rows_of_awkward_lengths_leave_their_surroundings_alone(n):
    x = torch.randn(7, n, device="cuda")
    guarded = torch.full((7 * n + 64,), 3.0, device="cuda")
    out = guarded[32 : 32 + 7 * n].view(7, n)
    jit(rms_of(n), target="cuda")(x, out)
    wide = x.double()
    want = wide * torch.rsqrt((wide * wide).mean(-1, keepdim=True) + 1e-6)
    torch.testing.assert_close(out.double(), want, rtol=1e-5, atol=1e-5)
    assert bool((guarded[:32] == 3.0).all()) and bool((guarded[32 + 7 * n :] == 3.0).all())
