# ruff: noqa: F821  # the DSL reads dtype names as source
"""Compiled entries inside ``torch.compile``. Oracle: the same formula in torch."""

from __future__ import annotations

import pytest
import torch

import tilefoundry
from tilefoundry import func
from tilefoundry.dsl import ConstTensor, DimVar, Tensor, tf

N = DimVar("N", 1, 4096)


@func
def gate(x: Tensor[(N, 64), "f32"], w: ConstTensor[(64,), "f32"]) -> Tensor[(N, 64), "f32"]:
    return tf.silu(x) * w


def run(device: str, backend: str) -> None:
    op = tilefoundry.jit(gate, target=device).as_torch_op(f"tilefoundry_integration::gate_{device}")

    @torch.compile(backend=backend, fullgraph=True, dynamic=True)
    def step(x, w):
        return op(x + 1, w) * 2

    w = torch.randn(64, device=device)
    for n in (2, 7, 100):
        x = torch.randn(n, 64, device=device)
        want = torch.nn.functional.silu(x + 1) * w * 2
        torch.testing.assert_close(step(x, w), want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_on_the_cpu(backend):
    run("cpu", backend)


@pytest.mark.gpu
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_on_the_gpu(backend):
    run("cuda", backend)


@pytest.mark.gpu
def test_in_a_cuda_graph():
    op = tilefoundry.jit(gate, target="cuda").as_torch_op("tilefoundry_integration::gate_graph")
    x, w = torch.randn(5, 64, device="cuda"), torch.randn(64, device="cuda")
    op(x, w)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = op(x, w)
    x.normal_()
    graph.replay()
    torch.testing.assert_close(out, torch.nn.functional.silu(x) * w, rtol=1e-5, atol=1e-5)
