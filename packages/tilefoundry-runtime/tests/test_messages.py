"""Refusals that no other test meets. Oracle: subject, actual, expected and remedy are in the message."""

import os

import pytest
import safetensors
import torch
import toy
from checkpoints import write_single

from tilefoundry.dsl import DimVar
from tilefoundry.ir.core.module import Module
from tilefoundry.ir.errors import CheckpointError
from tilefoundry.ir.types import TensorType
from tilefoundry.runtime import (
    CompiledModule,
    DictResource,
    EntryABI,
    Equal,
    MaxAbs,
    ParamABI,
    Predicate,
    Preprocessed,
    RuntimeFunction,
    RuntimeModule,
    SafetensorsResource,
    check,
    compiled_functions,
    compiled_twin,
    entry_abi_of,
    runtime_module,
    saved,
)
from tilefoundry.runtime.bound import _check_constants
from tilefoundry.runtime.correspondence import structure_difference
from tilefoundry.runtime.layout_text import decode_layout

N, M = DimVar("N", 0, 100), DimVar("M", 0, 100)


def param(name, shape, dtype="f32"):
    return ParamABI(name, TensorType(shape, dtype))


def test_names_prefixes_and_reads_of_a_resource():
    with pytest.raises(TypeError, match=r"prefix must be a string such as 'model\.', got 3"):
        DictResource({}, prefix=3)
    with pytest.raises(TypeError, match="a tensor's name is a string, got None"):
        DictResource({}).load(None)
    with pytest.raises(TypeError, match=r"Preprocessed\('w'\): read must be callable, got 4"):
        Preprocessed("w", 4)


def test_a_shard_that_the_safetensors_library_refuses(tmp_path, monkeypatch):
    folder = write_single(tmp_path, {"w": torch.ones(3)})

    def refuses(*_, **__):
        raise safetensors.SafetensorError("no")

    monkeypatch.setattr(safetensors, "safe_open", refuses)
    with pytest.raises(
        CheckpointError, match=r"model\.safetensors is refused by the safetensors library: no"
    ):
        SafetensorsResource(str(folder), device="cpu").load("w")


def test_a_shard_that_is_replaced_while_it_is_opened(tmp_path, monkeypatch):
    folder = write_single(tmp_path / "a", {"w": torch.ones(3)})
    other = write_single(tmp_path / "b", {"w": torch.zeros(3)})
    made, real = SafetensorsResource(str(folder), device="cpu"), safetensors.safe_open

    def late(path, **options):
        os.replace(next(other.glob("*.safetensors")), path)
        return real(path, **options)

    monkeypatch.setattr(safetensors, "safe_open", late)
    with pytest.raises(
        CheckpointError, match=r"model\.safetensors was replaced while it was opened; load again"
    ):
        made.load("w")
    monkeypatch.setattr(safetensors, "safe_open", real)
    assert made.load("w").sum() == 0


@pytest.mark.parametrize("value", [3, "Twin", lambda: None])
def test_runtime_module_decorates_classes(value):
    with pytest.raises(TypeError, match=r"@runtime_module\(Leaf\) decorates a class, got"):
        runtime_module(toy.Leaf)(value)


def test_a_back_end_that_gives_something_else(monkeypatch):
    monkeypatch.setattr(compiled_functions, "jit", lambda *_, **__: RuntimeModule("other"))
    with pytest.raises(
        TypeError, match=r"the back end 'cpu' gave RuntimeModule.* for scale; a CompiledModule is needed"
    ):
        compiled_twin(toy.Leaf, target="cpu")


@pytest.mark.parametrize(
    ("arch", "device", "fits"),
    [
        ("sm_90a", (9, 0), True),
        ("sm_90a", (9, 1), False),
        ("sm_90", (9, 1), True),
        ("sm_90a", (8, 0), False),
        ("sm_80", (8, 6), True),
        ("sm_86", (8, 0), False),
        ("sm_80", (9, 0), False),
        ("sm_100f", (10, 3), True),
        ("sm_100a", (10, 3), False),
    ],
)
def test_a_library_for_another_gpu(monkeypatch, arch, device, fits):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: device)
    if fits:
        assert saved._check_cuda("folder", arch) is None
        return
    number = "".join(map(str, device))
    with pytest.raises(
        ValueError, match=f"folder was built for {arch}, this device is sm_{number}; build it again"
    ):
        saved._check_cuda("folder", arch)


def test_bound_weights_sit_on_one_device():
    class Elsewhere(torch.Tensor):
        device = torch.device("cuda:7")

    abi = EntryABI("f", (param("a", (2,)), param("b", (2,))), 0, ((0, "a"), (1, "b")))
    found = {0: torch.ones(2), 1: torch.ones(2).as_subclass(Elsewhere)}
    with pytest.raises(ValueError, match="f: weights must sit on one device, got a on cpu, b on cuda:7"):
        _check_constants(abi, found)


