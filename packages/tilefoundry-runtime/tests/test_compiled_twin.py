"""``compiled_twin`` with a stand-in for the compiler. Oracle: the evaluator's reading of the same weights."""

import pytest
import torch
import toy
import toy_prim

from tilefoundry.evaluator import evaluate, torch_dtype
from tilefoundry.ir.core.reach import child_constants
from tilefoundry.ir.errors import LoweringError
from tilefoundry.runtime import (
    CompiledModule,
    DictResource,
    EntryABI,
    MaxAbs,
    ParamABI,
    check,
    compiled_functions,
    compiled_twin,
    entry_abi_of,
)
from tilefoundry.verbs import backends


def stand_in(module, *, target, options):
    """What a compiler would give: the entry over its inputs, then the weights that it reaches in children."""
    function = module.entry_function()
    own, below = entry_abi_of(function), child_constants(function)
    appended = tuple(ParamABI(".".join((*path, var.name)), var.type) for path, var in below)
    weights = own.constants + tuple((len(own.params) + i, p.name) for i, p in enumerate(appended))
    abi = EntryABI(function.name, (*own.params, *appended, ParamABI("out", function.result)), 1, weights)

    def run(*args):
        inputs, out = args[:-1], args[-1]
        found = {(path, var.name): t for (path, var), t in zip(below, inputs[len(own.params) :], strict=True)}
        assert out.dtype is torch_dtype(function.result.dtype)
        out.copy_(
            evaluate(function, *inputs[: len(own.params)], constants=lambda path, name: found[path, name])
        )

    compiled.append((module.name, target, options))
    return CompiledModule(type=abi, fn=run)


compiled = []


@pytest.fixture(autouse=True)
def no_compiler(monkeypatch):
    compiled.clear()
    monkeypatch.setattr(compiled_functions, "jit", stand_in)


def test_a_whole_tree_runs_compiled():
    twin = compiled_twin(toy.Tree, target="cpu")()
    twin.load(DictResource(toy.tree_weights()))
    reading = toy.Tree.load(DictResource(toy.tree_weights()))
    x = torch.randn(3, 4)
    assert check(twin, reading, (x,), expect={"output": [MaxAbs(0)]}, bisect=True).passed
    torch.testing.assert_close(twin.left.shift(x), reading.left.shift(x))
    assert twin.module is toy.Tree and twin.right.module is toy.Tree.right
    assert {name for name, *_ in compiled} == {"scale_alone", "shift_alone", "step_alone"}


def test_orchestration_stays_python():
    twin = compiled_twin(toy.Steps, target="cpu", options="opts")()
    twin.load(DictResource({"leaf.w": torch.full((4,), 3.0), "leaf.b": torch.ones(4)}))
    y, cache = twin(torch.ones(2, 4), twin.init_caches(device="cpu"))
    assert y.tolist() == [[7.0] * 4] * 2 and cache.shape == (2, 4)
    assert all(rest == ("cpu", "opts") for _, *rest in compiled for rest in [tuple(rest)])


def test_a_child_that_was_not_loaded_is_named():
    twin = compiled_twin(toy.Tree, target="cpu")()
    with pytest.raises(RuntimeError, match=r"Tree needs the weight 'gain'.*call load"):
        twin(torch.ones(1, 4))


def test_only_modules():
    with pytest.raises(TypeError, match="takes a Module"):
        compiled_twin(toy.Leaf.lookup("scale"))


def test_a_prim_func_is_no_entry_of_its_own():
    with pytest.raises(
        TypeError, match=r"Cleared\.clear is a @prim_func; only a @func becomes an entry of its own"
    ):
        compiled_twin(toy_prim.Cleared, target="cpu")


def test_without_a_compiler_the_wheel_is_named(monkeypatch):
    from tilefoundry.verbs import jit

    monkeypatch.setattr(compiled_functions, "jit", jit)
    monkeypatch.setattr(backends, "_points", dict)
    monkeypatch.setattr(backends, "_point", lambda kind: None)
    with pytest.raises(LoweringError, match="pip install tilefoundry-cuda"):
        compiled_twin(toy.Leaf, target="cpu")
