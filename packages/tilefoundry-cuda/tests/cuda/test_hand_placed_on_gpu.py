"""Hand-placed programs on the GPU. Oracle: the evaluator, full tensors."""

import pytest
import torch

from tilefoundry import func, jit
from tilefoundry.dsl import Mesh, Tensor, Topology, tf
from tilefoundry.evaluator import evaluate

from .hand_placed_programs import arguments, compare, wanted
from .test_hand_placed import PROGRAMS, gated, joined_over_blocks, row_sums

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_equal_the_evaluator(name):
    program = PROGRAMS[name]
    compiled = jit(program, target="cuda")
    for rows in (1, 7, 1000):
        given = arguments(compiled, rows, "cuda")
        compare(compiled(*given), wanted(program, compiled, given))


@pytest.mark.parametrize("program", [gated, row_sums, joined_over_blocks])
def test_first_programs_equal_the_evaluator(program):
    compiled = jit(program, target="cuda")
    given = arguments(compiled, 1, "cuda")
    compare(compiled(*given), evaluate(program, *given))


def test_a_grid_barrier_serves_calls_one_after_the_other_and_in_a_graph():
    program = PROGRAMS["two_phases"]
    compiled = jit(program, target="cuda")
    (x,) = arguments(compiled, 1, "cuda")
    out = torch.empty_like(x)
    for _ in range(50):
        compiled(x, out)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        compiled(x, out)
        compiled(x, out)
    for _ in range(20):
        x.normal_()
        graph.replay()
        compare(out, evaluate(program, x))


@pytest.mark.spec("barrier.resident")
def test_more_blocks_than_can_be_resident_are_refused_before_the_launch():
    blocks = 2**16

    @func(topologies=(Topology("cta", blocks), Topology("thread", 32)))
    def totals(x: Tensor[(blocks, 32), "f32"]) -> Tensor[(1, 32), "f32"]:
        with Mesh(("cta", "thread"), (blocks, 32), ("b", "t")) as m:
            a = tf.reshard(x, (blocks @ m.b, 32 @ m.t), "rmem")
            y = tf.reshard(a * 2.0, (blocks, 32), "gmem")
        with Mesh(("cta", "thread"), (blocks, 32), ("b", "t")) as n:
            c = tf.reshard(y[0:1, :], (1, 32 @ n.t), "rmem")
            out = tf.reshard(c, (1, 32 @ n.t), "gmem")
        return out

    x = torch.ones(blocks, 32, device="cuda")
    out = torch.full((1, 32), 7.0, device="cuda")
    with pytest.raises(
        RuntimeError, match=f"grid barrier, so that all of its {blocks} blocks must be resident"
    ):
        jit(totals, target="cuda")(x, out)
    torch.cuda.synchronize()
    assert bool((out == 7).all())


def test_streams_and_graphs_have_barriers_of_their_own():
    """Launches of one library overlap on two streams, and a graph runs beside them."""
    program = PROGRAMS["two_phases"]
    compiled = jit(program, target="cuda")
    inputs = [arguments(compiled, 1, "cuda")[0] + i for i in range(3)]
    outs = [torch.empty_like(x) for x in inputs]
    streams = [torch.cuda.Stream() for _ in inputs]
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        compiled(inputs[2], outs[2])
    for _ in range(100):
        for x, out, stream in zip(inputs[:2], outs[:2], streams[:2], strict=True):
            with torch.cuda.stream(stream):
                compiled(x, out)
        with torch.cuda.stream(streams[2]):
            graph.replay()
    torch.cuda.synchronize()
    for x, out in zip(inputs, outs, strict=True):
        compare(out, evaluate(program, x))
