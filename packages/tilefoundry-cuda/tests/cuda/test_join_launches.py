"""Small launches in a row as one. Oracle: the evaluator, and for what is joined the buffers of the programs, read by
hand."""

from __future__ import annotations

import pytest
import torch

from tilefoundry import func, jit, lower
from tilefoundry.codegen import explain
from tilefoundry.codegen.cuda.joined import ClusterMeeting, JoinedWork
from tilefoundry.dsl import DimVar, Tensor, tf
from tilefoundry.evaluator import evaluate
from tilefoundry.ir.tir import Launch, walk_tir
from tilefoundry.target import CudaTarget

from .emulating import emulate

H200 = CudaTarget("nvidia.h200_sxm")
HEADS, SHARED, DIM, LIMIT = 6, 3, 16, 9
CACHE = (1, LIMIT, SHARED, DIM)
N = DimVar("N", 1, 9)


@func
def heads(
    x: Tensor[(1, 1, HEADS + 2 * SHARED, DIM), "bf16"],
    q_gain: Tensor[(DIM,), "bf16"],
    k_gain: Tensor[(DIM,), "bf16"],
    cos: Tensor[(LIMIT, DIM), "f32"],
    sin: Tensor[(LIMIT, DIM), "f32"],
    position: Tensor[(1,), "i32"],
    keys: Tensor[CACHE, "bf16"],
    values: Tensor[CACHE, "bf16"],
) -> tuple[Tensor[(1, 1, HEADS, DIM), "bf16"], Tensor[CACHE, "bf16"], Tensor[CACHE, "bf16"]]:
    q = tf.rms_norm(x[:, :, :HEADS], q_gain, eps=1e-6)
    k = tf.rms_norm(x[:, :, HEADS : HEADS + SHARED], k_gain, eps=1e-6)
    q, k = tf.rope(q, k, cos, sin, position)
    keys = tf.cache_update(keys, position, 1, k)
    values = tf.cache_update(values, position, 1, x[:, :, HEADS + SHARED :])
    return q, keys, values


@func
def apart(x: Tensor[(5, 24), "f32"]) -> tuple[Tensor[(5, 24), "f32"], Tensor[(5, 24), "f32"]]:
    """Two kernels, as a value of each is read by nobody else."""
    return tf.softmax(x, axis=1), tf.softmax(x * 2.0, axis=1)


@func
def seen_before(
    cache: Tensor[(1, 8, 1, 128), "f32"], at: Tensor[(1,), "i32"], new: Tensor[(1, 1, 1, 128), "f32"]
) -> tuple[Tensor[(1, 1024), "f32"], Tensor[(1, 8, 1, 128), "f32"]]:
    """What the first kernel reads is, under another name, what the second writes."""
    return tf.softmax(tf.reshape(cache, (1, 1024)), axis=1), tf.cache_update(cache, at, 1, new)


@func
def many_rows(x: Tensor[(9000, 64), "f32"]) -> tuple[Tensor[(9000, 64), "f32"], Tensor[(9000, 64), "f32"]]:
    return tf.softmax(x, axis=1), tf.softmax(x * 2.0, axis=1)


@func
def rows_of_a_call(x: Tensor[(N, 64), "f32"]) -> tuple[Tensor[(N, 64), "f32"], Tensor[(N, 64), "f32"]]:
    return tf.softmax(x, axis=1), tf.softmax(x * 2.0, axis=1)


def shape_of(program, target=H200):
    """Parts of each launch, with the places before which blocks meet."""
    lowered = lower(program, target=target)
    entry = lowered.entry_function()
    kernels = {f.name: f for f in lowered.functions}
    found = []
    for launch in (stmt for stmt in walk_tir(entry.body) if isinstance(stmt, Launch)):
        body = kernels[launch.callee].body
        parts = [i for i, stmt in enumerate(body) if isinstance(stmt, JoinedWork)]
        meetings = [i for i, stmt in enumerate(body) if isinstance(stmt, ClusterMeeting)]
        found.append((max(len(parts), 1), [sum(part < i for part in parts) for i in meetings]))
    return found


@pytest.mark.parametrize(
    ("program", "launches"),
    (
        (heads, [(3, [2]), (2, [])]),
        (apart, [(2, [])]),
        (seen_before, [(2, [1])]),
        (many_rows, [(1, []), (1, [])]),
        (rows_of_a_call, [(1, []), (1, [])]),
    ),
    ids=lambda given: getattr(given, "name", None),
)
def test_launches_are_joined_where_blocks_can_meet(program, launches):
    assert shape_of(program) == launches


def test_chips_without_clusters_join_nothing():
    assert shape_of(heads, CudaTarget("sm_80")) == [(1, [])] * 5


def given(device="cpu"):
    torch.manual_seed(0)
    x, keys, values = (
        torch.randn(shape, device=device).bfloat16() for shape in ((1, 1, 12, DIM), CACHE, CACHE)
    )
    q_gain, k_gain = (torch.rand(DIM, device=device).bfloat16() for _ in range(2))
    cos, sin = (torch.randn(LIMIT, DIM, device=device) for _ in range(2))
    position = torch.tensor([4], dtype=torch.int32, device=device)
    return x, q_gain, k_gain, cos, sin, position, keys, values


def close(found, wanted):
    """Within one rounding of the norm's result, which kernels of another cut may keep wider."""
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one.cpu().float(), other.float(), atol=2**-6, rtol=2**-6)


def test_joined_kernels_compute_what_their_parts_do():
    tensors = given()
    close(emulate(heads)(*tensors), evaluate(heads, *tensors))


def test_a_kernel_that_overwrites_what_another_reads_comes_after_it():
    run = emulate(seen_before)
    cache, new = torch.randn(1, 8, 1, 128), torch.randn(1, 1, 1, 128)
    at = torch.tensor([3], dtype=torch.int32)
    wanted = evaluate(seen_before, cache, at, new)
    rows = torch.empty(1, 1024)
    run(cache, at, new, rows, cache)
    torch.testing.assert_close(rows, wanted[0])
    assert torch.equal(cache, wanted[1])


def test_explain_says_which_launch_runs_a_kernel():
    kernels = explain(heads, target=H200).kernels
    assert len(kernels) == 5
    first, second = dict.fromkeys(kernel.launch for kernel in kernels)
    assert first is not None and first.grid == "8" and first.name.endswith(kernels[2].name)
    assert second is not None and second == kernels[4].launch


@pytest.mark.gpu
def test_joined_kernels_compute_what_their_parts_do_on_a_gpu():
    tensors = given("cuda")
    run = jit(heads, target="cuda")
    assert len(run.kernels) == 2
    wanted = evaluate(heads, *(tensor.cpu() for tensor in tensors))
    for _ in range(20):
        close(run(*tensors), wanted)
