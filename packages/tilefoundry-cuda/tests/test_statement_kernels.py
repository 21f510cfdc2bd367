"""A kernel of a placed program, replaced by a ``@prim_func`` of its signature. Oracle: the program as it was."""

from __future__ import annotations

import pytest
import torch

from tilefoundry import jit, lower
from tilefoundry.codegen import explain, place
from tilefoundry.evaluator import evaluate
from tilefoundry.inspection import as_script
from tilefoundry.ir.errors import LoweringError, UnsupportedError
from tilefoundry.ir.types import DimVar
from tilefoundry.target import CpuTarget

from .cpu.harness import Program
from .cuda.emulating import emulate
from .placed_text import H200, read_back, same_code

N = DimVar("N", 1, 300)
TARGETS = [pytest.param(CpuTarget(), id="cpu"), pytest.param(H200, id="cuda")]


def gated():
    """A softmax of columns, and two products with it or its transpose."""
    p = Program("gated")
    soft = p("softmax", p("transpose", p.param("x", (8, N)), perm=(1, 0)))
    up = p("transpose", soft, perm=(1, 0))
    down = p.param("down", (8, 8))
    return p.done(p("silu", p("matmul", down, up)), p("matmul", soft, down))


STATEMENTS = """
    @prim_func(topologies=(Topology("cta", 4), Topology("thread", 64)))
    def {name}({x}: Tensor[(N, 8), "f32"], {out}: Tensor[(N, 8), "f32"]):
        for begin, end in T.parallel(N, cost=40):
            for i in range(begin, end):
                top = T.accumulator("max")
                for j in range(8):
                    top += {x}[i, j]
                total = T.accumulator("sum")
                for j in range(8):
                    {out}[i, j] = tf.exp({x}[i, j] - top)
                    total += {out}[i, j]
                for j in range(8):
                    {out}[i, j] = {out}[i, j] / total
"""
"""A softmax of rows of eight."""


def replaced(target, statements: str = STATEMENTS, also: str = ""):
    """The printed program with its softmax as statements; names are those of the text."""
    placed = place(gated(), target=target)
    text = as_script(placed)
    kernel = next(child for child in placed.modules if "exp" in child.name)
    (function,) = kernel.functions
    start = text.index("    @func", text.rindex("    @func", 0, text.index(f"def {kernel.name}(")) - 1)
    stop = text.index("    @func", text.index(f"def {kernel.name}("))
    names = {"name": kernel.name, "x": function.params[0].name, "out": "rows"}
    text = text[:start] + (also + statements).format(**names).lstrip("\n") + "\n" + text[stop:]
    text = text.replace("import func, module", "import func, module, prim_func").replace(
        "Tensor, tf", "T, Tensor, tf"
    )
    if "Topology\n" not in text:
        text = text.replace("\n\n", "\nfrom tilefoundry.ir.types.shard import Topology\n\n", 1)
    return read_back(text, placed.name)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.spec("placement.statements")
def test_the_replaced_program_prints_and_reads_back(target):
    program = replaced(target)
    assert "@prim_func" in same_code(program, target)
    assert [k.name for k in explain(program, target=target).kernels] == [
        k.name for k in explain(gated(), target=target).kernels
    ]


def on_gpu(program):
    compiled = jit(program, target="cuda")
    return lambda *tensors: tuple(t.cpu() for t in compiled(*(t.cuda() for t in tensors)))


RUNNERS = [
    pytest.param(CpuTarget(), lambda program: jit(program, target="cpu"), id="cpu"),
    pytest.param(H200, emulate, id="emulated", marks=[pytest.mark.slow, pytest.mark.emulated]),
    pytest.param(H200, on_gpu, id="gpu", marks=pytest.mark.gpu),
]


@pytest.mark.parametrize("target,runner", RUNNERS)
@pytest.mark.spec("placement.statements")
def test_it_computes_the_same(target, runner):
    """Oracle: the evaluator on the program as it was."""
    program = gated()
    compiled = runner(replaced(target))
    for count in (1, 37, 299):
        tensors = [
            torch.randn(
                [count if n == N else n for n in param.type.shape], generator=torch.Generator().manual_seed(i)
            )
            for i, param in enumerate(program.params)
        ]
        for got, want in zip(compiled(*tensors), evaluate(program, *tensors), strict=True):
            torch.testing.assert_close(got, want)


COPIES = """
    @prim_func(topologies=(Topology("cta", 4), Topology("thread", 64)))
    def {name}({x}: Tensor[({extent}, 8), "f32"], {out}: Tensor[({extent}, 8), "f32"]):
        {body}
"""


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.spec("placement.statements")
def test_statements_that_launch_are_refused(target):
    inner = COPIES.replace("{name}", "inner").replace("{extent}", "N").replace("{body}", "T.copy({x}, {out})")
    body = "T.launch(inner, {x}, {out})"
    launching = COPIES.replace("{extent}", "N").replace("{body}", body)
    with pytest.raises(
        LoweringError, match="launches kernels, and a tensor program calls it: call what it launches"
    ):
        lower(replaced(target, launching, inner), target=target)


@pytest.mark.spec("placement.statements")
def test_what_a_cpu_gives_no_meaning_is_refused_there():
    body = "T.copy_async({x}, {out})"
    with pytest.raises(UnsupportedError, match="copy_async is not compiled for the cpu target: use T"):
        lower(
            replaced(CpuTarget(), COPIES.replace("{extent}", "N").replace("{body}", body)), target=CpuTarget()
        )


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.spec("placement.statements")
def test_extents_of_other_names_are_refused(target):
    other = COPIES.replace("{extent}", 'DimVar("M", 1, 300)').replace("{body}", "T.copy({x}, {out})")
    with pytest.raises(
        LoweringError, match="statements keep the extents that they are written with; declare"
    ):
        lower(replaced(target, other), target=target)
