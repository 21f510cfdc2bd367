"""@module on classes: members, children, refusals."""

from __future__ import annotations

import pytest
import torch

from tilefoundry.dsl import ConstTensor, DimVar, Tensor, func, module, tf
from tilefoundry.ir.core.expr import FunctionCall
from tilefoundry.ir.core.module import Module
from tilefoundry.ir.errors import DslError

N = DimVar("N", 1, 100)


@module(entry="step")
class Layer:
    @func
    def project(x: Tensor[(N, 4), "f32"], w: ConstTensor[(4, 4), "f32"]) -> Tensor[(N, 4), "f32"]:
        return tf.matmul(x, w)

    @func
    def step(x: Tensor[(N, 4), "f32"], w: ConstTensor[(4, 4), "f32"]) -> Tensor[(N, 4), "f32"]:
        return tf.relu(project(x, w)) + x


def calls(module: Module, name: str) -> list[FunctionCall]:
    stmts = module.lookup(name).stmts()
    return [s.value for s in stmts if hasattr(s, "value") and isinstance(s.value, FunctionCall)]


@pytest.mark.spec("dsl.decorators")
def test_a_class_becomes_a_module():
    assert isinstance(Layer, Module)
    assert (Layer.name, Layer.entry) == ("Layer", "step")
    assert [f.name for f in Layer.functions] == ["project", "step"]
    assert all(f.sealed for f in Layer.functions)
    assert calls(Layer, "step")[0].callee is Layer.lookup("project")


@pytest.mark.spec("dsl.child-names")
def test_children_are_named_after_their_attribute_and_called_with_activations():
    @module(entry="both")
    class Pair:
        first = Layer
        second = Layer

        @func
        def both(x: Tensor[(N, 4), "f32"]) -> Tensor[(N, 4), "f32"]:
            return second(first(x))

    assert [child.name for child in Pair.modules] == ["first", "second"]
    assert Layer.owner is None
    found = calls(Pair, "both")
    assert [call.path for call in found] == [("first", "step"), ("second", "step")]
    assert [call.callee for call in found] == [child.lookup("step") for child in Pair.modules]
    assert all(call.callee is child.lookup("step") for call, child in zip(found, Pair.modules, strict=True))


@pytest.mark.spec("dsl.unrolling")
@pytest.mark.spec("dsl.child-names")
def test_a_tuple_of_named_modules_attaches_each_and_its_loop_unrolls():
    @module(entry="run")
    class Stack:
        layers = tuple(Layer.renamed(f"layer{i}") for i in range(3))

        @func
        def run(x: Tensor[(N, 4), "f32"]) -> Tensor[(N, 4), "f32"]:
            for layer in layers:
                x = layer(x)
            return layers[0](x)

    assert [child.name for child in Stack.modules] == ["layer0", "layer1", "layer2"]
    assert [call.path[0] for call in calls(Stack, "run")] == ["layer0", "layer1", "layer2", "layer0"]


@pytest.mark.spec("dsl.sibling-and-child-calls")
def test_a_function_of_a_child_and_of_its_child():
    @module
    class Outer:
        @module(entry="run")
        class inner:
            deep = Layer

            @func
            def run(x: Tensor[(N, 4), "f32"]) -> Tensor[(N, 4), "f32"]:
                return deep.project(x)

        @func
        def one(x: Tensor[(N, 4), "f32"]) -> Tensor[(N, 4), "f32"]:
            return inner.deep.project(inner.run(inner(x)))

    assert [call.path for call in calls(Outer, "one")] == [
        ("inner", "run"),
        ("inner", "run"),
        ("inner", "deep", "project"),
    ]
    assert calls(Outer, "one")[2].callee is Outer.child("inner").child("deep").lookup("project")


@pytest.mark.spec("dsl.methods-only")
def test_a_module_of_methods_alone():
    @module
    class Steps:
        a = Layer
        b = Layer

        def forward(self, x):
            return self.b(self.a(x))

    assert Steps.functions == () and list(Steps.methods) == ["forward"]


def test_members_may_be_attached_functions_under_their_own_name():
    @module
    class Owner:
        project = Layer.lookup("project")

    assert Owner.functions == (Layer.lookup("project"),)


@pytest.mark.spec("dsl.sources")
def test_a_module_in_a_factory_sees_the_factory_s_names():
    def build(width: int, layers: int) -> Module:
        scale = 1.0 / width

        @module(entry="f")
        class Built:
            parts = tuple(Layer.renamed(f"l{i}") for i in range(layers))

            @func
            def f(x: Tensor[(N, width), "f32"]) -> Tensor[(N, width), "f32"]:
                return x * scale

        return Built

    assert build(3, 2).lookup("f").result.shape == (N, 3)
    assert [child.name for child in build(5, 2).modules] == ["l0", "l1"]
    x = torch.ones(2, 5)
    from tilefoundry.evaluator import evaluate

    torch.testing.assert_close(evaluate(build(5, 0).lookup("f"), x), x / 5)


@pytest.mark.spec("tree.attach-copies")
def test_an_attached_child_is_copied_and_its_first_owner_stays():
    @module
    class First:
        part = Layer.renamed("part")

    @module
    class Second:
        part = First.part

    assert First.part.owner is First and Second.part.owner is Second
    assert First.part == Second.part


