"""What ``runtime_module`` takes and refuses. Oracle: the names that its messages must list."""

import numpy as np
import pytest
import torch
import toy
from toy_twins import LeafTwin, StepsTwin

from tilefoundry import func, module
from tilefoundry.dsl import ConstTensor, Tensor
from tilefoundry.runtime import (
    DictResource,
    RuntimeFunction,
    RuntimeModule,
    entry_abi_of,
    runtime_func,
    runtime_module,
)


@pytest.mark.spec("decorator.functions-one-to-one")
def test_missing_and_extra_functions_are_listed():
    with pytest.raises(TypeError, match=r"module 'Leaf': functions: missing shift; extra other"):

        @runtime_module(toy.Leaf)
        class Twin:
            @runtime_func
            def scale(self, x, w, b): ...

            @runtime_func
            def other(self, x): ...


@pytest.mark.spec("decorator.children-one-to-one")
def test_missing_and_extra_children_are_listed():
    with pytest.raises(TypeError, match=r"children: missing left, right; extra middle"):

        @runtime_module(toy.Tree)
        class Twin:
            middle = LeafTwin

            @runtime_func
            def step(self, x, gain): ...


@pytest.mark.spec("decorator.child-is-class")
def test_a_child_instance_is_refused():
    with pytest.raises(TypeError, match=r"right is an instance of LeafTwin; give the class"):

        @runtime_module(toy.Tree)
        class Twin:
            left = LeafTwin
            right = LeafTwin()

            @runtime_func
            def step(self, x, gain): ...


@pytest.mark.spec("decorator.child-is-class")
def test_a_hand_written_child_class_is_built_with_its_module():
    class Own(RuntimeModule):
        def __init__(self, *, ir):
            super().__init__(ir.name, ir.entry)
            self.given = ir

        def load(self, resource):
            self.weight = resource.load("w")

        def forward(self, x):
            return x * self.weight

    @runtime_module(toy.Tree)
    class Twin:
        left = LeafTwin
        right = Own

        @runtime_func
        def step(self, x, gain):
            return self.right(self.left(x) * gain)

    weights = toy.tree_weights()
    made = Twin()
    made.load(DictResource(weights))
    assert made.right.given is toy.Tree.right
    x = torch.ones(2, 4)
    want = (x * weights["left.w"] + weights["left.b"]) * weights["gain"] * weights["right.w"]
    torch.testing.assert_close(made(x), want)


def test_children_by_a_mapping():
    @runtime_module(toy.Tree)
    class Twin:
        layers = dict.fromkeys(("left", "right"), LeafTwin)

        @runtime_func
        def step(self, x, gain):
            return self.right(self.left(x) * gain)

    made = Twin()
    made.load(DictResource(toy.tree_weights()))
    x = torch.ones(2, 4)
    np.testing.assert_allclose(made(x).numpy(), toy.tree_value(x, toy.tree_weights()), rtol=1e-5)


def test_a_class_that_stands_for_another_program_is_no_child():
    with pytest.raises(
        TypeError, match=r"StepsTwin does not fit the child 'right': functions: missing double"
    ):

        @runtime_module(toy.Tree)
        class Twin:
            left = LeafTwin
            right = StepsTwin

            @runtime_func
            def step(self, x, gain): ...


def test_an_instance_of_another_program_is_refused():
    with pytest.raises(TypeError, match="LeafTwin stands for 'Leaf', not for 'Tree'"):
        LeafTwin(ir=toy.Tree)
    assert LeafTwin(ir=toy.Tree.left).module is toy.Tree.left


@pytest.mark.spec("decorator.function-object")
def test_a_runtime_function_instance_stands_for_a_kernel():
    class Shift(RuntimeFunction):
        def __call__(self, x, b):
            return x + b

    @runtime_module(toy.Leaf)
    class Twin:
        shift = Shift(entry_abi_of(toy.Leaf.lookup("shift")))

        @runtime_func
        def scale(self, x, w, b):
            return self.shift(x * w)

    made = Twin()
    made.load(DictResource({"w": torch.full((4,), 2.0), "b": torch.ones(4)}))
    torch.testing.assert_close(made(torch.ones(1, 4)), torch.full((1, 4), 3.0))


