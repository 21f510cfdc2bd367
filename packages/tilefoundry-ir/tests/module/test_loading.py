"""Module.load: pure, independent, validated; placement is agreed. Oracle: the tensors given."""

import threading

import pytest
import torch
from memory_resource import MemoryResource
from module_programs import Leaf, Tree

from tilefoundry import evaluate, func, module
from tilefoundry.dsl import ConstTensor, Tensor, tf
from tilefoundry.ir.core.loading import weight_slots
from tilefoundry.ir.errors import CheckpointError, EvaluationError

X = torch.ones(1, 4)


def data(value=1.0, device="cpu"):
    return {key: torch.full((4,), value, device=device) for key in ("gain", "left.w", "right.w")}


@pytest.mark.spec("load.pure")
def test_load_leaves_the_module_as_it_was():
    before = (repr(Tree), Tree.weights, Tree.modules, Tree.functions)
    Tree.load(MemoryResource(data()))
    assert (repr(Tree), Tree.weights, Tree.modules, Tree.functions) == before
    with pytest.raises(EvaluationError):
        Tree.step(X, torch.ones(4))


@pytest.mark.spec("load.independent-readings")
def test_two_checkpoints_into_one_module():
    one, two = Tree.load(MemoryResource(data(1.0))), Tree.load(MemoryResource(data(2.0)))
    assert one(X).tolist() == [[1.0] * 4] and two(X).tolist() == [[8.0] * 4]
    assert one.module is two.module


@pytest.mark.spec("load.child-per-owner")
def test_one_definition_under_two_owners_gives_two_readings():
    values = data()
    values["right.w"] = torch.full((4,), 5.0)
    reading = Tree.load(MemoryResource(values))
    assert reading.left is not reading.right
    assert reading.left.constants["w"].tolist() == [1.0] * 4
    assert reading.right.constants["w"].tolist() == [5.0] * 4


@pytest.mark.spec("load.by-subtree")
def test_names_are_bare_in_each_scope():
    asked = []

    class Spying(MemoryResource):
        def load(self, name):
            asked.append((self.prefix, name))
            return super().load(name)

        def subtree(self, seg):
            return Spying(self.data, f"{self.prefix}{seg}.")

    Tree.load(Spying(data()))
    assert asked == [("", "gain"), ("left.", "w"), ("right.", "w")]


def test_a_resource_that_reads_many_is_asked_once():
    class Many(MemoryResource):
        asked = ()

        def read_many(self, names):
            self.asked = tuple(names)
            return {name: self.data[name] for name in names}

        def load(self, name):
            raise AssertionError("read singly")

    resource = Many(data(2.0))
    assert Tree.load(resource)(X).tolist() == [[8.0] * 4]
    assert resource.asked == ("gain", "left.w", "right.w")


@pytest.mark.spec("load.validates")
def test_every_tensor_is_checked_and_all_that_disagree_are_named():
    values = data()
    values["gain"] = torch.ones(4, dtype=torch.bfloat16)
    values["left.w"] = torch.ones(4, 1)
    with pytest.raises(CheckpointError) as failure:
        Tree.load(MemoryResource(values))
    text = str(failure.value)
    assert (
        'gain: checkpoint holds bf16[4], declared f32[4]; add a converter with @step.converter("gain")'
        in text
    )
    assert (
        'left.w: checkpoint holds f32[4, 1], declared f32[4]; add a converter with @scale.converter("w")'
        in text
    )
    del values["right.w"]
    with pytest.raises(KeyError, match=r"right\.w"):
        Tree.load(MemoryResource(values))


def test_slots_are_listed_parents_first():
    assert [slot.key for slot in weight_slots(Tree)] == ["gain", "left.w", "right.w"]


@pytest.mark.spec("placement.one-device")
def test_activations_elsewhere_are_refused_by_name():
    reading = Tree.load(MemoryResource(data()))
    with pytest.raises(
        EvaluationError, match=r"Tree\.step: .*gain on cpu, x on meta; build the activations where"
    ):
        reading(X.to("meta"))


