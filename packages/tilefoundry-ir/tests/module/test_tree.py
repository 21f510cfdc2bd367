"""The tree: owners, what they hand down, copies, selection, sealing. Oracle: the declared facts themselves."""

import pytest
import torch
from memory_resource import MemoryResource

from tilefoundry.dsl import ConstTensor, Tensor, Topology, func, module
from tilefoundry.evaluator import evaluate
from tilefoundry.inspection import as_script
from tilefoundry.ir.core.expr import FunctionCall
from tilefoundry.ir.core.module import Module, WeightTable, select
from tilefoundry.ir.errors import UnknownNameError
from tilefoundry.target import CpuTarget

CTA, THREAD = Topology("cta", 8), Topology("thread", 32)
TARGET = CpuTarget()


@module(entry="run", target=TARGET, topologies=(CTA,))
class Root:
    @module(entry="fn")
    class inner:
        @module(entry="deep")
        class leaf:
            @func
            def deep(x: Tensor[(4,), "f32"], w: ConstTensor[(4,), "f32"]) -> Tensor[(4,), "f32"]:
                return x * w

        @func
        def fn(x: Tensor[(4,), "f32"]) -> Tensor[(4,), "f32"]:
            return leaf(x) + 1.0

        @func
        def other(x: Tensor[(4,), "f32"]) -> Tensor[(4,), "f32"]:
            return fn(x) * 2.0

    @module(topologies=())
    class alone:
        def forward(self, x):
            return x

    @module(topologies=(THREAD,))
    class replaced:
        def forward(self, x):
            return x

    @func
    def run(x: Tensor[(4,), "f32"]) -> Tensor[(4,), "f32"]:
        return inner.other(x)


def callees(owner: Module, name: str) -> list[object]:
    stmts = owner.lookup(name).stmts()
    return [s.value.callee for s in stmts if isinstance(getattr(s, "value", None), FunctionCall)]


@pytest.mark.spec("tree.context")
def test_levels_and_target_resolve_over_the_owners():
    assert Root.inner.leaf.effective_topologies() == (CTA,)
    assert Root.inner.leaf.topologies is None
    assert Root.inner.leaf.resolve_topology("cta") is CTA
    assert Root.inner.leaf.resolve_target() is TARGET
    assert (Root.inner.leaf.path, Root.path) == ("inner.leaf", "")
    assert Root.inner.leaf.root is Root


@pytest.mark.spec("tree.topologies")
def test_none_inherits_empty_stops_and_a_tuple_replaces():
    assert Root.alone.effective_topologies() == ()
    assert Root.replaced.effective_topologies() == (THREAD,)
    with pytest.raises(KeyError, match="'replaced' has no topology 'cta'; levels in force: thread"):
        Root.replaced.resolve_topology("cta")
    with pytest.raises(KeyError, match="'alone' has no topology 'cta'; levels in force: none"):
        Root.alone.resolve_topology("cta")


@pytest.mark.spec("tree.levels-unique")
def test_levels_have_different_names_and_are_levels():
    with pytest.raises(ValueError, match="'M': topology levels must have different names, got"):
        Module("M", topologies=(CTA, Topology("cta", 4)))
    with pytest.raises(
        TypeError, match=r"'M': topologies holds levels such as Topology\(\"cta\", 8\), got 'cta'"
    ):
        Module("M", topologies=("cta",))


@pytest.mark.spec("tree.target")
def test_only_a_root_declares_a_target_and_it_is_a_target():
    with pytest.raises(ValueError, match=r"the child 'c' declares the target .* only a root may"):
        Module("M", modules=(Module("c", target=TARGET),))
    with pytest.raises(TypeError, match=r"target is a Target such as .* got 'cuda'; names go to the verbs"):
        Module("M", target="cuda")
    with pytest.raises(ValueError, match=r"'M' declares no target; give @module\(target=\.\.\.\) or pass"):
        Module("M").resolve_target()