def test_a_runtime_function_of_another_type_is_refused():
    class Shift(RuntimeFunction):
        pass

    with pytest.raises(TypeError, match=r"shift's ABI takes \(x: .*, w: .*\), the Module's takes \(x"):

        @runtime_module(toy.Leaf)
        class Twin:
            shift = Shift(entry_abi_of(toy.Leaf.lookup("scale")))

            @runtime_func
            def scale(self, x, w, b): ...


def test_hints_for_untagged_members():
    with pytest.raises(
        TypeError,
        match=r"scale is a RuntimeFunction class, give an instance; shift is a plain method, tag it",
    ):

        @runtime_module(toy.Leaf)
        class Twin:
            class scale(RuntimeFunction): ...

            def shift(self, x, b): ...

    with pytest.raises(TypeError, match="tags a plain method"):
        runtime_func(classmethod(lambda cls: None))
    with pytest.raises(TypeError, match="takes the Module"):
        runtime_module(LeafTwin)


@pytest.mark.spec("decorator.signature")
@pytest.mark.parametrize(
    "kernel",
    [
        lambda self, x, b: ...,
        lambda self, x, b, w: ...,
        lambda self, x, w, b, more: ...,
        lambda self: ...,
    ],
)
def test_a_kernel_of_another_signature_is_refused(kernel):
    body = {"scale": runtime_func(kernel), "shift": runtime_func(lambda self, x, b: ...)}
    with pytest.raises(TypeError, match=r"scale takes \(.*\), the Module's takes \(x, w, b\)"):
        runtime_module(toy.Leaf)(type("Twin", (), body))


@pytest.mark.parametrize("kernel", [lambda self, *args: ..., lambda self, x, w, b, more=1: ...])
def test_a_kernel_may_take_more_with_defaults(kernel):
    body = {"scale": runtime_func(kernel), "shift": runtime_func(lambda self, x, b: ...)}
    assert issubclass(runtime_module(toy.Leaf)(type("Twin", (), body)), RuntimeModule)


def _authored(**members):
    from tilefoundry.ir.core.module import Module

    shift = toy.Leaf.cloned().lookup("shift")
    parts = {"functions": (), "modules": (), "methods": {}}
    for name, kind in members.items():
        if kind == "function":
            from tilefoundry.ir.hir.function import Function

            parts["functions"] += (Function(name, shift.params, shift.result, shift.body),)
        elif kind == "child":
            parts["modules"] += (toy.Leaf.renamed(name),)
        else:
            parts["methods"][name] = lambda self: None
    return Module("Bad", parts["functions"], None, parts["modules"], methods=parts["methods"])


@pytest.mark.spec("module.reserved-names")
@pytest.mark.parametrize("kind", ["function", "child", "method"])
@pytest.mark.parametrize("name", ["module", "name", "entry", "modules", "load"])
def test_reserved_names_are_refused_at_decoration(name, kind):
    with pytest.raises(TypeError, match=rf"names a member {name}, which a twin needs"):
        runtime_module(_authored(**{name: kind}))


@pytest.mark.parametrize("kind", ["function", "child"])
def test_forward_is_reserved_but_for_a_method(kind):
    with pytest.raises(TypeError, match="names a member forward"):
        runtime_module(_authored(forward=kind))
    runtime_module(_authored(forward="method"))


@pytest.mark.spec("decorator.methods-verbatim")
def test_a_method_cannot_be_rewritten():
    with pytest.raises(TypeError, match="append_cache is an orchestration method of the Module"):

        @runtime_module(toy.Steps)
        class Twin:
            leaf = LeafTwin

            @runtime_func
            def double(self, x): ...

            def append_cache(self, cache, new): ...


def test_an_own_init_runs_after_the_structure():
    @runtime_module(toy.Tree)
    class Twin:
        left = right = LeafTwin

        def __init__(self):
            self.streams = len(self.modules)

        @runtime_func
        def step(self, x, gain): ...

    assert Twin().streams == 2


@module(entry="f")
class Wide:
    @func
    def f(x: Tensor[(2,), "f32"], w: ConstTensor[(2,), "f32"]) -> Tensor[(2,), "f32"]:
        return x * w


def test_kernels_may_be_inherited():
    class Shared:
        @runtime_func
        def f(self, x, w):
            return x * w

    @runtime_module(Wide)
    class Twin(Shared):
        pass

    made = Twin()
    made.load(DictResource({"w": torch.tensor([2.0, 3.0])}))
    assert made(torch.ones(2)).tolist() == [2.0, 3.0]