@pytest.mark.spec("placement.constants-agree")
@pytest.mark.parametrize("odd", ["gain", "left.w", "right.w"])
def test_a_constant_elsewhere_is_refused_by_name(odd):
    values = data()
    values[odd] = values[odd].to("meta")
    reading = Tree.load(MemoryResource(values))
    with pytest.raises(EvaluationError, match=rf"{odd} on meta|on meta.*{odd}") as failure:
        reading(X)
    assert "on cpu" in str(failure.value)


@pytest.mark.spec("placement.one-device")
def test_the_run_happens_where_everything_is():
    reading = Tree.load(MemoryResource(data(device="meta")))
    assert reading(X.to("meta")).device.type == "meta"


@pytest.mark.spec("placement.no-activation")
def test_without_activations_the_run_is_where_the_constants_are():
    reading = Leaf.load(MemoryResource({"w": torch.ones(4, device="meta")}))
    assert reading.ones().device.type == "meta"
    assert Leaf.load(MemoryResource({"w": torch.ones(4)})).ones().device.type == "cpu"


@module()
class Two:
    @func
    def first(x: Tensor[(4,), "f32"], a: ConstTensor[(4,), "f32"]) -> Tensor[(4,), "f32"]:
        return x * a

    @func
    def second(x: Tensor[(4,), "f32"], b: ConstTensor[(4,), "f32"]) -> Tensor[(4,), "f32"]:
        return x * b


@pytest.mark.spec("placement.constants-agree")
def test_a_weight_that_only_another_function_takes_must_agree_too():
    reading = Two.load(MemoryResource({"a": torch.ones(4), "b": torch.ones(4, device="meta")}))
    for call in (reading.first, reading.second):
        for device in ("cpu", "meta"):
            with pytest.raises(EvaluationError, match="a on cpu, b on meta"):
                call(torch.ones(4, device=device))


@module()
class Bare:
    @func
    def ones() -> Tensor[(2,), "f32"]:
        return tf.zeros(Tensor[(2,), "f32"]) + 1.0

    @func
    def double(x: Tensor[(4,), "f32"]) -> Tensor[(4,), "f32"]:
        return x + x


@pytest.mark.spec("placement.no-constants")
def test_a_reading_without_constants_leaves_the_default():
    reading = Bare.load(MemoryResource({}))
    assert not reading.constants
    assert reading.ones().device == Bare.ones().device == evaluate(Bare.lookup("ones")).device
    for device in ("cpu", "meta"):
        assert reading.double(torch.ones(4, device=device)).device.type == device


@pytest.mark.gpu
def test_one_module_on_two_devices():
    cpu = Tree.load(MemoryResource(data(2.0)))
    gpu = Tree.load(MemoryResource(data(2.0, "cuda")))
    assert torch.equal(cpu(X), gpu(X.cuda()).cpu())
    with pytest.raises(EvaluationError, match="on cuda:0"):
        gpu(X)
    assert gpu.left.ones().is_cuda


def test_eight_threads_load_and_call_one_module():
    failures, start = [], threading.Barrier(8)

    def work(seed):
        start.wait()
        for _ in range(20):
            value = Tree.load(MemoryResource(data(float(seed))))(X)
            if value.tolist() != [[float(seed) ** 3] * 4]:
                failures.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_what_is_no_resource_is_refused(tmp_path):
    for given, kind in (({"w": torch.ones(4)}, "dict"), (str(tmp_path), "str"), (None, "NoneType")):
        with pytest.raises(
            TypeError, match=rf"Leaf\.load reads a resource, such as Safetensors.*, got {kind}"
        ):
            Leaf.load(given)
        with pytest.raises(TypeError, match=rf"Leaf\.prepare reads a resource, .*, got {kind}"):
            Leaf.prepare(given, str(tmp_path / "out"))
