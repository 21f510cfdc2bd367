"""The base class of runtime modules. Oracle: what a recording subclass was called with."""

import pytest
from toy_twins import Recorder

from tilefoundry.runtime import DictResource, RuntimeModule


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


@pytest.mark.spec("module.no-module-is-none")
def test_a_hand_written_module_stands_for_none():
    assert Recorder("r").module is None
