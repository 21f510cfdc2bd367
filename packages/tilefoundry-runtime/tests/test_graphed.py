"""``graphed``. Oracle: the step itself, run eagerly."""

import pytest
import torch
import toy

from tilefoundry.runtime import DictResource, graphed, runtime_func, runtime_module


@runtime_module(toy.Leaf)
class LeafTwin:
    @runtime_func
    def scale(self, x, w, b):
        return x * w + b

    @runtime_func
    def shift(self, x, b):
        return x + b


@pytest.mark.parametrize("example", [(), (torch.ones(2),), (torch.ones(2), 3), [torch.ones(2)]])
def test_only_gpu_tensors_are_captured(example):
    with pytest.raises(TypeError, match="CUDA tensor"):
        graphed(lambda *args: args, example)


@pytest.mark.gpu
def test_replay_follows_its_arguments():
    twin = LeafTwin()
    twin.load(DictResource({"w": torch.randn(4).cuda(), "b": torch.randn(4).cuda()}))
    step = graphed(twin, (torch.zeros(3, 4, device="cuda"),))
    for seed in range(4):
        x = torch.randn(3, 4, generator=torch.Generator().manual_seed(seed)).cuda()
        torch.testing.assert_close(step(x), twin(x), rtol=0, atol=0)
    (kept,) = step.inputs
    kept.fill_(2)
    torch.testing.assert_close(step(kept), twin(kept), rtol=0, atol=0)


@pytest.mark.gpu
def test_another_shape_is_refused():
    step = graphed(lambda x: x + 1, (torch.zeros(3, device="cuda"),))
    with pytest.raises(ValueError, match="capture another graph"):
        step(torch.zeros(4, device="cuda"))
    with pytest.raises(ValueError, match="captured with 1 arguments"):
        step()
