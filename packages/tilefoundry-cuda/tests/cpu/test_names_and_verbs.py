"""Names that mean something in C++, and the verbs' own contract. Oracle: the stated rule, torch for results."""

from __future__ import annotations

import re

import pytest
import torch

import tilefoundry
from tilefoundry import CompilerOptions, CpuTarget, CudaTarget, func, jit, lower, module
from tilefoundry.codegen.cpu.decompose import DecomposeRows
from tilefoundry.dsl import ConstTensor, DimVar, DimVarRangePat, Mesh, Tensor, Topology, tf
from tilefoundry.ir.errors import LoweringError, UnsupportedError
from tilefoundry.ir.tir.function import PrimFunction
from tilefoundry.verbs import as_module

from .harness import Program, constant

WORDS = "int max template blockIdx index_t ops x__y _x x_ f32 begin item std main µ args output pitch"
HOSTILE = WORDS.split()


@pytest.mark.spec("case.names")
def test_parameters_may_be_called_anything():
    p = Program("int")
    params = [p.param(name, (5,)) for name in HOSTILE]
    total = params[0]
    for weight, param in enumerate(params[1:], 2):
        total = p("add", total, p("mul", param, constant("f32", float(weight))))
    compiled = jit(p.done(total), target="cpu")
    tensors = [torch.randn(5) for _ in HOSTILE]
    wanted = sum(t.double() * w for w, t in enumerate(tensors, 1)).float()
    torch.testing.assert_close(compiled(*tensors), wanted, rtol=1e-5, atol=1e-5)
    assert [param.name for param in compiled.type.input_params] == HOSTILE


@pytest.mark.parametrize("name", ["x", "output", "step", "slab"])
@pytest.mark.spec("case.names")
def test_an_extent_may_share_its_name_with_a_parameter_a_result_and_the_function(name):
    p = Program("step")
    x = p.param("x", (DimVar(name, 1, 50), 4))
    slab = p.param("slab", (4,))
    compiled = jit(p.done(p("mul", p("exp", x), slab)), target="cpu")
    a, b = torch.randn(3, 4), torch.randn(4)
    torch.testing.assert_close(compiled(a, b), torch.exp(a) * b)
    assert [param.name for param in compiled.type.input_params] == ["x", "slab"]
    with pytest.raises(ValueError, match=f"step: x gives {name} = 50"):
        compiled(torch.randn(50, 4), b)


def _with_values_called(names, op):
    """``op`` of the first values, then sums of functions of all of them, which are called ``names``."""
    p = Program("step")
    params = [p.param(name, (1, 2, 3, 16)) for name in names]
    before = p("tanh", params[0])
    attrs = {"group": 16} if op == "quant" else {}
    made = p(op, *params[: 3 if op == "attention" else 1], **attrs)
    total = p("add", p("cast", p.items(made)[0] if op == "quant" else made, dtype="f32"), before)
    for param in params[1:]:
        total = p("add", total, p("sin", param))
    return p.done(total)


