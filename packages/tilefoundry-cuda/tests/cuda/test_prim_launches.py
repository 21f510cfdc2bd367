"""Attributes of authored launches. Oracle: torch formulas, the emitted texts, and what a captured graph says of its
kernels and of the edges between them."""

from __future__ import annotations

import ctypes
import re

import pytest
import torch

from tilefoundry import CompilerOptions, jit, lower
from tilefoundry.codegen.cuda import BACKEND
from tilefoundry.codegen.cuda.authored import NotFollowed
from tilefoundry.dsl import DimVar, Mesh, T, Tensor, Topology, module, prim_func
from tilefoundry.target import CudaTarget

from .emulating import emulate

H200 = CudaTarget("nvidia.h200_sxm")
N = DimVar("N", 1, 5000)
BIG = 2**26


@module(entry="host")
class Attributed:
    @prim_func
    def doubled(x: Tensor[(N, 8), "f32"], y: Tensor[(N, 8), "f32"]):
        T.binary(x, x, y, "add")

    @prim_func
    def host(x: Tensor[(N, 8), "f32"], y: Tensor[(N, 8), "f32"]):
        half = T.alloc_tensor(Tensor[(N, 8), "f32"])
        whole = T.alloc_tensor(Tensor[(N, 8), "f32"])
        T.launch(doubled, x, half, grid=4, block=64, cluster=2)
        T.launch(doubled, half, whole, grid=(N, 4), block=64, cluster=(1, 4), programmatic=True)
        T.launch(doubled, whole, y, grid=4, block=64, cooperative=True)


def _moving():
    @prim_func(topologies=(Topology("cta", 65536), Topology("thread", 256)))
    def moved(x: Tensor[(BIG,), "f32"], y: Tensor[(BIG,), "f32"]):
        with Mesh(("cta", "thread"), (65536, 256), ("b", "t")) as m:
            own = T.alloc_tensor(Tensor[(BIG,), "f32", (BIG @ (m.b, m.t),), "rmem"])
            T.copy(x, own)
            T.copy(own, y)

    return moved


@module(entry="host")
class Long:
    first = _moving().renamed("first")
    second = _moving().renamed("second")

    @prim_func
    def host(x: Tensor[(BIG,), "f32"], y: Tensor[(BIG,), "f32"], z: Tensor[(BIG,), "f32"]):
        T.launch(first, x, y, programmatic=True)
        T.launch(second, y, z, programmatic=False)


@module(entry="host")
class Uneven:
    @prim_func
    def doubled(x: Tensor[(N, 8), "f32"], y: Tensor[(N, 8), "f32"]):
        T.binary(x, x, y, "add")

    @prim_func
    def host(x: Tensor[(N, 8), "f32"], y: Tensor[(N, 8), "f32"]):
        T.launch(doubled, x, y, grid=N, block=64, cluster=2)


def _texts(program):
    return BACKEND.emit(lower(program, target=H200), H200, CompilerOptions()).parts


def test_the_host_passes_attributes_on_and_the_kernel_waits():
    parts = _texts(Attributed)
    launches = re.findall(r"call_\.launch\((.*)\);", parts.host)
    assert launches == [
        "0, 4, args_, host::LaunchForm{2, false, false}",
        "0, N * 4, args_, host::LaunchForm{4, false, false}",
        "0, 4, args_, host::LaunchForm{1, true, false}",
    ]
    (kernel,) = parts.kernels
    assert kernel.overlaps and not kernel.cooperative
    assert parts.devices[0].count("await_earlier_launches();") == 1


def test_a_launch_starts_early_where_it_says_so_and_apart_where_it_says_so():
    parts = _texts(Long)
    early, apart = parts.kernels
    assert early.overlaps and not apart.overlaps  # both move too much to be placed early unasked
    assert re.findall(r"call_\.launch\((.*)\);", parts.host) == [
        "0, 65536, args_",
        "1, 65536, args_, host::LaunchForm{1, false, true}",
    ]


@pytest.mark.emulated
def test_on_an_emulated_block():
    x = torch.randn(5, 8)
    torch.testing.assert_close(emulate(Attributed)(x), 8 * x, rtol=0, atol=0)
    with pytest.raises(ValueError, match="clusters of 2 blocks"):
        emulate(Uneven)(x)


def launching(grid, cluster=1, programmatic=False, cooperative=False):
    """A host that launches one kernel so."""

    @module(entry="host")
    class Program:
        @prim_func
        def doubled(x: Tensor[(N, 8), "f32"], y: Tensor[(N, 8), "f32"]):
            T.binary(x, x, y, "add")

        @prim_func
        def host(x: Tensor[(N, 8), "f32"], y: Tensor[(N, 8), "f32"]):
            T.launch(
                doubled,
                x,
                y,
                grid=grid,
                block=64,
                cluster=cluster,
                programmatic=programmatic,
                cooperative=cooperative,
            )

    return Program


