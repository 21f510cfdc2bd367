"""Workspaces and the order of sums on a GPU. Oracles: the allocator's own counts; the bits of a first call."""

from __future__ import annotations

import pytest
import torch

from tilefoundry import func, jit
from tilefoundry.dsl import DimVar, Tensor, tf

pytestmark = pytest.mark.gpu
N = DimVar("N", 1, 100_000)


@func
def chain(x: Tensor[(N, 64), "f32"], w: Tensor[(64, 64), "f32"]) -> Tensor[(N, 64), "f32"]:
    """Products and column sums one after the other, each a kernel with a result in memory."""
    y = x
    for _ in range(4):
        y = tf.tanh(y @ w) - tf.reduce(y, axes=(0,), keepdim=True, kind="mean")
    return y


@func
def pointwise(x: Tensor[(N, 64), "f32"]) -> Tensor[(N, 64), "f32"]:
    return tf.exp(x) + 1.0


def allocated(call) -> int:
    """Allocations of device memory while ``call`` runs."""
    torch.cuda.synchronize()
    before = torch.cuda.memory_stats()["allocation.all.allocated"]
    call()
    return torch.cuda.memory_stats()["allocation.all.allocated"] - before


@pytest.mark.spec("workspace.one")
def test_a_call_allocates_one_slab_and_its_outputs():
    x, w = torch.randn(500, 64, device="cuda"), torch.randn(64, 64, device="cuda") / 8
    many, one = jit(chain, target="cuda"), jit(pointwise, target="cuda")
    outs = torch.empty_like(x)
    many(x, w, outs), one(x, outs)
    assert allocated(lambda: many(x, w, outs)) == 1
    assert allocated(lambda: many(x, w)) == 2
    assert allocated(lambda: one(x, outs)) == 0
    assert allocated(lambda: one(x)) == 1


@func
def whole(x: Tensor[(N, 64), "f32"]) -> Tensor[(), "f32"]:
    return tf.reduce(x, axes=(0, 1), keepdim=False, kind="sum")


@func
def columns(x: Tensor[(N, 64), "f32"]) -> Tensor[(64,), "f32"]:
    return tf.reduce(x, axes=(0,), keepdim=False, kind="sum")


@func
def long_product(
    x: Tensor[(16, 32768), "bf16"], w: Tensor[(32768, 128), "bf16"]
) -> Tensor[(16, 128), "bf16"]:
    return x @ w


@func
def long_row(x: Tensor[(1, 32768), "bf16"], w: Tensor[(32768, 256), "bf16"]) -> Tensor[(1, 256), "bf16"]:
    return x @ w


def inputs(program):
    generator = torch.Generator("cuda").manual_seed(5)
    types = [param.type for param in jit(program, target="cuda").type.input_params]
    return [
        torch.randn(
            *(70_001 if isinstance(dim, DimVar) else dim for dim in type_.shape),
            generator=generator,
            device="cuda",
        ).to(getattr(torch, type_.dtype.torch_name))
        for type_ in types
    ]


@pytest.mark.parametrize("program", [whole, columns, long_product, long_row], ids=lambda f: f.name)
@pytest.mark.spec("reductions.order")
def test_equal_inputs_give_equal_bits(program):
    given = inputs(program)
    compiled = jit(program, target="cuda")
    first = compiled(*given)
    busy = torch.randn(4096, 4096, device="cuda")
    streams = [torch.cuda.Stream() for _ in range(2)]
    torch.cuda.synchronize()
    for turn in range(40):
        with torch.cuda.stream(streams[0]):
            busy = (busy @ busy).clamp(-1, 1)  # blocks start in another order
        with torch.cuda.stream(streams[turn % 2]):
            again = compiled(*given)
        torch.cuda.synchronize()
        assert torch.equal(again, first), f"call {turn} differs"
    wide = [t.double() for t in given]
    wanted = wide[0] @ wide[1] if len(wide) == 2 else wide[0].sum() if program is whole else wide[0].sum(0)
    error = (first.double() - wanted).abs().max() / wanted.abs().max()
    assert error < (1e-2 if len(wide) == 2 else 1e-3)
