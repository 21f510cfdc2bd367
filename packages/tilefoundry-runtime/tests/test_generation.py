"""The orchestration methods of a causal model, on a reading and a twin. Oracle: a loop written out in torch."""

import pytest
import torch
import toy

from tilefoundry.runtime import DictResource, runtime_func, runtime_module

WEIGHTS = {"leaf.w": torch.tensor([1.0, 2.0, 3.0, 4.0]), "leaf.b": torch.ones(4)}
IDS = torch.tensor([3, 1, 2, 5, 4])


@runtime_module(toy.Leaf)
class LeafTwin:
    @runtime_func
    def scale(self, x, w, b):
        return x * w + b

    @runtime_func
    def shift(self, x, b):
        return x + b


@runtime_module(toy.Steps)
class StepsTwin:
    leaf = LeafTwin

    @runtime_func
    def double(self, x):
        return x + x


@pytest.fixture(params=["reading", "twin"])
def model(request):
    if request.param == "reading":
        return toy.Steps.load(DictResource(WEIGHTS))
    made = StepsTwin()
    made.load(DictResource(WEIGHTS))
    return made


def generate(model, ids):
    """A caller that knows nothing of the model: it owns ids and caches, the model makes its own inputs."""
    caches = model.init_caches(device="cpu")
    outputs = []
    for step in range(len(ids)):
        inputs = model.prepare_inputs_for_generation(ids[: step + 1], step, caches, device="cpu")
        assert isinstance(inputs, tuple)
        out, caches = model(*inputs)
        outputs.append(out)
    return torch.cat(outputs), caches


@pytest.mark.spec("generation.methods-bind")
def test_a_caller_drives_a_model_it_knows_nothing_about(model):
    out, caches = generate(model, IDS)
    want = 2 * IDS.float()[:, None] * WEIGHTS["leaf.w"] + 1
    torch.testing.assert_close(out, want)
    torch.testing.assert_close(caches, want)


@pytest.mark.spec("generation.view")
@pytest.mark.spec("generation.neither-mutated-nor-retained")
def test_the_prefix_is_a_view_that_stays_as_it_was(model):
    import gc
    import weakref

    ids, caches = IDS.clone(), model.init_caches(device="cpu")
    prefix = ids[:3]
    assert prefix._is_view() and prefix.dim() == 1
    inputs = model.prepare_inputs_for_generation(prefix, 2, caches, device="cpu")
    assert torch.equal(ids, IDS) and ids._version == 0
    # The activation follows the selected token, and no longer the caller's memory.
    ids[2] = 9
    assert inputs[0].tolist() == [[2.0] * 4]
    gone = weakref.ref(prefix)
    model(*inputs)
    del prefix, inputs
    gc.collect()
    assert gone() is None


@pytest.mark.spec("state.callers")
@pytest.mark.spec("state.never-mutated")
def test_a_step_returns_a_new_cache(model):
    cache = torch.full((1, 4), 5.0)
    _, grown = model(torch.ones(1, 4), cache)
    assert cache.tolist() == [[5.0] * 4] and cache._version == 0
    assert grown.shape == (2, 4)
