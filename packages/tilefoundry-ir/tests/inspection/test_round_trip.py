"""Canonical text reads back to an equal node. Oracle: structural equality of the IR, and text against text."""

from __future__ import annotations

import math
import struct
import time
from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import parsed, random_arguments, read_back

from tilefoundry.evaluator import evaluate
from tilefoundry.inspection import as_script
from tilefoundry.ir.core.expr import Bind, Block, Constant, For, FunctionCall, MeshScope, Var
from tilefoundry.ir.core.module import Module
from tilefoundry.ir.hir import HIR_OPS
from tilefoundry.ir.hir.function import Function
from tilefoundry.ir.passes import Canonicalise, InlineCalls, Pipeline, RemoveDeadCode, UnrollLoops
from tilefoundry.ir.types import TensorType, scalar

RUNS, SEEDS = 10, 50


def reads_back(node: Function | Module) -> str:
    text = as_script(node)
    back = read_back(text)[node.name]
    assert back == node, text
    assert as_script(back) == text
    return text


@pytest.mark.spec("text.round-trip")
@pytest.mark.parametrize("run", range(RUNS))
def test_generated_programs_read_back_equal(run: int) -> None:
    for seed in range(run * SEEDS, (run + 1) * SEEDS):
        reads_back(parsed(seed)[1])


@pytest.mark.spec("text.round-trip")
def test_the_generator_reaches_every_construct() -> None:
    seen: Counter[str] = Counter()
    for seed in range(150):
        node = parsed(seed)[1]
        for module in _modules(node):
            seen["child"] += len(module.modules)
            seen["topologies"] += module.topologies is not None
            seen["method"] += len(module.methods)
        for function in _functions(node):
            seen["converter"] += len(function.converters)
            seen["variant"] += len(function.variants)
            for stmt in function.stmts():
                seen[type(stmt).__name__] += 1
                if isinstance(stmt, For):
                    seen[f"{stmt.kind} loop"] += 1
                    seen["two carries"] += len(stmt.carries) > 1
                if isinstance(stmt, Bind) and isinstance(stmt.value, FunctionCall):
                    seen["child call" if stmt.value.enters_child else "sibling call"] += 1
    wanted = ["child", "topologies", "method", "converter", "variant", "MeshScope", "For", "Bind"]
    wanted += ["range loop", "tile loop", "two carries", "child call", "sibling call"]
    assert {name: seen[name] for name in wanted if seen[name] < 5} == {}


def _modules(node: object) -> list[Module]:
    return [node, *(m for child in node.modules for m in _modules(child))] if isinstance(node, Module) else []


def _functions(node: Function | Module) -> list[Function]:
    return [node] if isinstance(node, Function) else [f for m in _modules(node) for f in m.functions]


def _with_constant(value: float) -> Function:
    x = Var(TensorType((4,), "f64"), "x")
    call = HIR_OPS["add"].call((x, Constant(scalar("f64"), value)))
    y = Var(call.type, "y")
    return Function("f", (x,), call.type, Block((Bind(y, call),), (y,)))


@settings(max_examples=60, deadline=None)
@given(st.floats(allow_nan=True, allow_infinity=True, allow_subnormal=True))
def test_float_constants_keep_their_bits(value: float) -> None:
    back = read_back(as_script(_with_constant(value)))["f"]
    constant = back.body.stmts[0].value.args[1]
    if math.isnan(value):
        assert math.isnan(constant.value)
    else:
        assert struct.pack("<d", constant.value) == struct.pack("<d", value)


