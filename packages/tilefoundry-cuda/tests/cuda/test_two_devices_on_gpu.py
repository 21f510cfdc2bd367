"""Calls where there are two GPUs: which device, which stream, what is refused. Oracle: torch's formula."""

from __future__ import annotations

import pytest
import torch

from tilefoundry import func, jit
from tilefoundry.dsl import DimVar, Tensor

pytestmark = [pytest.mark.gpu, pytest.mark.two_gpus]

N = DimVar("N", 0, 4097)


@func
def scaled(x: Tensor[(N, 12), "f32"], w: Tensor[(12,), "f32"]) -> Tensor[(N, 12), "f32"]:
    return x * w + 1.0


@pytest.fixture(scope="module")
def compiled():
    return jit(scaled, target="cuda")


def on(device, rows=64):
    return torch.randn(rows, 12, device=device), torch.randn(12, device=device)


@pytest.mark.spec("args.one-device")
def test_tensors_on_two_gpus_are_refused_by_name(compiled):
    (x, w), (there, _) = on("cuda:0"), on("cuda:1")
    out, far = torch.zeros_like(x), torch.zeros_like(there)
    refusal = "scaled: {} is on cuda:{}, but x is on cuda:{}; pass tensors of one device"
    with pytest.raises(ValueError, match=refusal.format("w", 0, 1)):
        compiled(there, w)
    with pytest.raises(ValueError, match=refusal.format("w", 0, 1)):
        compiled(there, w, far)
    with pytest.raises(ValueError, match=refusal.format(r"\w+", 1, 0)):
        compiled(x, w, far)
    for device in (0, 1):
        torch.cuda.synchronize(device)
    assert not out.any() and not far.any()


@pytest.mark.spec("streams.current")
def test_the_tensors_device_and_its_stream_are_taken_while_another_is_current(compiled):
    x, w = on("cuda:1", 4096)
    compiled(x, w)  # loads the kernels, which waits for the device
    late, want = torch.zeros_like(x), x * w + 1.0
    stream = torch.cuda.Stream("cuda:1")
    torch.cuda.synchronize("cuda:1")
    try:
        torch.cuda.set_stream(stream)  # makes its device current as well
        torch.cuda._sleep(100_000_000)
        late.copy_(x)
        torch.cuda.set_device(0)
        assert torch.cuda.current_stream("cuda:1") == stream and torch.cuda.current_device() == 0
        out = torch.zeros_like(x)
        compiled(late, w, out)
        fresh = compiled(late, w)
        assert torch.cuda.current_device() == 0
        assert not stream.query()  # neither call waited
        stream.synchronize()
    finally:
        torch.cuda.set_stream(torch.cuda.default_stream("cuda:1"))
        torch.cuda.set_device(0)
    assert fresh.device == x.device
    torch.testing.assert_close(out, want)
    torch.testing.assert_close(fresh, want)


@pytest.mark.spec("streams.graphs")
def test_a_graph_of_one_device_is_captured_while_the_library_serves_both(compiled):
    pairs = {device: on(device) for device in ("cuda:0", "cuda:1")}
    for x, w in pairs.values():
        compiled(x, w)
    x, w = pairs["cuda:1"]
    out = torch.zeros_like(x)
    with torch.cuda.device(1):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            compiled(x, w, out)
    x.normal_()
    torch.cuda.synchronize("cuda:1")
    graph.replay()
    torch.cuda.synchronize("cuda:1")
    torch.testing.assert_close(out, x * w + 1.0)
    x, w = pairs["cuda:0"]
    torch.testing.assert_close(compiled(x, w), x * w + 1.0)
