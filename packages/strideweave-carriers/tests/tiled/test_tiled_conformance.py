"""Pairs of tiers pass the conformance class of tiles. Oracle: the class's own lists of values."""

from __future__ import annotations

import pytest

import strideweave as sw
from strideweave.testing import TiledConformance

pytestmark = pytest.mark.spec("carrier-surface")


class TestOverMemory(TiledConformance):
    def make_primary(self, n, dtype):
        return sw.CPU(n, dtype=dtype)

    def make_secondary(self, n, dtype):
        return sw.CPU(n, dtype=dtype)


class TestOverAFile(TiledConformance):
    def make_primary(self, n, dtype):
        return sw.CPU(n, dtype=dtype)

    def make_secondary(self, n, dtype):
        return sw.FileBacked(None, n, dtype=dtype)


class TestOfTheReference(TiledConformance):
    def make_primary(self, n, dtype):
        return sw.Generic(dtype=dtype).allocate_like(n)

    def make_secondary(self, n, dtype):
        return sw.Generic(dtype=dtype).allocate_like(n)


class TestOverABlockDevice(TiledConformance):
    @pytest.fixture(autouse=True)
    def device(self, tmp_path):
        self.disk = sw.BlockDevice(tmp_path / "blocks", block_size=512)

    def make_primary(self, n, dtype):
        return sw.CPU(n, dtype=dtype)

    def make_secondary(self, n, dtype):
        return self.disk.allocate(n, dtype=dtype)


@pytest.mark.gpu
class TestOnADevice(TiledConformance):
    def make_primary(self, n, dtype):
        return sw.CUDA(n, dtype=dtype)

    def make_secondary(self, n, dtype):
        return sw.CPU(n, dtype=dtype)
