"""Programs with mesh scopes. Oracle: the evaluator, exact or by the bounds; kernels run on an emulated block."""

from __future__ import annotations

import warnings

import pytest
import torch

from tilefoundry import CompilerOptions, func, lower
from tilefoundry.codegen.cuda import BACKEND
from tilefoundry.codegen.cuda.emit import _derive_launch_config
from tilefoundry.codegen.cuda.statements import inner_statements
from tilefoundry.codegen.cuda.tiles import MeshValue, TileMma, TileShared
from tilefoundry.dsl import Mesh, Tensor, Topology, tf
from tilefoundry.evaluator import evaluate
from tilefoundry.ir.tir import MeshScope
from tilefoundry.target import CudaTarget

from .emulating import emulate
from .hand_placed_loops import PROGRAMS as LOOPS
from .hand_placed_modules import PROGRAMS as MODULES
from .hand_placed_programs import PROGRAMS as KERNELS
from .hand_placed_programs import arguments, compare, wanted
from .runners import compile_device_code

PROGRAMS = {**KERNELS, **MODULES, **LOOPS}
SEVERAL = {"launches": 3, "children": 2, "variants": 2, "host_between": 3, "conditions": 2}
NOT_EMULATED = {"large_shared", "tiles"}
H200 = CudaTarget("nvidia.h200_sxm")


@func(topologies=(Topology("cta", 2), Topology("thread", 128)))
def gated(x: Tensor[(2, 1536), "bf16"]) -> Tensor[(2, 1536), "bf16"]:
    with Mesh(("cta", "thread"), (2, 4, 32), ("x", "y", "t")) as m:
        a = tf.reshard(x, (2 @ m.x, 12 @ m.y, 128 @ m.t), "rmem")
        b = tf.relu(a) + a
        out = tf.reshard(b, (2 @ m.x, 12 @ m.y, 128 @ m.t), "gmem")
    return out


@func(topologies=(Topology("cta", 2), Topology("thread", 64)))
def row_sums(x: Tensor[(2, 384), "f32"]) -> Tensor[(2, 1), "f32"]:
    with Mesh(("cta", "thread"), (2, 64), ("x", "t")) as m:
        held = tf.reshard(x, (2 @ m.x, 384 @ m.t), "rmem")
        total = tf.reduce(held * 2.0, axes=(1,), keepdim=True, kind="sum")
        out = tf.reshard(total, (2 @ m.x, 1), "gmem")
    return out


@func(topologies=(Topology("cta", 2), Topology("thread", 8)))
def joined_over_blocks(x: Tensor[(2, 8), "f32"]) -> Tensor[(1, 8), "f32"]:
    with Mesh(("cta", "thread"), (2, 8), ("x", "t")) as m:
        held = tf.reshard(x, (2 @ m.x, 8 @ m.t), "rmem")
        total = tf.reduce(held, axes=(0,), keepdim=True, kind="sum")
        out = tf.reshard(total, (1, 8 @ m.t), "gmem")
    return out


def entry_and_kernel(program):
    lowered = lower(program, target=H200)
    *kernels, _ = lowered.functions
    return lowered, kernels


def test_the_golden_layout_of_a_split_row_is_followed():
    _, (kernel,) = entry_and_kernel(gated)
    config = _derive_launch_config(kernel)
    assert (config.grid, config.block) == (2, 128)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled = emulate(gated)
    # Registers as the program's layout has them: (0, 0, 4, 0, 1) over (2, 4, 3, 32, 4).
    shape, strides = (2, 4, 3, 32, 4), (0, 0, 4, 0, 1)
    text = ["<" + ", ".join(f"cute::Int<{n}>" for n in numbers) + ">" for numbers in (shape, strides)]
    assert f"cute::Layout<cute::Shape{text[0]}, cute::Stride{text[1]}>" in " ".join(compiled.source.split())
    x = torch.randn(2, 1536).bfloat16()
    assert torch.equal(compiled(x), evaluate(gated, x))


def test_a_reduction_over_threads_joins_through_the_runtime():
    compiled = emulate(row_sums)
    assert "ops::reduce<ops::sum_op, ops::axes<1, 2>>(" in compiled.source
    x = torch.randn(2, 384)
    torch.testing.assert_close(
        compiled(x), (2 * x.double()).sum(1, keepdim=True).float(), rtol=1e-5, atol=1e-4
    )


def test_ctas_join_their_parts_after_a_grid_barrier():
    compiled = emulate(joined_over_blocks)
    assert "SyncKind::grid" in compiled.source
    x = torch.randn(2, 8)
    torch.testing.assert_close(compiled(x), x.sum(0, keepdim=True))


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_placed_kernels_compile_for_gpus(arch):
    assert compile_device_code(gated, arch) == 1
    assert compile_device_code(row_sums, arch) == 1


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_are_followed(name):
    """Each is one kernel of its own scopes, but those that launch several."""
    _, kernels = entry_and_kernel(PROGRAMS[name])
    assert len(kernels) == SEVERAL.get(name, 1)
    assert all(any(isinstance(stmt, MeshScope) for stmt in kernel.body) for kernel in kernels)
    assert any(isinstance(stmt, MeshValue) for k in kernels for stmt in inner_statements(k.body))


@pytest.mark.slow
@pytest.mark.emulated
@pytest.mark.parametrize("name", sorted(set(PROGRAMS) - NOT_EMULATED))
def test_programs_equal_the_evaluator(name):
    program = PROGRAMS[name]
    compiled = emulate(program)
    for rows in (1, 7, 16):
        given = arguments(compiled, rows)
        compare(compiled(*given), wanted(program, compiled, given))


def test_shared_memory_beyond_a_kernels_own_comes_from_the_launch():
    lowered, (kernel,) = entry_and_kernel(PROGRAMS["large_shared"])
    placed = [stmt for stmt in inner_statements(kernel.body) if isinstance(stmt, TileShared)]
    assert [(stmt.offset, stmt.bytes) for stmt in placed] == [(0, 65536)]
    source = BACKEND.emit(lowered, H200, CompilerOptions()).parts
    assert "kernel_large_shared_k0_large_shared_shared_kib[64]" in source.devices[0]
    assert [(kernel.shares, kernel.in_turns) for kernel in source.kernels] == [(True, False)]


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_a_product_whose_result_lies_as_instructions_leave_it_takes_them(arch):
    _, (kernel,) = entry_and_kernel(PROGRAMS["tiles"])
    assert sum(isinstance(stmt, TileMma) for stmt in inner_statements(kernel.body)) == 1
    assert compile_device_code(PROGRAMS["tiles"], arch) == 1