@pytest.mark.spec("dsl.members")
@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("topologies = (Topology('cta', 4),)", r"say it to the decorator, @module\(topologies=...\)"),
        ("pass", "the module M is empty"),
        ("x = 3", "x is a int, which is no member"),
        ("x: int", "a bare annotation is no member"),
        ("class Inner: pass", "Inner is a plain class; decorate it with @module"),
        ("def __call__(self): pass", "__call__ is Python's own"),
        ("def f(self): pass\n    def f(self): pass", "f is defined twice in M"),
        ("layers = (F, 3)", "layers is a tuple, which is no member"),
        ("layers = (F, F)", "F named twice"),
        ("f = staticmethod(len)", "f is a staticmethod, which is no member"),
        ("g = F.lookup('f')", "g is the function f; a function keeps the name of its def"),
        ("f = F\n    def f(self): pass", "f is defined twice in M"),
        ("import math", "math is a module, which is no member"),
    ],
)
def test_refused_members(run, body, message):
    with pytest.raises(DslError, match=message):
        run(
            f"""\
@module
class F:
    @func
    def f(x: Tensor[(4,), "f32"]):
        return x
@module
class M:
    {body}
"""
        )


@pytest.mark.spec("dsl.members")
@pytest.mark.parametrize(
    ("source", "message"),
    [
        ('@module(entry="g")\nclass M:\n    f = F.lookup("f")', "entry 'g' is no function of it"),
        ("@module\nclass M(dict):\n    f = F.lookup('f')", "cannot have base classes"),
        (
            "@module\nclass M:\n    @func\n    def f(x: Tensor[(4,), 'f32']): return x\n"
            "    @func\n    def f(x: Tensor[(4,), 'f32']): return x",
            "f is defined twice in this class",
        ),
        (
            "@module\nclass M:\n    @func\n    def g(x: Tensor[(4,), 'f32']): return F(x)",
            r"the module F is no child of the class that is being defined; attach it there first \(f = F\)",
        ),
        (
            "@func\ndef g(x: Tensor[(4,), 'f32']): return F(x)",
            "cannot be called from a function outside a class",
        ),
        (
            "@module\nclass M:\n    c = F\n    @func\n    def g(x: Tensor[(4,), 'f32']): return c(x)",
            "the child module c has no entry to call",
        ),
        (
            "@module\nclass M:\n    c = F\n    @func\n    def g(x: Tensor[(4,), 'f32']): return c.h(x)",
            "the child module c has no function or child 'h'",
        ),
        (
            "@module\nclass M:\n    c = F\n    @func\n    def g(x: Tensor[(4,), 'f32']): return c.f(x, x)",
            r"c.f takes 1 arguments \(x\), activations only",
        ),
    ],
)
def test_refused_modules(run, source, message):
    prelude = """\
@module
class F:
    @func
    def f(x: Tensor[(4,), "f32"], w: ConstTensor[(4,), "f32"]):
        return x
"""
    with pytest.raises(DslError, match=message):
        run(prelude + source)


def test_module_takes_a_class():
    with pytest.raises(TypeError, match="@module decorates a class"):
        module(entry="f")(3)


def test_module_far_from_its_class_is_refused(run):
    with pytest.raises(DslError, match="keep @module directly above the class"):
        run(
            """
            apart = module(entry="f")
            @apart
            class M:
                @func
                def f(x: Tensor[(4,), "f32"]):
                    return x
            """
        )


def test_a_function_that_calls_a_child_of_another_class_is_refused(run):
    with pytest.raises(DslError, match=r"part\.f is called, but this module has no child 'part'"):
        run(
            """
            @module(entry="f")
            class Part:
                @func
                def f(x: Tensor[(4,), "f32"]):
                    return x
            class Plain:
                part = Part
                @func
                def g(x: Tensor[(4,), "f32"]):
                    return part(x)
            @module
            class M:
                g = Plain.g
            """
        )


def test_specialised_bodies_reach_the_attached_children(run):
    names = run(
        """
        S = DimVar("S", 1, 9)
        @module(entry="f")
        class Part:
            @func
            def f(x: Tensor[(S,), "f32"]):
                return x + 1.0
        @module
        class M:
            part = Part
            @func
            def g(x: Tensor[(S,), "f32"]) -> Tensor[(S,), "f32"]:
                pass
            @g.specialize(DimVarRangePat("S", 1, 9))
            def _(x: Tensor[(S,), "f32"]) -> Tensor[(S,), "f32"]:
                return part(x)
        """
    )
    made = names["M"]
    (bind,) = made.lookup("g").variants[0].function.stmts()
    assert bind.value.callee is made.child("part").lookup("f")


def test_calls_reach_an_attached_copy_of_an_owned_child():
    @module
    class First:
        part = Layer

    @module(entry="run")
    class Second:
        part = First.part
        other = First.part

        @func
        def run(x: Tensor[(N, 4), "f32"]) -> Tensor[(N, 4), "f32"]:
            return other(part(x))

    found = calls(Second, "run")
    assert [call.path[0] for call in found] == ["part", "other"]
    assert all(call.callee is child.lookup("step") for call, child in zip(found, Second.modules, strict=True))
    assert First.part.owner is First and all(child.owner is Second for child in Second.modules)
