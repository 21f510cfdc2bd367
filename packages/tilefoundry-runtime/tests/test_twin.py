"""Twins that are loaded and called. Oracle: numpy float64 formulas of the toy programs."""

import numpy as np
import pytest
import torch
import toy
from toy_twins import StepsTwin, TreeTwin

from tilefoundry.evaluator import observed_calls
from tilefoundry.runtime import DictResource, RelL2, check, runtime_func, runtime_module


@pytest.mark.spec("module.mirrors-structure")
def test_a_twin_mirrors_name_entry_and_children(twin):
    assert (twin.name, twin.entry) == ("Tree", "step")
    assert [m.name for m in twin.modules] == ["left", "right"]
    assert twin.left is twin.modules[0] and twin.left is not twin.right


@pytest.mark.spec("module.module-accessor")
def test_module_names_the_authored_module(twin):
    assert twin.module is toy.Tree
    assert twin.left.module is toy.Tree.left and twin.right.module is toy.Tree.right


@pytest.mark.spec("module.corresponds")
@pytest.mark.spec("decorator.weights-filled")
def test_a_twin_agrees_with_its_reading_and_with_numpy(twin, x):
    reading = toy.Tree.load(DictResource(toy.tree_weights()))
    report = check(twin.forward, reading.forward, (x,), expect={"output": [RelL2(1e-6)]})
    assert report.passed, str(report)
    np.testing.assert_allclose(twin(x).numpy(), toy.tree_value(x, toy.tree_weights()), rtol=1e-5, atol=1e-6)


@pytest.mark.spec("module.never-evaluates")
def test_a_twin_never_runs_the_evaluator(twin, x):
    with observed_calls() as calls:
        twin.load(DictResource(toy.tree_weights(3)))
        twin(x), twin.left.shift(x)
    assert calls == []
    with observed_calls() as calls:
        toy.Leaf.shift(x, torch.ones(4))
    assert [call.function.name for call in calls] == ["shift"]


@pytest.mark.spec("decorator.weights-filled")
def test_a_kernel_attribute_takes_activations_alone(twin, x):
    weights = toy.tree_weights()
    torch.testing.assert_close(twin.left.shift(x), x + weights["left.b"])
    with pytest.raises(
        TypeError, match=r"left\.scale takes its activations alone \(x\), got 3.*twin\.module"
    ):
        twin.left.scale(x, weights["left.w"], weights["left.b"])
    with pytest.raises(TypeError, match=r"activations alone \(x\), got 0"):
        twin.left.scale()


def test_a_kernel_before_load():
    with pytest.raises(RuntimeError, match=r"left needs the weight 'w'.*load\(resource\) first"):
        TreeTwin().left(torch.ones(1, 4))


@pytest.mark.spec("decorator.methods-verbatim")
def test_methods_are_the_modules_own_and_reach_the_twins_members():
    made = StepsTwin()
    made.load(DictResource({"leaf.w": torch.full((4,), 3.0), "leaf.b": torch.ones(4)}))
    assert made.append_cache.__func__ is toy.Steps.methods["append_cache"]
    cache = made.init_caches(device="cpu")
    y, grown = made(torch.ones(2, 4), cache)
    # double, then scale: 2 * 3 + 1.
    torch.testing.assert_close(y, torch.full((2, 4), 7.0))
    torch.testing.assert_close(grown, y)


@pytest.mark.spec("decorator.forward-branches")
@pytest.mark.spec("forward.branches")
def test_the_three_branches_of_forward(twin, x):
    # The entry, a forward method (tested above with Steps), neither, and an own forward.
    np.testing.assert_allclose(
        twin.forward(x).numpy(), toy.tree_value(x, toy.tree_weights()), rtol=1e-5, atol=1e-6
    )

    @runtime_module(toy.Parts)
    class PartsTwin:
        @runtime_func
        def one(self, x):
            return x

    with pytest.raises(
        TypeError, match=r"Parts cannot be called as a whole.*functions: one.*methods: helper"
    ):
        PartsTwin()(x)
    assert PartsTwin().helper(x) is x

    @runtime_module(toy.Leaf)
    class Own:
        @runtime_func
        def scale(self, x, w, b): ...

        @runtime_func
        def shift(self, x, b): ...

        def forward(self, x):
            return ("mine", x)

    assert Own()(1) == ("mine", 1)


@pytest.mark.spec("load.twin-validates")
def test_a_twin_checks_everything_before_it_binds(twin, x):
    before = twin(x)
    bad = toy.tree_weights(9)
    bad["right.b"] = bad["right.b"].double()
    bad["right.w"] = bad["right.w"][:3]
    with pytest.raises(ValueError) as failure:
        twin.load(DictResource(bad))
    text = str(failure.value)
    assert "right.w: checkpoint holds f32[3], declared f32[4]" in text
    assert (
        'right.b: checkpoint holds f64[4], declared f32[4]; add a converter with @scale.converter("b")'
        in text
    )
    torch.testing.assert_close(twin(x), before, rtol=0, atol=0)
    del bad["left.w"]
    with pytest.raises(KeyError, match=r"left\.w"):
        twin.load(DictResource(bad))
    torch.testing.assert_close(twin(x), before, rtol=0, atol=0)


def test_a_twin_asks_for_a_resource_and_keeps_what_it_has(twin, x):
    before = twin(x)
    with pytest.raises(TypeError, match=r"Tree\.load reads a resource, such as .*, got dict"):
        twin.load(toy.tree_weights(5))
    torch.testing.assert_close(twin(x), before)


def test_a_twin_reloads(twin, x):
    twin.load(DictResource(toy.tree_weights(5)))
    np.testing.assert_allclose(twin(x).numpy(), toy.tree_value(x, toy.tree_weights(5)), rtol=1e-5, atol=1e-6)