@module(entry="host")
class Product:
    @prim_func
    def product(x: Tensor[(N, 64), "bf16"], w: Tensor[(64, 64), "bf16"], y: Tensor[(N, 64), "bf16"]):
        for i, j, s in T.contract(x, w):
            y[i, j] = s

    @prim_func
    def host(x: Tensor[(N, 64), "bf16"], w: Tensor[(64, 64), "bf16"], y: Tensor[(N, 64), "bf16"]):
        T.launch(product, x, w, y, cluster=2)


@pytest.mark.parametrize(
    ("program", "target", "message"),
    (
        (launching((4, 6), (2, 2)), H200, r"do not follow each other .*such as cluster=\(1, 4\)"),
        (launching((4, 6), 2), H200, r"do not follow each other .*such as cluster=\(1, 2\)"),
        (launching(8, 2), CudaTarget("sm_80"), "asks for cluster=, which sm_80 does not have"),
        (
            launching(8, 1, True, True),
            H200,
            "programmatic=True and is cooperative=True.*leave programmatic= out",
        ),
        (Product, H200, "its product pairs blocks itself"),
    ),
)
def test_what_a_launch_cannot_have_is_refused_by_name(program, target, message):
    with pytest.raises(NotFollowed, match=message):
        lower(program, target=target)


class _Driver:
    """The driver's questions about a captured graph."""

    def __init__(self) -> None:
        self._cuda = ctypes.CDLL("libcuda.so.1")

    def kernels(self, graph) -> list[int]:
        """Its kernel nodes."""
        count = ctypes.c_size_t()
        handle = ctypes.c_void_p(graph.raw_cuda_graph())
        assert self._cuda.cuGraphGetNodes(handle, None, ctypes.byref(count)) == 0
        nodes = (ctypes.c_void_p * count.value)()
        assert self._cuda.cuGraphGetNodes(handle, nodes, ctypes.byref(count)) == 0
        return [node for node in nodes if self._kind(node) == 0]

    def _kind(self, node) -> int:
        kind = ctypes.c_int()
        assert self._cuda.cuGraphNodeGetType(ctypes.c_void_p(node), ctypes.byref(kind)) == 0
        return kind.value

    def cluster(self, node) -> tuple[int, int, int]:
        """Extents of the kernel's clusters."""
        value = (ctypes.c_uint * 16)()
        assert self._cuda.cuGraphKernelNodeGetAttribute(ctypes.c_void_p(node), 4, value) == 0
        return tuple(value[:3])

    def cooperative(self, node) -> int:
        """Whether its blocks are resident together."""
        value = (ctypes.c_int * 16)()
        assert self._cuda.cuGraphKernelNodeGetAttribute(ctypes.c_void_p(node), 2, value) == 0
        return value[0]

    def edges(self, graph) -> list[int]:
        """Kinds of its edges; 1 is a programmatic dependency."""
        count = ctypes.c_size_t()
        handle = ctypes.c_void_p(graph.raw_cuda_graph())
        assert self._cuda.cuGraphGetEdges_v2(handle, None, None, None, ctypes.byref(count)) == 0
        sources, targets = ((ctypes.c_void_p * count.value)() for _ in range(2))
        data = (ctypes.c_ubyte * (8 * count.value))()
        assert self._cuda.cuGraphGetEdges_v2(handle, sources, targets, data, ctypes.byref(count)) == 0
        return [data[8 * i + 2] for i in range(count.value)]


def _captured(call):
    graph = torch.cuda.CUDAGraph(keep_graph=True)
    with torch.cuda.graph(graph):
        call()
    return graph


@pytest.mark.gpu
def test_attributes_reach_the_driver_and_graphs_of_them_run():
    run, driver = jit(Attributed, target="cuda"), _Driver()
    x, y = torch.randn(3000, 8, device="cuda"), torch.empty(3000, 8, device="cuda")
    run(x, y)
    torch.testing.assert_close(y, 8 * x, rtol=0, atol=0)
    graph = _captured(lambda: run(x, y))
    first, second, third = driver.kernels(graph)
    assert [driver.cluster(node)[0] for node in (first, second)] == [2, 4]
    assert [driver.cooperative(node) for node in (first, second, third)] == [0, 0, 1]
    assert sorted(driver.edges(graph)) == [0, 1]
    graph.instantiate()
    for i in range(20):
        x.fill_(i)
        graph.replay()
        assert torch.equal(y, 8 * x)


@pytest.mark.gpu
def test_clusters_that_do_not_divide_the_grid_of_a_call():
    run = jit(Uneven, target="cuda")
    x = torch.randn(6, 8, device="cuda")
    torch.testing.assert_close(run(x), 2 * x, rtol=0, atol=0)
    with pytest.raises(ValueError, match="clusters of 2 blocks, which do not divide its 5 blocks"):
        run(x[:5].contiguous())


@pytest.mark.gpu
def test_a_launch_that_must_start_apart_does():
    run, driver = jit(Long, target="cuda"), _Driver()
    x, y, z = torch.randn(BIG, device="cuda"), *torch.zeros(2, BIG, device="cuda")
    run(x, y, z)
    assert torch.equal(y, x) and torch.equal(z, x)
    graph = _captured(lambda: (run(x, y, z), run(x, y, z)))
    # Within a call the second launch starts apart, the next call's first beside it.
    assert sorted(driver.edges(graph)) == [0, 0, 1]
