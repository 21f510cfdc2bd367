"""Runners and the three branches of forward on a Module and a reading. Oracle: the formulas, by torch directly."""

import pytest
import torch
from memory_resource import MemoryResource
from module_programs import Leaf, Methods, Parts, Tree

from tilefoundry.ir.core.loaded import LoadedModule
from tilefoundry.ir.errors import EvaluationError

X = torch.arange(8.0).reshape(2, 4)
W = torch.tensor([1.0, 2.0, 3.0, 4.0])
DATA = {"gain": W, "left.w": W + 1, "right.w": W + 2, "leaf.w": W, "w": W}


@pytest.fixture
def leaf():
    return Leaf.load(MemoryResource(DATA))


@pytest.fixture
def tree():
    return Tree.load(MemoryResource(DATA))


@pytest.mark.spec("forward.arguments")
def test_a_module_takes_every_parameter_and_a_reading_activations(leaf):
    torch.testing.assert_close(Leaf.scale(X, W), X * W)
    torch.testing.assert_close(Leaf(X, W), X * W)
    torch.testing.assert_close(leaf.scale(X), X * W)
    torch.testing.assert_close(leaf(X), X * W)
    torch.testing.assert_close(leaf.forward(X), X * W)


@pytest.mark.spec("forward.wrong-runner")
def test_the_other_runners_arguments_are_refused_by_naming_it(leaf):
    with pytest.raises(
        TypeError, match=r"Leaf\.scale takes every declared parameter \(x, w\), got 1.*\.load\(resource\)"
    ):
        Leaf.scale(X)
    with pytest.raises(TypeError, match=r"every declared parameter"):
        Leaf(X)
    with pytest.raises(
        TypeError, match=r"takes its activations alone \(x\), got 2.*Module \(loaded\.module\)"
    ):
        leaf.scale(X, W)
    with pytest.raises(TypeError, match=r"activations alone"):
        leaf(X, W)


def test_a_count_that_fits_neither(leaf):
    for call in (Leaf.scale, leaf.scale):
        with pytest.raises(TypeError, match="got 3"):
            call(X, W, W)


@pytest.mark.spec("forward.branches")
def test_a_forward_method_goes_before_the_entry():
    loaded = Methods.load(MemoryResource(DATA))
    torch.testing.assert_close(loaded(X), 2 * X * W)
    torch.testing.assert_close(loaded.forward(X), 2 * X * W)


@pytest.mark.spec("forward.refused-without-either")
def test_neither_entry_nor_forward_names_what_can_be_called():
    loaded = Parts.load(MemoryResource({}))
    for node in (Parts, loaded):
        with pytest.raises(TypeError, match=r"functions: one;.*methods: helper") as failure:
            node(X)
        assert "entry" not in str(failure.value)
    torch.testing.assert_close(loaded.helper(X), 2 * X)


@pytest.mark.spec("loaded.mirrors-attributes")
def test_attributes_of_a_reading(tree):
    assert isinstance(tree.left, LoadedModule) and tree.left is tree.modules[0]
    torch.testing.assert_close(tree.left.scale(X), X * DATA["left.w"])
    methods = Methods.load(MemoryResource(DATA))
    assert methods.where() is methods
    for name in ("absent", "_private"):
        with pytest.raises(AttributeError):
            getattr(tree, name)
    assert {"left", "right", "step"} <= set(dir(tree))


@pytest.mark.spec("loaded.module")
def test_the_module_behind_a_reading(tree):
    assert tree.module is Tree and tree.left.module is Tree.left
    assert (tree.name, tree.entry) == ("Tree", "step")


@pytest.mark.spec("eval.constants-of-callees")
def test_calls_into_children_use_the_childs_reading(tree):
    want = X * DATA["left.w"] * W * DATA["right.w"]
    torch.testing.assert_close(tree(X), want)
    torch.testing.assert_close(tree.around(X), want + X)


@pytest.mark.spec("eval.constants-of-callees")
def test_a_bare_module_refuses_what_reads_childrens_weights():
    for call in (Tree.step, Tree.around):
        with pytest.raises(EvaluationError, match=r"reads left\.w, a child's weight.*\.load\(resource\)"):
            call(X, W)


def test_a_reading_is_immutable(tree):
    with pytest.raises(AttributeError, match="immutable"):
        tree.constants = {}
    with pytest.raises(TypeError):
        tree.constants["gain"] = W
    assert tree.constant("left.w") is tree.left.constants["w"]
    with pytest.raises(KeyError, match="weights: w"):
        tree.constant("left.v")
    with pytest.raises(KeyError, match="children: left, right"):
        tree.constant("middle.w")


@pytest.mark.spec("state.never-mutated")
def test_arguments_are_left_as_they_were(tree):
    x, before = X.clone(), {key: tensor.clone() for key, tensor in DATA.items()}
    tree(x), tree.around(x), Leaf.scale(x, W)
    assert torch.equal(x, X)
    assert all(torch.equal(DATA[key], tensor) for key, tensor in before.items())
