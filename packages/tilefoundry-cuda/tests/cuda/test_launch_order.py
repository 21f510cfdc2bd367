"""Which launches overlap, and where their kernels wait. Oracle: sizes computed by hand, and the emitted text."""

from __future__ import annotations

import re

import pytest

from tilefoundry import CompilerOptions, lower
from tilefoundry.codegen.cuda import BACKEND
from tilefoundry.codegen.cuda.source.launch_order import moved_bytes
from tilefoundry.ir.types import DimVar
from tilefoundry.target import CudaTarget

from ..cpu.harness import Program

H200 = CudaTarget("nvidia.h200_sxm")
N = DimVar("N", 1, 100_000)


def softmax(shape):
    p = Program("rows")
    return p.done(p("softmax", p.param("x", shape, "bf16"), axis=-1))


def scaled(shape):
    p = Program("elements")
    return p.done(p("mul", p("silu", p.param("x", shape, "bf16")), p.param("y", shape, "bf16")))


def product(m, n, k):
    p = Program("product")
    weights = p("transpose", p.param("w", (n, k), "bf16"), perm=(1, 0))
    return p.done(p("matmul", p.param("x", (m, k), "bf16"), weights))


def kernel_of(program):
    lowered = lower(program, target=H200)
    (kernel,) = (f for f in lowered.functions if f is not lowered.entry_function())
    return kernel


@pytest.mark.parametrize(
    ("program", "size"),
    (
        (softmax((4096, 4096)), 2 * 2 * 4096**2),
        (softmax((512, 32768)), 2 * 2 * 512 * 32768),
        (scaled((1024, 8192)), 3 * 2 * 1024 * 8192),
        (product(256, 512, 1024), 2 * (256 * 1024 + 512 * 1024 + 256 * 512)),
        (product(1, 6144, 2048), 2 * (2048 + 6144 * 2048 + 6144)),
        (softmax((N, 4096)), 0),
    ),
    ids=("rows", "staged rows", "elements", "product", "one row", "rows of a call"),
)
def test_bytes_that_a_kernel_moves(program, size):
    assert moved_bytes(kernel_of(program)) == size


@pytest.mark.parametrize(
    ("program", "overlaps"),
    (
        (softmax((131072, 128)), True),
        (softmax((32768, 4096)), False),
        (softmax((N, 4096)), True),
        (scaled((16384, 14336)), False),
        (product(1, 6144, 2048), True),
        (product(1, 14336, 4096), False),
        (product(512, 4096, 4096), True),
    ),
    ids=("short", "long", "unknown", "long elements", "short row", "long row", "product"),
)
def test_a_kernel_that_overlaps_waits_before_it_reads(program, overlaps):
    """The host's flag and the kernel's wait go together; a kernel that waits promises nothing of its pointers, and does
    nothing but wait and work."""
    parts = BACKEND.emit(lower(program, target=H200), H200, CompilerOptions()).parts
    (text,) = parts.devices
    found = re.search(
        r'extern "C" __global__ void [^(]*(?:\([\d, ]+\) )?kernel_\w+\(([^)]*)\) \{(.*?)\n\}\n', text, re.S
    )
    assert found is not None
    flags = re.search(r'\{"kernel_[^}]*, (true|false), (true|false)\},', parts.host, re.S)
    assert flags is not None and flags.groups() == ("false", str(overlaps).lower())
    assert ("__restrict__" not in found[1]) == overlaps
    statements = [line.strip() for line in found[2].strip().splitlines()]
    if "__launch_bounds__(288)" in found[0]:  # what fetches waits in the runtime, after it has got ready
        assert "_work(" not in text and sum("ops::matmul(" in line for line in statements) == 1
        return
    assert (statements[0] == "await_earlier_launches();") == overlaps
    assert not overlaps or (len(statements) == 2 and "_work(" in statements[1])
