"""What ``explain`` says. Oracle: bytes, operations and kernels counted by hand."""

from __future__ import annotations

import pytest

from tilefoundry import CudaTarget, func, lower
from tilefoundry.codegen import explain, place
from tilefoundry.dsl import DimVar, DimVarRangePat, Mesh, Tensor, Topology, tf
from tilefoundry.target import CpuTarget

GPU = CudaTarget("nvidia.h200_sxm")
TARGETS = [CpuTarget(), GPU]
N = DimVar("N", 1, 1000)


@func
def chain(x: Tensor[(N, 64), "f32"], w: Tensor[(64, 64), "f32"]) -> Tensor[(N, 64), "f32"]:
    return tf.softmax(tf.silu(x) @ w)


@func
def twofold(x: Tensor[(N, 64), "f32"], w: Tensor[(64, 64), "f32"]) -> Tensor[(N, 64), "f32"]:
    return tf.softmax(x @ w) @ w


@pytest.mark.spec("explain.kernels")
def test_kernels_bytes_operations_and_reasons():
    facts = explain(chain, target=GPU)
    first, product = facts.kernels[0], facts.kernels[1]
    assert first.ops == ("silu",) and first.reads == N * 256 and first.writes == N * 256
    assert "matmul" in product.ops and product.reads == N * 256 + 64 * 64 * 4
    (reader, reason) = first.unfused[0]
    assert reader == product.name
    assert reason.startswith("its left operand, 15 operations for each of N rows")
    assert first.bound({"N": 100}) == "memory"
    text = str(facts)
    assert first.name in text and "apart from" in text and "bound by memory at extents near 60 of N" in text


@pytest.mark.spec("explain.kernels")
def test_a_row_op_joins_its_product_on_a_cpu_and_not_on_a_gpu():
    (whole,) = explain(chain, target="cpu").kernels
    assert whole.ops[:2] == ("silu", "matmul") and "reduce" in whole.ops and whole.unfused == ()
    assert whole.reads == N * 256 + 64 * 64 * 4 and whole.writes == N * 256
    facts = explain(chain, target=GPU)
    assert len(facts.kernels) == 3
    (reader, reason) = facts.kernels[1].unfused[0]
    assert reader == facts.kernels[2].name and reason.startswith("rows of a product are computed by several")


def test_products_of_wide_types_are_bound_by_arithmetic():
    @func
    def large(x: Tensor[(4096, 4096), "f32"], w: Tensor[(4096, 4096), "f32"]) -> Tensor[(4096, 4096), "f32"]:
        return x @ w

    (kernel,) = explain(large, target=GPU).kernels
    assert kernel.flops == 2 * 4096**3 and kernel.bound({}) == "arithmetic"


@func
def chosen(x: Tensor[(N, 4), "f32"]) -> Tensor[(N, 4), "f32"]:
    pass


@chosen.specialize(DimVarRangePat("N", 1, 8))
def few(x: Tensor[(N, 4), "f32"]) -> Tensor[(N, 4), "f32"]:
    return x + 1.0


@chosen.specialize(DimVarRangePat("N", 8, 1000))
def many(x: Tensor[(N, 4), "f32"]) -> Tensor[(N, 4), "f32"]:
    return tf.exp(x)


@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.spec("explain.kernels")
def test_every_variant_is_explained(target):
    assert [kernel.ops for kernel in explain(chosen, target=target).kernels] == [("add",), ("exp",)]


@func(topologies=(Topology("cta", 2), Topology("thread", 4)))
def placed(x: Tensor[(2, 12), "f32"]) -> Tensor[(2, 12), "f32"]:
    with Mesh(("cta", "thread"), (2, 4), ("b", "t")) as m:
        own = tf.reshard(x, (2 @ m.b, 12 @ m.t), "rmem")
        return tf.reshard(tf.exp(own) + own, (2, 12), "gmem")


@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.spec("explain.kernels")
def test_hand_placed_programs_are_explained(target):
    facts = explain(placed, target=target)
    assert {k.name for k in facts.kernels} <= {f.name for f in lower(placed, target=target).functions}
    assert sum(k.reads for k in facts.kernels) == sum(k.writes for k in facts.kernels) == 2 * 12 * 4


@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.spec("explain.kernels")
def test_kernels_that_the_program_has_apart_are_said_to_be_its_own(target):
    """Oracle: the program before it was placed gives a reason of the compiler's, the placed one its author's."""
    program = place(twofold, target=target)
    before, after = explain(twofold, target=target), explain(program, target=target)
    assert [k.name for k in after.kernels] == [k.name for k in before.kernels]
    reasons = {reason for kernel in after.kernels for _, reason in kernel.unfused}
    assert reasons == {"the program has them as kernels of their own"}
    assert reasons.isdisjoint(reason for kernel in before.kernels for _, reason in kernel.unfused)
    assert str(after).splitlines()[0].endswith(f"{len(after.kernels)} kernels")
