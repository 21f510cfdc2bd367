"""A permuted copy through shared memory, in Triton: both sides are read and written in runs.

Importing this needs Triton, which torch brings on Linux. The first use of an element type compiles for about a second.
"""

from __future__ import annotations

import warnings
from contextlib import nullcontext

import torch
import triton
import triton.language as tl

from .forms import form_of

TILE = 64
BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}

_broken: list[Exception] = []


@triton.jit
def _copy(
    target,
    source,
    along,
    deep,
    step,
    near,
    far,
    count: tl.constexpr,
    deep_source: tl.constexpr,
    tile: tl.constexpr,
):
    """One tile of ``tile`` x by ``tile`` j; who takes part: every thread of the block."""
    x = (tl.program_id(1) * tile + tl.arange(0, tile)).to(tl.int64)[:, None]
    j = (tl.program_id(0) * tile + tl.arange(0, tile)).to(tl.int64)[None, :]
    inside = (x < along) & (j < deep)
    on_deep = x * step + j
    on_wide = (j % count) * near + (j // count) * far + x
    if deep_source:
        tl.store(target + on_wide, tl.load(source + on_deep, mask=inside), mask=inside)
    else:
        tl.store(target + on_deep, tl.load(source + on_wide, mask=inside), mask=inside)


def transpose(target: torch.Tensor, source: torch.Tensor) -> bool:
    """See ``strideweave.kernels.Transpose``."""
    if _broken or target.dtype != source.dtype or target.shape != source.shape:
        return False
    form = form_of(tuple(target.shape), target.stride(), source.stride())
    if form is None:
        return False
    kind = BITS[target.element_size()]
    deep = form.inner * form.groups
    grid = (triton.cdiv(deep, TILE), triton.cdiv(form.along, TILE))
    if grid[1] > 65535:
        return False
    try:
        # Triton launches on the current device, whatever device the tensors are on.
        with torch.cuda.device(target.device) if target.is_cuda else nullcontext():
            _copy[grid](
                target.view(kind), source.view(kind), form.along, deep, form.step, form.near, form.far,
                count=form.inner, deep_source=form.deep_source, tile=TILE,  # type: ignore[arg-type] # Triton makes constants of them
            )  # fmt: skip
    except Exception as error:
        # A missing host compiler shows here, before anything was launched.
        _broken.append(error)
        warnings.warn(f"strideweave: permuted copies are left to torch, Triton fails: {error}", stacklevel=2)
        return False
    return True