SOURCE = """
from tilefoundry.dsl import *
from tilefoundry.target import CpuTarget
import math

B = DimVar("B", 1, 65)
SCALE = 0.25

@func
def norm(x: Tensor[(B, 8), "f32"]) -> Tensor[(B, 8), "f32"]:
    return x * 0.5

@module(entry="step", topologies=(Topology("cta", ceildiv(B, 4)), Topology("thread", 64)), target=CpuTarget())
class Net:
    @module(entry="run", topologies=())
    class block:
        @func
        def run(x: Tensor[(B, 8), "f32"], w: ConstTensor[(8, 8), "f32"]) -> Tensor[(B, 8), "f32"]:
            return norm(tf.matmul(x, w))

        @run.converter("w")
        def transposed(raw: Tensor[(8, 8), "f32"]) -> Tensor[(8, 8), "f32"]:
            return tf.transpose(raw, (1, 0))

    block0 = block.renamed("block0")
    others = (block.renamed("block1"), block.renamed("block2"))

    @func
    def step(x: Tensor[(B, 8), "f32"]) -> tuple[Tensor[(B, 8), "f32"], Tensor[(B, 8), "bool"]]:
        with Mesh(("cta", "thread"), (ceildiv(B, 4), 2, 32), ("b", "w", "t")) as c:
            y = tf.reshard(x, (B, 8 @ c.w), "rmem")
            z = tf.exp(y)
        for m in (block, block0, *others):
            x = m(x)
        return x, x < 1e-3

    def forward(self, x):
        return self.step(x * math.floor(SCALE + 1))
"""

GOLDEN = """\
import math
from tilefoundry import func, module
from tilefoundry.dsl import ConstTensor, DimVar, Mesh, Tensor, tf
from tilefoundry.ir.types.shard import Topology
from tilefoundry.target import CpuTarget

SCALE = 0.25
B = DimVar("B", 1, 65)


@func
def norm(x: Tensor[(B, 8), "f32"]) -> Tensor[(B, 8), "f32"]:
    t0 = tf.mul(x, 0.5)
    return t0


@module(
    entry="step",
    target=CpuTarget(),
    topologies=(Topology("cta", (B + 3) // 4), Topology("thread", 64)),
)
class Net:
    @module(entry="run", topologies=())
    class block:
        @func
        def run(x: Tensor[(B, 8), "f32"], w: ConstTensor[(8, 8), "f32"]) -> Tensor[(B, 8), "f32"]:
            t0 = tf.matmul(x, w)
            t1 = norm(t0)
            return t1

        @run.converter("w")
        def transposed(raw: Tensor[(8, 8), "f32"]) -> Tensor[(8, 8), "f32"]:
            t0 = tf.transpose(raw, perm=(1, 0))
            return t0

    block0 = block.renamed("block0")
    block1 = block.renamed("block1")
    block2 = block.renamed("block2")

    @func
    def step(x: Tensor[(B, 8), "f32"]) -> tuple[Tensor[(B, 8), "f32"], Tensor[(B, 8), "bool"]]:
        with Mesh(("cta", "thread"), ((B + 3) // 4, 2, 32), ("b", "w", "t")) as c:
            y = tf.reshard(x, layout=(B, 2 @ c.w, 4), storage="rmem")
            z = tf.exp(y)
        x_1 = block.run(x)
        x_2 = block0.run(x_1)
        x_3 = block1.run(x_2)
        x_4 = block2.run(x_3)
        t0 = tf.cmp_lt(x_4, 0.001)
        return x_4, t0

    def forward(self, x):
        return self.step(x * math.floor(SCALE + 1))
"""


@pytest.mark.spec("text.golden")
def test_a_module_prints_in_its_golden_form() -> None:
    assert reads_back(read_back(SOURCE)["Net"]) == GOLDEN


def test_the_printed_method_runs_with_its_imports_and_constants() -> None:
    names = read_back(as_script(read_back(SOURCE)["Net"]))
    assert names["SCALE"] == 0.25
    assert names["math"] is math


def test_names_of_values_never_meet_names_of_extents_and_imports() -> None:
    source = """
from tilefoundry.dsl import DimVar, Tensor, func, tf as ops
tf = DimVar("tf", 1, 9)
x = DimVar("x", 2, 7)

@func
def Tensor_(a: Tensor[(tf, x), "f32"]) -> Tensor[(x, tf), "f32"]:
    x_ = ops.transpose(a, (1, 0))
    return ops.reshape(x_, (x, tf)) * 2.0
"""
    reads_back(read_back(source)["Tensor_"])


