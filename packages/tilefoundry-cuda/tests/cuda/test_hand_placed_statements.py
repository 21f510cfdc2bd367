"""``@prim_func`` kernels on CUDA. Oracle: torch formulas; kernels run on an emulated block, or on the GPU."""

from __future__ import annotations

import pytest
import torch

from tilefoundry import jit, lower
from tilefoundry.codegen.cuda.authored import NotFollowed
from tilefoundry.dsl import Mesh, T, Tensor, Topology, prim_func
from tilefoundry.target import CudaTarget

from .emulating import emulate
from .hand_placed_statements import PROGRAMS
from .runners import compile_device_code

H200 = CudaTarget("nvidia.h200_sxm")


def _elements(device):
    x = torch.randn(37, 3, device=device)
    v, i, j = x.exp() * 2, torch.arange(37, device=device)[:, None], torch.arange(3, device=device)[None]
    return (x,), (torch.where(v > 3, v, (i + 10 * j).float()), v.sum(1))


def _plain_ops(device):
    x, w = torch.randn(37, 8, device=device), torch.randn(8, device=device)
    return (x, w), (torch.nn.functional.rms_norm(x, (8,), w, 1e-6), x * w, x.amax(1))


def _distributed(device):
    x = torch.randn(4, 256, device=device).bfloat16()
    e = x.float().exp()
    return (x,), (e / e.sum(1, keepdim=True), e.sum(1, keepdim=True))


def _staged_async(device):
    x = torch.randn(2, 64, 8, device=device)
    return (x,), (-x.transpose(1, 2).contiguous(),)


def _gridded(device):
    x = torch.randn(2, 32, device=device)
    return (x,), (x.exp(), x.exp() + x.exp().sum(0, keepdim=True))


def _product(device):
    a, b = torch.randn(32, 32, device=device).bfloat16(), torch.randn(32, 16, device=device).bfloat16()
    return (a, b), (a.float() @ b.float(),)


def _several(device):
    x = torch.randn(3, 5, 8, device=device)
    return (x,), (4 * x,)


CASES = {
    "elements": _elements,
    "plain_ops": _plain_ops,
    "distributed": _distributed,
    "staged_async": _staged_async,
    "gridded": _gridded,
    "product": _product,
    "several": _several,
}


def check(compiled, name, device):
    torch.manual_seed(0)
    given, wanted = CASES[name](device)
    found = compiled(*given)
    found = found if isinstance(found, tuple) else (found,)
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_lower_to_their_own_kernels(name):
    *kernels, host = lower(PROGRAMS[name], target=H200).functions
    assert len(kernels) == 1
    assert host.name == PROGRAMS[name].entry


@pytest.mark.slow
@pytest.mark.emulated
@pytest.mark.parametrize("name", sorted(set(CASES) - {"product"}))
def test_programs_compute_what_they_say_on_an_emulated_block(name):
    check(emulate(PROGRAMS[name]), name, "cpu")


@pytest.mark.gpu
@pytest.mark.parametrize("name", CASES)
def test_programs_compute_what_they_say(name):
    check(jit(PROGRAMS[name], target="cuda"), name, "cuda")


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_matrix_instructions_and_barriers_compile(arch):
    assert compile_device_code(PROGRAMS["product"], arch) == 1
    assert compile_device_code(PROGRAMS["gridded"], arch) == 1


def test_sums_of_another_form_are_refused_with_the_form_to_write():
    @prim_func(topologies=(Topology("cta", 1), Topology("thread", 32)))
    def product(a: Tensor[(16, 16), "bf16"], b: Tensor[(16, 8), "bf16"], y: Tensor[(16, 8), "f32"]):
        with Mesh(("cta", "thread"), (1, 8, 4), ("c", "g", "q")) as m:
            acc = T.alloc_tensor(Tensor[(16, 8), "f32", (16 @ m.g, 8 @ m.q), "rmem"])
            T.mma(acc, a, b, atom="m16n8k16")
            T.copy(acc, y)

    with pytest.raises(NotFollowed, match=r"allocate .*acc as .*\(2, 8 @ m.g, 8 @ m.q\)"):
        lower(product, target=H200)
