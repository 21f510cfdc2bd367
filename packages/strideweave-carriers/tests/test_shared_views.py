"""Views of a carrier's memory, which moves into it must reach. Oracle: the values that were moved."""

from __future__ import annotations

import numpy
import pytest
import torch

import strideweave as sw


@pytest.fixture(params=["file", "blocks", "python", "memory"])
def source(request, tmp_path):
    """Makes a tensor of int32 values in one kind of carrier."""
    disk = sw.BlockDevice(tmp_path / "disk")
    makers = {
        "file": lambda: sw.FileBacked(tmp_path / "values", dtype=sw.Int32),
        "blocks": lambda: disk.allocate(0, dtype=sw.Int32),
        "python": lambda: sw.Generic([], dtype=sw.Int32),
    }

    def make(values):
        held = sw.from_torch(values)
        return held if request.param == "memory" else sw.move(held, makers[request.param]())

    return make


VIEWS = {
    "torch": sw.to_torch,
    "numpy": lambda t: torch.from_numpy(sw.to_numpy(t)),
    "dlpack": lambda t: torch.from_dlpack(sw.to_torch(t)),
    "flat": lambda t: t.carrier.flat(),
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("wait", [False, True])
@pytest.mark.parametrize("made", ["zero", "grown"])
def test_what_was_seen_of_a_carrier_sees_what_moves_in(source, view, wait, made):
    # A mebibyte: memory of whole pages, which moves may use again.
    count = 1 << 18
    values = torch.arange(count, dtype=torch.int32)
    tensor = source(values)
    if made == "grown":
        target = sw.move(tensor, sw.CPU(0, dtype=sw.Int32)).carrier
        target.flat().zero_()
    else:
        target = sw.CPU(count, dtype=sw.Int32)
    seen = VIEWS[view](sw.Tensor(target, 0, sw.Layout((count,))))
    if wait:
        sw.move_async(tensor, target).wait()
    else:
        sw.move(tensor, target)
    assert torch.equal(seen, values)
    seen[5] = -1
    assert target.get_value(5) == -1


@pytest.mark.parametrize("count", [5, 1 << 18])
def test_memory_that_nobody_saw_is_read_beside_and_taken_over(tmp_path, count):
    """No byte is copied twice: the values lie in the memory that they were read into."""
    values = numpy.arange(count, dtype=numpy.int32)
    values.tofile(tmp_path / "values")
    file = sw.FileBacked(tmp_path / "values", mutable=False, dtype=sw.Int32)
    target = sw.CPU(count, dtype=sw.Int32)
    before = target.host_address()
    sw.move(sw.Tensor(file, 0, sw.Layout((count,))), target)
    assert target.host_address() != before
    assert (sw.to_numpy(sw.Tensor(target, 0, sw.Layout((count,)))) == values).all()