@pytest.mark.spec("tree.clone-context")
def test_a_copy_shares_the_owners_context_without_being_its_member():
    for copy in (Root.inner.cloned(), Root.inner.renamed("again")):
        assert copy.owner is Root and all(copy is not child for child in Root.modules)
        assert copy.effective_topologies() == (CTA,)
        assert copy.leaf.resolve_target() is TARGET
    assert Root.inner.cloned() == Root.inner
    assert Root.inner.renamed("again").name == "again" and Root.inner.name == "inner"


@pytest.mark.spec("tree.clone-redirects")
def test_calls_inside_a_copy_reach_the_copies():
    copy = Root.inner.cloned()
    assert copy.lookup("fn") is not Root.inner.lookup("fn")
    assert callees(copy, "other")[0] is copy.lookup("fn")
    assert callees(copy, "fn")[0] is copy.leaf.lookup("deep")
    assert callees(Root.inner, "fn")[0] is Root.inner.leaf.lookup("deep")


@pytest.mark.spec("tree.attach-copies")
def test_attaching_an_owned_child_leaves_the_first_tree_as_it_was():
    before = as_script(Root)
    second = Module("Second", modules=(Root.inner,), topologies=(THREAD,))
    assert second.inner is not Root.inner and Root.inner.owner is Root
    assert second.inner.effective_topologies() == (THREAD,)
    assert callees(second.inner, "fn")[0] is second.inner.leaf.lookup("deep")
    assert as_script(Root) == before


@pytest.mark.spec("tree.select")
def test_select_walks_children_and_enters_a_module_at_a_function():
    assert select(Root, "inner.leaf") is Root.inner.leaf
    assert select(Root, "inner.fn") is Root.inner
    entered = select(Root, "inner.other")
    assert isinstance(entered, Module) and (entered.name, entered.entry) == ("inner", "other")
    assert entered.resolve_topology("cta") is CTA and entered.resolve_target() is TARGET
    assert Root.inner.entry == "fn"
    x, w = torch.arange(4.0), torch.tensor([1.0, 2.0, 3.0, 4.0])
    reading = entered.load(MemoryResource({"leaf.w": w}))
    torch.testing.assert_close(reading(x), (x * w + 1) * 2)
    for path, text in (
        (
            "inner.nope",
            "'inner' has neither a child nor a function 'nope'; functions: fn, other; children: leaf",
        ),
        ("inner.fn.x", "'inner' has no child 'fn'"),
    ):
        with pytest.raises(UnknownNameError, match=text):
            select(Root, path)


@pytest.mark.spec("tree.sealed")
def test_a_function_is_fixed_once_a_module_holds_it():
    function = Root.inner.leaf.lookup("deep")
    for name in ("name", "params", "result", "body", "topologies", "target"):
        with pytest.raises(
            AttributeError, match=f"deep belongs to a Module and is sealed; .* setting '{name}'"
        ):
            setattr(function, name, None)
    with pytest.raises(ValueError, match="deep belongs to a Module and is sealed"):
        function.add_converter("w", function)
    assert Module("Other", (function,)).lookup("deep") is function
    x = torch.arange(4.0)
    torch.testing.assert_close(evaluate(function, x, x), x * x)


@pytest.mark.spec("tree.frozen")
def test_a_module_cannot_be_changed():
    with pytest.raises(
        AttributeError, match="'Root' is immutable; build another Module instead of setting 'name'"
    ):
        Root.name = "other"
    with pytest.raises(AttributeError, match="'Root' is immutable; 'entry' cannot be deleted"):
        del Root.entry
    with pytest.raises(TypeError):
        Root.metadata["x"] = 1