def test_shapes_are_named_on_the_general_way_too():
    abi = EntryABI(
        "f", (param("x", (N, 4)), *(param(f"w{i}", (2,)) for i in range(20)), param("y", (N, 3))), 1
    )
    entry = CompiledModule(type=abi, fn=lambda *_: None)
    with pytest.raises(ValueError, match=r"f: x has shape \(\), declared f32\[N, 4\]: ranks differ"):
        entry(torch.tensor(1.0), *[torch.ones(2)] * 20)
    product = EntryABI("g", (param("x", (N * M,)), param("n", (N,)), param("m", (M,)), param("y", (N,))), 1)
    refused = CompiledModule(type=product, fn=lambda *_: (_ for _ in ()).throw(RuntimeError("no")))
    with pytest.raises(
        ValueError, match=r"g: n is torch\.float64, declared f32\[N\]; convert it with \.to\(\)"
    ):
        refused(torch.ones(6), torch.ones(2).double(), torch.ones(3))


def test_conjugated_views_are_named():
    entry = CompiledModule(type=EntryABI("f", (param("x", (N,)), param("y", (N,))), 1), fn=print)
    with pytest.raises(TypeError, match=r"f: x is a conjugated view of its memory; pass \.resolve_conj\(\)"):
        entry.explain([torch.ones(2, dtype=torch.complex64).conj()])


def test_a_compiled_body_cannot_take_a_hand_written_childs_weights():
    class ByHand(RuntimeModule):
        def __init__(self, ir):
            super().__init__(ir.name, ir.entry)

    own = entry_abi_of(toy.Tree.lookup("step"))
    params = (*own.params, param("left.w", (4,)), param("out", (toy.N, 4)))
    abi = EntryABI(own.name, params, 1, ((1, "gain"), (2, "left.w")))
    body = RuntimeFunction(abi)
    twin = runtime_module(toy.Tree)(type("Mixed", (), {"left": ByHand, "right": ByHand, "step": body}))()
    twin.load(DictResource(toy.tree_weights()))
    with pytest.raises(
        RuntimeError, match=r"Tree: left\.w belongs to ByHand.*written by hand and keeps its own"
    ):
        twin(torch.ones(1, 4))


def rebuilt(module, **changes):
    """A copy of ``module`` with other parts."""
    copy = module.cloned()
    parts = {"entry": copy.entry, "modules": copy.modules, "methods": copy.methods, **changes}
    return Module(copy.name, copy.functions, **parts)


def test_how_two_modules_differ():
    assert structure_difference(toy.Tree, toy.Tree.renamed("other")) is None
    assert structure_difference(toy.Tree, toy.Leaf) == "functions: missing step; extra scale, shift"
    assert "children: missing left, right" in structure_difference(toy.Tree, rebuilt(toy.Tree, modules=()))
    assert "methods: missing forward" in structure_difference(toy.Steps, rebuilt(toy.Steps, methods={}))
    other = rebuilt(toy.Leaf, entry="shift")
    assert structure_difference(toy.Leaf, other) == "its entry is 'shift', expected 'scale'"
    left, right = toy.Tree.cloned().modules
    inner = rebuilt(toy.Tree, modules=(left, rebuilt(right, entry="shift")))
    assert structure_difference(toy.Tree, inner) == "in right, its entry is 'shift', expected 'scale'"


def test_a_layout_of_no_kind():
    with pytest.raises(ValueError, match="unknown kind of layout 'round'"):
        decode_layout({"kind": "round"})


def test_a_predicate_without_a_measure():
    class Nothing(Predicate):
        name = "nothing"

    with pytest.raises(NotImplementedError, match="Nothing defines no measure"):
        Nothing().measure(torch.ones(2), torch.ones(2))


@pytest.mark.parametrize(
    ("low", "high", "gap"),
    [(0, 2**64 - 1, 2**64 - 1), (2**63 - 1, 2**63, 1), (2**64 - 1, 0, 2**64 - 1)],
)
def test_unsigned_64_bit_values_are_compared_exactly(low, high, gap):
    a, b = (torch.tensor([v, 5], dtype=torch.uint64) for v in (low, high))
    report = check(lambda: a, lambda: b, (), expect={"output": [Equal()]})
    assert not report.passed and max(report.outputs[0].results[0].values.values()) == gap


def test_scales_of_eight_exponent_bits_are_measured():
    one = torch.tensor([127, 128], dtype=torch.uint8).view(torch.float8_e8m0fnu)
    two = torch.tensor([127, 129], dtype=torch.uint8).view(torch.float8_e8m0fnu)
    report = check(lambda: two, lambda: one, (), expect={"output": [MaxAbs(1.0)]})
    assert not report.passed and report.outputs[0].results[0].values["max_abs"] == 2.0