def test_a_mesh_name_that_hides_a_value_keeps_the_value_reachable() -> None:
    x = Var(TensorType((4,), "f32"), "x")
    first = HIR_OPS["neg"].call((x,))
    c = Var(first.type, "c")
    mesh = read_back("from tilefoundry.dsl import Mesh\nm = Mesh('cta', (4,), ('b',))")["m"]
    second = HIR_OPS["add"].call((c, x))
    y = Var(second.type, "y")
    body = Block((Bind(c, first), MeshScope("c", mesh, (Bind(y, second),))), (y,))
    reads_back(Function("f", (x,), second.type, body))


def test_a_function_that_calls_a_child_comes_as_the_entry_of_a_module() -> None:
    step = read_back(SOURCE)["Net"].lookup("step")
    back = read_back(as_script(step))["step"]
    assert isinstance(back, Module)
    assert back.entry_function() == step


def test_two_callees_of_one_name_are_defined_in_turn() -> None:
    def scale(name: str, by: float, callees: tuple[Function, ...]) -> Function:
        x = Var(TensorType((4,), "f32"), "x")
        stmts, value = [], x
        for i, callee in enumerate(callees):
            target = Var(x.type, f"c{i}")
            stmts.append(Bind(target, FunctionCall(x.type, callee, (callee.name,), (value,))))
            value = target
        call = HIR_OPS["mul"].call((value, Constant(scalar("f32"), by)))
        result = Var(call.type, "y")
        return Function(name, (x,), call.type, Block((*stmts, Bind(result, call)), (result,)))

    inner, other = scale("h", 2.0, ()), scale("h", 3.0, ())
    reads_back(scale("f", 5.0, (other, scale("g", 4.0, (inner,)))))


def test_other_nodes_and_methods_without_source_are_refused_by_name() -> None:
    with pytest.raises(TypeError, match="as_script takes a Function or a Module, got int"):
        as_script(3)  # type: ignore[arg-type]  # the refusal is what is tested
    names: dict[str, object] = {}
    exec("def forward(self): return 1", names)
    module = Module("m", methods={"forward": names["forward"]})  # type: ignore[dict-item]  # exec gives objects
    with pytest.raises(ValueError, match=r"m\.forward: Python keeps no source"):
        as_script(module)
    assert "forward" not in as_script(module, program_only=True)


def test_programs_that_passes_made_read_back_to_the_same_values() -> None:
    """Passes choose names of their own, so the oracle is what the programs compute, bit by bit."""
    passes = (InlineCalls(), Canonicalise(), RemoveDeadCode(), UnrollLoops(limit=3))
    compared = 0
    for seed in range(40):
        program, node = parsed(seed)
        module = node if isinstance(node, Module) else Module("m", (node,), node.name)
        if module.entry is None or "specialize" in program.source:
            continue
        lowered = Pipeline(passes).run(module)
        back = read_back(as_script(lowered))[lowered.name]
        assert back.metadata == lowered.metadata
        arguments = random_arguments(lowered.entry_function(), program.dims, seed)
        want = evaluate(lowered.entry_function(), *arguments)
        torch.testing.assert_close(
            evaluate(back.entry_function(), *arguments), want, rtol=0, atol=0, equal_nan=True
        )
        if not module.modules and not module.entry_function().constants:
            direct = evaluate(module.entry_function(), *arguments)
            torch.testing.assert_close(want, direct, rtol=0, atol=0, equal_nan=True)
            compared += 1
    assert compared >= 10


def test_calls_of_calls_are_compared_and_printed_in_linear_time() -> None:
    """Forty functions, each calling the one before it twice: 2 ** 40 calls if each were followed."""
    lines = ["from tilefoundry.dsl import *", "", "@func", "def f0(x: Tensor[(4,), 'f32']): return x * 0.5"]
    for i in range(1, 40):
        lines += ["", "@func", f"def f{i}(x: Tensor[(4,), 'f32']): return f{i - 1}(f{i - 1}(x))"]
    source = "\n".join(lines) + "\n"
    start = time.perf_counter()
    one, other = read_back(source)["f39"], read_back(source)["f39"]
    assert one == other
    assert one != read_back(source.replace("0.5", "0.25"))["f39"]
    assert reads_back(one).count("@func") == 40
    assert time.perf_counter() - start < 5
