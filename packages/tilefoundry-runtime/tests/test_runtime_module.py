"""The base class, and twins written with ``runtime_module``. Oracle: numpy float64 formulas of the toy programs."""

import numpy as np
import pytest
import torch
import toy

from tilefoundry import func, module
from tilefoundry.dsl import ConstTensor, Tensor
from tilefoundry.evaluator import observed_calls
from tilefoundry.runtime import (
    DictResource,
    RelL2,
    RuntimeFunction,
    RuntimeModule,
    check,
    entry_abi_of,
    runtime_func,
    runtime_module,
)


@runtime_module(toy.Leaf)
class LeafTwin:
    @runtime_func
    def scale(self, x, w, b):
        return torch.addcmul(b, x, w)

    @runtime_func
    def shift(self, x, b):
        return x + b


@runtime_module(toy.Tree)
class TreeTwin:
    left = LeafTwin
    right = LeafTwin

    @runtime_func
    def step(self, x, gain):
        return self.right(self.left(x) * gain)


@runtime_module(toy.Steps)
class StepsTwin:
    leaf = LeafTwin

    @runtime_func
    def double(self, x):
        return 2 * x


@pytest.fixture
def x():
    return torch.randn(5, 4, generator=torch.Generator().manual_seed(1))


@pytest.fixture
def twin():
    made = TreeTwin()
    made.load(DictResource(toy.tree_weights()))
    return made


class Recorder(RuntimeModule):
    """A hand-written module that keeps what it was loaded from."""

    def __init__(self, name, entry=None, modules=(), ir=None):
        super().__init__(name, entry, modules)
        self.seen = None

    def load(self, resource):
        self.seen = resource.prefix
        super().load(resource)

    def forward(self, *args):
        return ("ran", *args)


@pytest.mark.spec("module.base-load-recurses")
def test_base_load_hands_each_child_its_subtree():
    tree = Recorder("root", modules=(Recorder("a", modules=(Recorder("b"),)), Recorder("c")))
    tree.load(DictResource({}))
    assert [m.seen for m in (tree, tree.a, tree.a.b, tree.c)] == ["", "a.", "a.b.", "c."]


@pytest.mark.spec("module.base-resolves-nothing")
def test_base_load_reads_no_tensor():
    class Refusing:
        def subtree(self, seg):
            return self

        def load(self, name):
            raise AssertionError(f"read {name}")

        load_group = load

    assert RuntimeModule("root", modules=(RuntimeModule("a"),)).load(Refusing()) is None


@pytest.mark.spec("module.call-is-forward")
def test_call_delegates_to_forward():
    assert Recorder("r")(1, 2) == ("ran", 1, 2)
    with pytest.raises(NotImplementedError, match="write one in the subclass"):
        RuntimeModule("r")()


def test_children_are_attributes_and_must_be_instances():
    child = Recorder("a")
    assert RuntimeModule("r", modules=(child,)).a is child
    with pytest.raises(AttributeError, match="no attribute 'b'"):
        _ = RuntimeModule("r", modules=(child,)).b
    with pytest.raises(TypeError, match="RuntimeModule instance"):
        RuntimeModule("r", modules=(Recorder,))


@pytest.mark.spec("module.mirrors-structure")
def test_a_twin_mirrors_name_entry_and_children(twin):
    assert (twin.name, twin.entry) == ("Tree", "step")
    assert [m.name for m in twin.modules] == ["left", "right"]
    assert twin.left is twin.modules[0] and twin.left is not twin.right


@pytest.mark.spec("module.module-accessor")
def test_module_names_the_authored_module(twin):
    assert twin.module is toy.Tree
    assert twin.left.module is toy.Tree.left and twin.right.module is toy.Tree.right


@pytest.mark.spec("module.no-module-is-none")
def test_a_hand_written_module_stands_for_none():
    assert Recorder("r").module is None


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
def test_methods_are_the_modules_own_and_reach_the_twins_members():
    made = StepsTwin()
    made.load(DictResource({"leaf.w": torch.full((4,), 3.0), "leaf.b": torch.ones(4)}))
    assert made.append_cache.__func__ is toy.Steps.methods["append_cache"]
    cache = made.init_caches(device="cpu")
    y, grown = made(torch.ones(2, 4), cache)
    # double, then scale: 2 * 3 + 1.
    torch.testing.assert_close(y, torch.full((2, 4), 7.0))
    torch.testing.assert_close(grown, y)


@pytest.mark.spec("decorator.methods-verbatim")
def test_a_method_cannot_be_rewritten():
    with pytest.raises(TypeError, match="append_cache is an orchestration method of the Module"):

        @runtime_module(toy.Steps)
        class Twin:
            leaf = LeafTwin

            @runtime_func
            def double(self, x): ...

            def append_cache(self, cache, new): ...


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


def test_a_twin_reloads(twin, x):
    twin.load(DictResource(toy.tree_weights(5)))
    np.testing.assert_allclose(twin(x).numpy(), toy.tree_value(x, toy.tree_weights(5)), rtol=1e-5, atol=1e-6)
