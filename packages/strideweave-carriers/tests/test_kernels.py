"""Permuted copies by a kernel. Oracle: torch's copy_, bit for bit."""

from __future__ import annotations

import subprocess
import sys
from operator import mul
from types import ModuleType

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import strideweave as sw
from strideweave.carriers.tiled_evictable import TiledEvictable, TileSelection
from strideweave.kernels import finder, use
from strideweave.kernels.forms import form_of


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_forms_say_where_elements_lie(shape, rng):
    order = rng.sample(range(len(shape)), len(shape))
    target = torch.empty(shape).stride()
    source = (
        torch.empty([shape[a] for a in order]).permute([order.index(a) for a in range(len(shape))]).stride()
    )
    form = form_of(shape, target, source)
    pairs = {
        (sum(map(mul, at, target)), sum(map(mul, at, source)))
        for at in torch.cartesian_prod(*[torch.arange(n) for n in shape]).view(-1, len(shape)).tolist()
    }
    if form is None:
        return
    found = set()
    for j in range(form.inner * form.groups):
        for x in range(form.along):
            deep = j + x * form.step
            wide = (j % form.inner) * form.near + (j // form.inner) * form.far + x
            found.add((wide, deep) if form.deep_source else (deep, wide))
    assert found == pairs


def test_the_forms_of_projections_are_known():
    """Experts fastest, then rows, then columns, against expert by expert with columns fastest; both ways."""
    experts, rows, columns = 8, 6, 10
    canonical = (1, experts, experts * rows)
    by_tile = (rows * columns, columns, 1)
    spread = form_of((experts, rows, columns), by_tile, canonical)
    gather = form_of((experts, rows, columns), canonical, by_tile)
    assert spread is not None and spread.deep_source and (spread.inner, spread.groups) == (experts, rows)
    assert gather is not None and not gather.deep_source
    assert form_of((4, 4), (4, 1), (4, 1)) is None


def test_an_entry_point_is_asked_and_may_decline(monkeypatch):
    class Pretend:
        is_cuda, shape = True, (1 << 20,)
        copied = 0

        def numel(self):
            return 1 << 20

        def element_size(self):
            return 2

        def copy_(self, _):
            self.copied += 1

    asked, given_up = [], Pretend()
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    before = list(finder._chosen)
    try:
        use(lambda target, source: asked.append(target) is None and len(asked) > 1)
        said = [finder.transpose(given_up, None), finder.transpose(given_up, None)]
        use(None)
        said.append(finder.transpose(given_up, None))
    finally:
        finder._chosen[:] = before
    assert len(asked) == 2 and given_up.copied == 2
    assert said == [False, True, False]


@pytest.mark.parametrize("importable", [True, False])
def test_triton_is_the_default_wherever_it_can_be_imported(monkeypatch, importable):
    """Oracle: what ``import triton`` says, installed or not; torch where it says no."""
    module = ModuleType("strideweave.kernels.triton_transpose")
    module.transpose = lambda target, source: True
    monkeypatch.setitem(sys.modules, module.__name__, module if importable else None)
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: ())
    assert finder._load() is (module.transpose if importable else None)


def test_stats_say_what_permuted():
    carrier = TiledEvictable(sw.CPU(24), sw.CPU(0), (2, 1, 1), (1, 3, 4))
    tensor, selection = carrier.full_tensor(carrier.row_major_layout()), TileSelection([[1, 0], [0], [0]])
    carrier.project(tensor, selection, order="tile").wait()
    assert (carrier.stats().permuted_by_torch, carrier.stats().permuted_by_kernel) == (0, 0)
    carrier.project(tensor, selection).wait()
    assert (carrier.stats().permuted_by_torch, carrier.stats().permuted_by_kernel) == (1, 0)


INTERPRETED = """
import torch
from strideweave.kernels.triton_transpose import transpose
for kind in (torch.uint8, torch.bfloat16, torch.float32, torch.int64):
    for e, r, c in ((8, 6, 70), (3, 5, 129), (2, 1, 65)):
        flat = torch.randint(0, 255, (e * r * c * kind.itemsize,), dtype=torch.uint8).view(kind)
        canonical = flat.view(c, r, e).permute(2, 1, 0)
        tiles = torch.zeros(e, r, c, dtype=kind)
        assert transpose(tiles, canonical)
        assert torch.equal(tiles.view(torch.uint8), canonical.contiguous().view(torch.uint8))
        back = torch.zeros_like(flat)
        assert transpose(back.view(c, r, e).permute(2, 1, 0), tiles)
        assert torch.equal(back.view(torch.uint8), flat.view(torch.uint8))
assert not transpose(torch.zeros(4, 4), torch.zeros(4, 4))
print("equal")
"""


@pytest.mark.slow
def test_the_triton_kernel_interpreted(monkeypatch):
    pytest.importorskip("triton")
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    done = subprocess.run([sys.executable, "-c", INTERPRETED], capture_output=True, text=True, timeout=300)
    assert done.stdout.strip() == "equal", done.stderr


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.uint8, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("sizes", [(8, 96, 1000), (3, 257, 640), (32, 64, 513)])
def test_the_triton_kernel_on_a_device(dtype, sizes):
    from strideweave.kernels.triton_transpose import transpose

    experts, rows, columns = sizes
    flat = torch.randint(
        0, 255, (experts * rows * columns * dtype.itemsize,), dtype=torch.uint8, device="cuda"
    )
    canonical = flat.view(dtype).view(columns, rows, experts).permute(2, 1, 0)
    tiles = torch.empty(sizes, dtype=dtype, device="cuda")
    assert transpose(tiles, canonical)
    assert torch.equal(tiles.view(torch.uint8), canonical.contiguous().view(torch.uint8))
    back = torch.empty_like(flat)
    assert transpose(back.view(dtype).view(columns, rows, experts).permute(2, 1, 0), tiles)
    assert torch.equal(back, flat)


@pytest.mark.gpu
def test_projection_and_scatter_by_the_kernel():
    """Oracle: the same without it, bit for bit."""
    from strideweave.kernels.triton_transpose import transpose

    shape = (8, 256, 512)
    carrier = TiledEvictable(
        sw.CUDA(8 * 256 * 512, dtype=sw.BFloat16), sw.CPU(0, dtype=sw.BFloat16), (8, 1, 1), (1, 256, 512)
    )
    carrier._core.primary.slabs[0].carrier.flat().normal_()
    tensor = carrier.full_tensor(carrier.row_major_layout())
    selection, before = TileSelection([[6, 1, 3, 0], [0], [0]]), list(finder._chosen)
    found = []
    try:
        for kernel in (None, transpose):
            use(kernel)
            compact = carrier.project(tensor, selection).wait()
            result = carrier.scatter(compact, tensor, selection).wait()
            again = result.carrier.project(result, selection, order="tile").wait()
            torch.cuda.synchronize()
            ran = carrier.stats().permuted_by_kernel, result.carrier.stats().permuted_by_kernel
            assert ran == ((1, 1) if kernel else (0, 0))
            found.append((sw.to_torch(compact).cpu(), sw.to_torch(again).cpu()))
    finally:
        finder._chosen[:] = before
    assert shape[1:] == tuple(found[0][0].shape[1:])
    for plain, by_kernel in zip(*found, strict=True):
        assert torch.equal(plain, by_kernel)
