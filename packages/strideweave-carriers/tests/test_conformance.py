"""Every shipped carrier and one written as a third party would passes the conformance class."""

from __future__ import annotations

import pytest
import torch

import strideweave as sw
from strideweave.carriers import metal
from strideweave.testing import CarrierConformance, ComputeConformance

pytestmark = pytest.mark.spec("carrier-surface")


class TestGeneric(CarrierConformance, ComputeConformance):
    def make(self, n, dtype):
        return sw.Generic(dtype=dtype).allocate_like(n)


class TestCPU(CarrierConformance, ComputeConformance):
    def make(self, n, dtype):
        return sw.CPU(n, dtype=dtype)


class TestCPUOverAPointer(CarrierConformance):
    def make(self, n, dtype):
        memory = torch.zeros(n * dtype.itemsize, dtype=torch.uint8)
        carrier = sw.CPU(n, memory.data_ptr(), dtype=dtype)
        carrier.keep = memory
        return carrier


class TestFileBacked(CarrierConformance):
    def make(self, n, dtype):
        return sw.FileBacked(None, n, dtype=dtype)


class TestNamedFile(CarrierConformance):
    @pytest.fixture(autouse=True)
    def folder(self, tmp_path):
        self.path, self.count = tmp_path, 0

    def make(self, n, dtype):
        self.count += 1
        return sw.FileBacked(self.path / f"{self.count}.bin", n, dtype=dtype)


class TestBlockDevice(CarrierConformance):
    @pytest.fixture(autouse=True)
    def device(self, tmp_path):
        self.disk = sw.BlockDevice(tmp_path / "blocks", block_size=512)

    def make(self, n, dtype):
        return self.disk.allocate(n, dtype=dtype)


class TestEvictableOnPrimary(CarrierConformance, ComputeConformance):
    def make(self, n, dtype):
        return sw.Evictable(sw.CPU(n, dtype=dtype), sw.FileBacked(None, 0, dtype=dtype))


class TestEvictableOnSecondary(CarrierConformance, ComputeConformance):
    def make(self, n, dtype):
        return sw.Evictable(sw.CPU(0, dtype=dtype), sw.FileBacked(None, n, dtype=dtype))


class Reversed(sw.Carrier):
    """A third-party carrier: bytes kept back to front, so that nothing works by luck."""

    def __init__(self, n, dtype, mutable=True):
        super().__init__(dtype, mutable)
        self._data = bytearray(n * dtype.itemsize)

    def size(self):
        return len(self._data) // self.dtype().itemsize

    def allocate_like(self, n, *, mutable=True, dtype=None, empty=False):
        if n < 0:
            raise ValueError("negative")
        return Reversed(n, dtype or self.dtype(), mutable)

    def load_bytes(self, offset, into):
        end = len(self._data) - offset
        into[:] = bytes(self._data[end - len(into) : end])[::-1]

    def store_bytes(self, offset, data):
        end = len(self._data) - offset
        self._data[end - len(data) : end] = bytes(data)[::-1]

    def grow(self, n):
        self._data = bytearray(n * self.dtype().itemsize)

    def free_storage(self):
        self._data = bytearray()


sw.register_host_carrier(Reversed)
sw.register_family(Reversed, sw.python_family)


class TestThirdParty(CarrierConformance, ComputeConformance):
    def make(self, n, dtype):
        return Reversed(n, dtype)


def test_a_third_party_carrier_computes_with_gradients():
    """Oracle: 2x of [1, 2, 3]."""
    x = sw.Tensor(Reversed(1, sw.Float32).new_like([1.0, 2.0, 3.0]), 0, sw.Layout(3))
    y = sw.reduce_sum(sw.reshape(x * x, (3, 1)), "a b -> b")
    y.backward()
    assert type(x.grad.carrier) is Reversed and x.grad.tolist() == [2.0, 4.0, 6.0]


@pytest.mark.gpu
class TestCUDA(CarrierConformance, ComputeConformance):
    def make(self, n, dtype):
        return sw.CUDA(n, dtype=dtype)


@pytest.mark.gpu
class TestPinned(CarrierConformance):
    def make(self, n, dtype):
        return sw.CPU(n, dtype=dtype, pinned=True)


@pytest.mark.gpu
class TestEvictableOnCUDA(CarrierConformance, ComputeConformance):
    def make(self, n, dtype):
        return sw.Evictable(sw.CUDA(n, dtype=dtype), sw.CPU(0, dtype=dtype))


class MetalSurface(CarrierConformance, ComputeConformance):
    """Metal on a Mac; elsewhere the same class over host memory, where a device of torch's stands in for MPS."""

    def make(self, n, dtype):
        return sw.Metal(n, dtype=dtype)


if torch.backends.mps.is_available():

    class TestMetal(MetalSurface):
        pass

else:

    def test_metal_is_refused_where_there_is_no_such_device():
        """Before anything is allocated, with the classes to use instead."""
        for make in (lambda: sw.Metal(3), lambda: sw.Metal(0, dtype=sw.Int32), lambda: sw.Metal(-1)):
            with pytest.raises(RuntimeError, match="no MPS device on this machine; use CPU or CUDA"):
                make()

    class TestMetalOverHostMemory(MetalSurface):
        @pytest.fixture(autouse=True)
        def stand_in(self, monkeypatch):
            allocate = metal.allocate_flat

            def allocate_here(n, dtype, device, empty):
                assert device == "mps"
                return allocate(n, dtype, "cpu", empty)

            monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
            monkeypatch.setattr(metal, "allocate_flat", allocate_here)
