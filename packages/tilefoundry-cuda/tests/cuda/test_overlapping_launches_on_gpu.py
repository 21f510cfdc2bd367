"""Launches in a row on one stream, whose blocks may overlap. Oracle: whole numbers in float, which are exact.

Every element of a step's result comes from an element that a far block of the step before wrote; a block that reads too
early, or a cache line from before, gives a number that is too small.
"""

from __future__ import annotations

import pytest
import torch

from tilefoundry import func, jit
from tilefoundry.dsl import Tensor, tf

pytestmark = pytest.mark.gpu
SIDE, STEPS = 1536, 60


@func
def turned(x: Tensor[(SIDE, SIDE), "f32"]) -> Tensor[(SIDE, SIDE), "f32"]:
    return tf.transpose(x, (1, 0)) + 1.0


@func
def lifted(x: Tensor[(SIDE, SIDE), "f32"]) -> Tensor[(SIDE, SIDE), "f32"]:
    top = tf.reduce(x, axes=(1,), keepdim=True, kind="max")
    return tf.transpose(x, (1, 0)) * 0.0 + top + 1.0


@func
def summed(x: Tensor[(SIDE, SIDE), "bf16"], w: Tensor[(SIDE, SIDE), "bf16"]) -> Tensor[(SIDE, SIDE), "bf16"]:
    return tf.matmul(x, w)


@pytest.fixture(scope="module", params=(turned, lifted), ids=lambda program: program.name)
def step(request):
    return jit(request.param, target="cuda")


def chain(step, tensors, begin=0, steps=STEPS):
    """Steps from one tensor to the next, round and round: each is overwritten while its reader may still run."""
    for i in range(begin, begin + steps):
        step(tensors[i % len(tensors)], tensors[(i + 1) % len(tensors)])
    return tensors[(begin + steps) % len(tensors)]


@pytest.mark.parametrize("count", (2, 3))
def test_every_launch_sees_all_of_the_one_before(step, count):
    tensors = [torch.zeros(SIDE, SIDE, device="cuda") for _ in range(count)]
    for _ in range(5):
        for tensor in tensors:
            tensor.zero_()
        last = chain(step, tensors)
        assert torch.equal(last, torch.full_like(last, STEPS))


def test_other_kernels_between_launches_see_and_are_seen(step):
    a, b = (torch.zeros(SIDE, SIDE, device="cuda") for _ in range(2))
    for _ in range(STEPS):
        step(a, b)
        a.copy_(b)
        a.add_(1.0)
    assert torch.equal(a, torch.full_like(a, 2 * STEPS))


def test_a_graph_of_launches_fills_copies_and_a_fork(step):
    tensors = [torch.zeros(SIDE, SIDE, device="cuda") for _ in range(2)]
    copied = torch.zeros(SIDE, SIDE, device="cuda")
    step(*tensors)
    torch.cuda.synchronize()
    graph, side = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    with torch.cuda.graph(graph):
        tensors[0].zero_()
        chain(step, tensors, steps=20)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            copied.copy_(tensors[0])
            step(copied, copied_step := torch.empty_like(copied))
        step(tensors[0], tensors[1])
        torch.cuda.current_stream().wait_stream(side)
        step(copied_step, tensors[0])
        chain(step, tensors, steps=20)
    for _ in range(5):
        graph.replay()
    assert torch.equal(copied, torch.full_like(copied, 20))
    assert torch.equal(tensors[0], torch.full_like(copied, 42))


def test_products_in_a_row():
    """A permutation applied again and again: bit-equal rows, moved."""
    product = jit(summed, target="cuda")
    order = torch.randperm(SIDE, device="cuda")
    w = torch.zeros(SIDE, SIDE, device="cuda", dtype=torch.bfloat16)
    w[order, torch.arange(SIDE, device="cuda")] = 1.0
    tensors = [torch.randn(SIDE, SIDE, device="cuda").bfloat16() for _ in range(3)]
    want = tensors[0].clone()
    for i in range(30):
        product(tensors[i % 3], w, tensors[(i + 1) % 3])
        want = want[:, order]
    assert torch.equal(tensors[0], want)


@func
def weighed(x: Tensor[(1, SIDE), "f32"], w: Tensor[(SIDE, SIDE), "f32"]) -> Tensor[(1, SIDE), "f32"]:
    top = tf.reduce(x, axes=(1,), keepdim=True, kind="max")
    once = (x * 0.0 + top) @ tf.transpose(w, (1, 0))
    return (once * 0.0 + tf.reduce(once, axes=(1,), keepdim=True, kind="max")) @ tf.transpose(w, (1, 0))


def test_products_of_one_row_see_what_work_before_the_call_wrote():
    """Every weight is i after i steps; the first product's sums are x SIDE i, the second's SIDE i times those."""
    run = jit(weighed, target="cuda")
    x = torch.ones(1, SIDE, device="cuda")
    w = torch.zeros(SIDE, SIDE, device="cuda")
    outputs = [torch.empty(1, SIDE, device="cuda") for _ in range(8)]
    for _ in range(5):
        w.zero_()
        for output in outputs:
            w.add_(1.0)
            run(x, w, output)
        for i, output in enumerate(outputs, start=1):
            assert torch.equal(output, torch.full_like(output, float(SIDE * i) ** 2))
