"""Windows replaced in place on a GPU, also while a graph captures. Oracle: the evaluator."""

from __future__ import annotations

import pytest
import torch

from tilefoundry import jit
from tilefoundry.evaluator import evaluate

from ..cpu.test_inplace import CASES, update

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("program,inputs", CASES, ids=lambda value: getattr(value, "name", ""))
@pytest.mark.spec("inplace.window")
def test_the_identical_tensor_is_updated_and_a_fresh_output_leaves_it_alone(program, inputs):
    compiled = jit(program, target="cuda")
    assert compiled.type.inplace == ((0, 0),)
    wanted = evaluate(program, *inputs)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    given = [tensor.cuda() for tensor in inputs]
    fresh = compiled(*given)
    assert torch.equal(given[0].cpu(), inputs[0])
    outputs = (given[0], *(torch.empty_like(w).cuda() for w in wanted[1:]))
    compiled(*given, *outputs)
    for got in (fresh if isinstance(fresh, tuple) else (fresh,), outputs):
        for one, want in zip(got, wanted, strict=True):
            torch.testing.assert_close(one.cpu(), want)


@pytest.mark.spec("inplace.window")
def test_one_captured_step_serves_every_position():
    compiled = jit(update, target="cuda")
    cache = torch.zeros(2, 8, 3, 4, dtype=torch.bfloat16, device="cuda")
    position, count = (torch.tensor(v, dtype=torch.int32, device="cuda") for v in (0, 1))
    new = torch.randn(2, 2, 3, 4, device="cuda").bfloat16()
    compiled(cache, position, count, new, cache)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        compiled(cache, position, count, new, cache)
    cache.zero_()
    wanted = cache.cpu()
    for at in (3, 0, 7):
        position.fill_(at)
        new.copy_(torch.randn(2, 2, 3, 4))
        graph.replay()
        wanted = evaluate(update, wanted, position.cpu(), count.cpu(), new.cpu())
    assert torch.equal(cache.cpu(), wanted)
