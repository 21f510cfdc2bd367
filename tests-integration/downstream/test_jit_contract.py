# ruff: noqa: F821  # the DSL reads dtype names as source
"""What a user may rely on in ``jit`` and ``build``. Oracle: the evaluator, and object identity for the cache."""

import inspect

import pytest
import torch

import tilefoundry
from tilefoundry import CompilerOptions, func, module
from tilefoundry.dsl import ConstTensor, Tensor, Topology
from tilefoundry.ir.core.module import Module
from tilefoundry.runtime import RuntimeModule


@func
def double(x: Tensor[(4,), "f32"]) -> Tensor[(4,), "f32"]:
    return x + x


@module(entry="scale")
class Scale:
    @func
    def scale(x: Tensor[(4,), "f32"], w: ConstTensor[(4,), "f32"]) -> Tensor[(4,), "f32"]:
        return x * w


X, W = torch.arange(4.0), torch.tensor([2.0, 3.0, 4.0, 5.0])


@pytest.mark.spec("jit.accepts-programs")
def test_functions_and_modules_are_taken_and_come_back_callable():
    for program, args in ((double, (X,)), (Scale, (X, W))):
        compiled = tilefoundry.jit(program, target="cpu")
        assert isinstance(compiled, RuntimeModule)
        torch.testing.assert_close(compiled(*args), X + X if len(args) == 1 else X * W)


@pytest.mark.spec("jit.refuses-python-functions")
@pytest.mark.parametrize("thing", [lambda x: x, torch.nn.Identity(), "double", None])
def test_what_is_no_program_is_a_type_error(thing):
    with pytest.raises(TypeError):
        tilefoundry.jit(thing, target="cpu")
    with pytest.raises(TypeError, match="@func"):
        tilefoundry.jit(lambda x: x, target="cpu")


@pytest.mark.spec("jit.no-mesh-parameters")
def test_the_signature():
    parameters = inspect.signature(tilefoundry.jit).parameters
    assert list(parameters) == ["fn_or_mod", "target", "options"]
    assert parameters["target"].default == "cuda" and parameters["options"].default is None


@pytest.mark.spec("jit.cache")
def test_equal_programs_are_one_entry_and_the_cache_can_be_cleared():
    tilefoundry.jit.cache_clear()
    assert tilefoundry.jit.cache_info() == {"size": 0}
    first = tilefoundry.jit(Scale, target="cpu")
    assert tilefoundry.jit(Scale.cloned(), target="cpu") is first
    assert tilefoundry.jit.cache_info() == {"size": 1}
    assert tilefoundry.jit(Scale, target="cpu", options=CompilerOptions(opt_level=1)) is not first
    assert tilefoundry.jit.cache_info() == {"size": 2}
    tilefoundry.jit.cache_clear()
    again = tilefoundry.jit(Scale, target="cpu")
    assert again is not first and tilefoundry.jit.cache_info() == {"size": 1}
    torch.testing.assert_close(again(X, W), first(X, W))


@pytest.mark.spec("jit.cache-key-effective-levels")
def test_one_text_under_two_hierarchies_is_two_entries():
    owners = [
        Module(f"root{n}", modules=(Scale.renamed("child"),), topologies=(Topology("cta", n),))
        for n in (2, 4)
    ]
    tilefoundry.jit.cache_clear()
    first, second = (tilefoundry.jit(owner.modules[0], target="cpu") for owner in owners)
    assert first is not second and tilefoundry.jit.cache_info() == {"size": 2}
    torch.testing.assert_close(first(X, W), second(X, W))


@pytest.mark.spec("launcher.build")
@pytest.mark.spec("launcher.exported-symbol")
def test_build_links_loads_and_binds_the_entry(tmp_path):
    import tvm_ffi

    built = tilefoundry.build(tilefoundry.lower(Scale, target="cpu"))
    assert (built.entry, built.name) == ("scale", "scale")
    torch.testing.assert_close(built(X, W), X * W)
    built.save(str(tmp_path))
    exported = tvm_ffi.load_module(str(tmp_path / "library.so")).get_function(built.entry)
    out = torch.empty(4)
    exported(X, W, out)
    torch.testing.assert_close(out, X * W)
    assert "TVM_FFI_DLL_EXPORT_TYPED_FUNC(scale" in built.source