@pytest.mark.spec("tree.weights")
def test_weights_are_the_union_in_function_and_parameter_order():
    @module
    class Two:
        @func
        def a(
            x: Tensor[(4,), "f32"], u: ConstTensor[(4,), "f32"], v: ConstTensor[(2,), "f32"]
        ) -> Tensor[(4,), "f32"]:
            return x * u

        @func
        def b(
            x: Tensor[(4,), "f32"], t: ConstTensor[(), "f32"], u: ConstTensor[(4,), "f32"]
        ) -> Tensor[(4,), "f32"]:
            return x * u

    assert isinstance(Two.weights, WeightTable)
    assert list(Two.weights) == ["u", "v", "t"] and Two.weights() == Two.weights
    assert [str(t) for t in Two.weights.values()] == ["f32[4]", "f32[2]", "f32[]"]
    assert all(p.is_const for p in Two.lookup("b").constants)


@pytest.mark.spec("tree.weights-one-type")
def test_one_weight_name_with_two_types_raises_on_access():
    @module
    class Clash:
        @func
        def a(x: Tensor[(4,), "f32"], w: ConstTensor[(4,), "f32"]) -> Tensor[(4,), "f32"]:
            return x * w

        @func
        def b(x: Tensor[(4,), "f32"], w: ConstTensor[(1,), "f32"]) -> Tensor[(4,), "f32"]:
            return x * w

    with pytest.raises(
        ValueError, match=r"the weight 'w' is declared f32\[4\] and, in b, f32\[1\]; one name has"
    ):
        _ = Clash.weights


@pytest.mark.spec("tree.names-disjoint")
def test_functions_children_and_methods_share_one_namespace():
    deep = Root.inner.leaf.lookup("deep")
    with pytest.raises(ValueError, match="'M': deep named twice among functions, children and methods"):
        Module("M", (deep,), methods={"deep": lambda self: None})
    with pytest.raises(ValueError, match="'M': inner named twice"):
        Module("M", modules=(Root.inner, Root.inner))


@pytest.mark.spec("tree.member-kinds")
def test_members_are_functions_modules_and_methods():
    with pytest.raises(TypeError, match="a function is a Function or PrimFunction, got 3"):
        Module("M", (3,))
    with pytest.raises(TypeError, match="a child is a Module, got 3"):
        Module("M", modules=(3,))
    with pytest.raises(TypeError, match="the method 'm' is a Python function, got 3"):
        Module("M", methods={"m": 3})
    with pytest.raises(ValueError, match="a module's name must be an identifier, got 'a-b'"):
        Module("a-b")
    with pytest.raises(
        ValueError, match="entry 'nope' is no function of it; functions: none; children: none"
    ):
        Module("M", entry="nope")


@pytest.mark.spec("tree.attributes")
def test_attributes_resolve_functions_children_and_methods_and_never_underscored_names():
    x, w = torch.arange(4.0), torch.ones(4) * 3
    torch.testing.assert_close(Root.inner.leaf.deep(x, w), x * w)
    assert Root.inner is Root.modules[0] and Root.alone.forward(5) == 5
    hidden = Module("M", methods={"_m": lambda self: 1})
    with pytest.raises(AttributeError, match="_m"):
        _ = hidden._m
    with pytest.raises(
        AttributeError, match="'Root' has no member 'nope'; functions: run; children: inner, alone"
    ):
        _ = Root.nope


@pytest.mark.spec("tree.nodes")
def test_lookup_gives_one_function_named_none_or_one():
    assert Root.lookup("run") is Root.functions[0] is Root.entry_function()
    assert Root.function_named("run") == (Root.functions[0],) and Root.function_named("nope") == ()
    with pytest.raises(KeyError, match="'Root' has no function 'nope'; functions: run"):
        Root.lookup("nope")
    with pytest.raises(
        ValueError, match="'alone' has no entry; functions: none; children: none; methods: forward"
    ):
        Root.alone.entry_function()
    with pytest.raises(KeyError, match="'Root' has no child 'nope'; children: inner, alone, replaced"):
        Root.child("nope")