@pytest.mark.spec("case.names")
@pytest.mark.parametrize("op", ["softmax", "rms_norm", "layer_norm", "attention", "quant"])
def test_values_may_be_called_as_the_steps_of_an_op_are(op):
    """Oracle: the evaluator, on the program whose values have the names that the pass gives to the op's steps."""
    plain = as_module(_with_values_called(["own_a", "own_b", "own_c"], op))
    stmts = DecomposeRows().run(plain).entry_function().stmts()
    steps = list(dict.fromkeys(s.target.name for s in stmts if not re.fullmatch(r"v\d+", s.target.name)))
    assert len(steps) > 3
    program = _with_values_called(steps, op)
    tensors = [torch.randn(1, 2, 3, 16) for _ in steps]
    wanted = tilefoundry.evaluate(program, *tensors)
    torch.testing.assert_close(jit(program, target="cpu")(*tensors), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.spec("case.names")
def test_two_modules_with_one_entry_name_live_side_by_side():
    compiled = []
    for value in (1.0, 10.0):
        p = Program("step")
        compiled.append(jit(p.done(p("add", p.param("x", (3,)), constant("f32", value))), target="cpu"))
    x = torch.zeros(3)
    assert compiled[0](x).tolist() == [1.0] * 3 and compiled[1](x).tolist() == [10.0] * 3


H = DimVar("H", 1, 100)


@func
def square_sum(x: Tensor[(H, 4), "f32"]) -> Tensor[(H,), "f32"]:
    return tf.reduce(x * x, axes=(1,), keepdim=False, kind="sum")


@module(entry="outer")
class Calls:
    @func
    def inner(x: Tensor[(H, 4), "f32"], w: ConstTensor[(4,), "f32"]) -> Tensor[(H, 4), "f32"]:
        return x * w + 1.0

    @func
    def outer(x: Tensor[(H, 4), "f32"], w: ConstTensor[(4,), "f32"]) -> Tensor[(H, 4), "f32"]:
        return 1.0 - inner(inner(x, w), w)


def test_siblings_are_called_and_weights_are_inputs():
    compiled = jit(Calls, target="cpu")
    x, w = torch.randn(6, 4), torch.randn(4)
    torch.testing.assert_close(compiled(x, w), 1.0 - ((x * w + 1.0) * w + 1.0))
    assert compiled.type.constants == ((1, "w"),)
    torch.testing.assert_close(compiled.bind({"w": w})(x), compiled(x, w))


def test_jit_remembers_programs_by_their_text():
    jit.cache_clear()
    assert jit.cache_info() == {"size": 0}
    first = jit(square_sum, target="cpu")
    assert jit(square_sum, target="cpu") is first and jit.cache_info() == {"size": 1}
    assert jit(square_sum, target=CpuTarget()) is first
    assert jit(square_sum, target="cpu", options=CompilerOptions(opt_level=2)) is not first
    assert jit(Calls.cloned(), target="cpu") is jit(Calls, target="cpu")
    jit.cache_clear()
    assert jit.cache_info() == {"size": 0}
    x = torch.randn(3, 4)
    torch.testing.assert_close(first(x), (x * x).sum(1))


def test_raw_python_functions_and_other_things_are_refused():
    with pytest.raises(TypeError, match="decorate it with @func"):
        jit(lambda x: x, target="cpu")
    with pytest.raises(TypeError, match="Function or a Module"):
        jit(3, target="cpu")
    with pytest.raises(TypeError, match="target"):
        jit(square_sum, target=7)
    with pytest.raises(ValueError, match="unknown target 'tpu'"):
        jit(square_sum, target="tpu")


@pytest.mark.spec("target.declared")
def test_a_declared_target_wins_and_a_contradiction_names_both():
    declared = tilefoundry.Module("declared", (square_sum,), "square_sum", target=CpuTarget())
    assert jit(declared)(torch.ones(2, 4)).tolist() == [4.0, 4.0]
    with pytest.raises(ValueError, match=r"CpuTarget.*sm_90a|CpuTarget.*h200"):
        jit(declared, target=CudaTarget("nvidia.h200_sxm"))


@pytest.mark.spec("target.no-gpu")
def test_cuda_without_a_gpu_names_the_way_out():
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(RuntimeError, match=r'CudaTarget\("nvidia.h200_sxm"\)'):
        jit(square_sum)


@pytest.mark.spec("pipeline.steps")
def test_lower_gives_prim_functions_and_build_runs_them():
    lowered = lower(Calls, target="cpu")
    assert all(isinstance(f, PrimFunction) for f in lowered.functions)
    assert isinstance(lowered.target, CpuTarget) and lowered.target.arch != "native"
    x, w = torch.randn(2, 4), torch.randn(4)
    torch.testing.assert_close(tilefoundry.build(lowered)(x, w), 1.0 - ((x * w + 1.0) * w + 1.0))
    with pytest.raises(LoweringError, match="lower"):
        tilefoundry.build(Calls)


@pytest.mark.spec("pipeline.equal-kernels")
def test_kernels_that_differ_in_names_alone_are_emitted_once():
    p = Program("layers")
    x = p.param("x", (H, 16))
    for i in range(4):
        w = p.param(f"weight_{i}", (16, 16))
        x = p("gelu", p("matmul", x, w))
    lowered = lower(p.done(x), target="cpu")
    assert len(lowered.functions) == 2, [f.name for f in lowered.functions]


@func(topologies=(Topology("cta", 2), Topology("thread", 4)))
def per_instance(x: Tensor[(2, 12), "f32"]) -> Tensor[(2, 12), "f32"]:
    with Mesh(("cta", "thread"), (2, 4), ("b", "t")) as m:
        own = tf.local(tf.reshard(x, (2 @ m.b, 12 @ m.t), "rmem"))
        back = tf.reshard(tf.exp(own) + own, (2 @ m.b, 12 @ m.t), "rmem")
        return tf.reshape(tf.reshard(back, (2, 12), "gmem"), (2, 12))


@func(topologies=(Topology("cta", 2), Topology("thread", 4)))
def placed(x: Tensor[(2, 12), "f32"]) -> Tensor[(2, 12), "f32"]:
    with Mesh(("cta", "thread"), (2, 4), ("b", "t")) as m:
        own = tf.reshard(x, (2 @ m.b, 12 @ m.t), "rmem")
        return tf.reshape(tf.reshard(tf.exp(own) + own, (2, 12), "gmem"), (2, 12))


@pytest.mark.spec("refused.by-name")
def test_what_the_target_cannot_do_is_refused_by_name():
    with pytest.raises(
        UnsupportedError, match=r"own = tf\.local.*compile for cuda, or write the computation on"
    ):
        lower(per_instance, target="cpu")


@pytest.mark.spec("placement.erased")
def test_placement_that_keeps_values_is_erased():
    x = torch.randn(2, 12)
    torch.testing.assert_close(jit(placed, target="cpu")(x), torch.exp(x) + x)


@func
def several(
    x: Tensor[(H, 4), "f32"],
) -> tuple[Tensor[(H, 4), "f32"], Tensor[(), "f32"], Tensor[(H, 4), "f32"], Tensor[(H, 4), "f32"]]:
    y = tf.exp(x)
    return y, 2.5, y, x


@pytest.mark.spec("results.kinds")
def test_literals_and_values_returned_twice_and_inputs_are_results_of_their_own():
    x = torch.randn(3, 4)
    first, literal, second, same = jit(several, target="cpu")(x)
    torch.testing.assert_close(first, torch.exp(x))
    assert torch.equal(first, second) and first.data_ptr() != second.data_ptr()
    assert literal.shape == () and literal.item() == 2.5
    assert torch.equal(same, x) and same.data_ptr() != x.data_ptr()


@func
def chosen(x: Tensor[(H, 4), "f32"]) -> Tensor[(H, 4), "f32"]:
    pass


@chosen.specialize(DimVarRangePat("H", 1, 8))
def few(x: Tensor[(H, 4), "f32"]) -> Tensor[(H, 4), "f32"]:
    return x + 1.0


@chosen.specialize(DimVarRangePat("H", 8, 100))
def many(x: Tensor[(H, 4), "f32"]) -> Tensor[(H, 4), "f32"]:
    return tf.softmax(x)


@pytest.mark.spec("variants.run-time")
def test_variants_are_chosen_by_the_call():
    compiled = jit(chosen, target="cpu")
    for rows in (1, 7, 8, 99):
        x = torch.randn(rows, 4)
        torch.testing.assert_close(compiled(x), x + 1.0 if rows < 8 else torch.softmax(x, 1))
    assert len(lower(chosen, target="cpu").functions) == 3


@pytest.mark.spec("loops.static")
def test_loops_with_static_bounds_are_written_out():
    @func
    def powers(x: Tensor[(H, 4), "f32"]) -> Tensor[(H, 4), "f32"]:
        y = x
        for _ in range(3):
            y = y * x
        return y

    x = torch.rand(5, 4)
    torch.testing.assert_close(jit(powers, target="cpu")(x), x**4)


@pytest.mark.spec("pipeline.source")
def test_the_source_says_what_it_came_from():
    source = jit(Calls, target="cpu").source
    assert "tf.mul" in source and "#include <tilefoundry/runtime.h>" in source
    assert source.count("#include") == 1
    assert "TVM_FFI_DLL_EXPORT_TYPED_FUNC(outer," in source
    assert all(len(line) <= 140 for line in source.splitlines())
