"""Arguments that constructors refuse, by name, before anything is claimed; and one that they once took wrongly.

Oracle: the type of the error and the words that name subject and remedy.
"""

from __future__ import annotations

import copy
import json
import pickle
import struct

import numpy
import pytest
import torch

import strideweave as sw
from strideweave.carriers.tiled_evictable import LFU, LRU, Bundle, TileSelection, TileSet
from strideweave.carriers.tiled_evictable.timeline import timeline_svg


def safetensors(path, **tensors):
    """A file of little-endian float32 arrays."""
    header, data = {}, b""
    for name, array in tensors.items():
        begin = len(data)
        data += array.astype("<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [begin, len(data)]}
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


@pytest.mark.parametrize("made", ["torch", "safetensors"])
def test_a_primary_with_room_for_all_tiles_does_not_stand_in_for_the_source(made, tmp_path):
    values = numpy.arange(1, 9, dtype=numpy.float32).reshape(4, 2)
    primary = sw.CPU(8)
    if made == "torch":
        full = sw.TiledEvictable.from_torch(torch.from_numpy(values.copy()), (1, 2), primary=primary)
    else:
        file = safetensors(tmp_path / "m.safetensors", a=values)
        full = sw.TiledEvictable.from_safetensors(file, "a", (1, 2), primary=primary)
    assert full.carrier.primary_tiles == TileSet() and primary.is_owned()
    found = full.carrier.project(full, TileSelection([range(4), [0]])).wait()
    assert numpy.array_equal(sw.to_numpy(found), values)


def test_a_file_without_the_tensor_or_without_values_says_so(tmp_path):
    arrays = {f"t{k}": numpy.zeros((2, 1)) for k in range(10)} | {"none": numpy.zeros((0, 3))}
    file = safetensors(tmp_path / "m.safetensors", **arrays)
    with pytest.raises(KeyError, match=r"no tensor 'x'.*and 3 more"):
        sw.TiledEvictable.from_safetensors(file, "x", (1, 1))
    with pytest.raises(TypeError, match="name: expected a tensor's name, or several, got int 1"):
        sw.TiledEvictable.from_safetensors(file, 1, (1, 1))
    with pytest.raises(ValueError, match=r"none: the shape \(0, 3\) has no values"):
        sw.TiledEvictable.from_safetensors(file, "none", (1, 3))
    with pytest.raises(ValueError, match=r"from_torch: the shape \(\) has no axes"):
        sw.TiledEvictable.from_torch(torch.tensor(1.0), ())
    with pytest.raises(TypeError, match="from_torch copy"):
        sw.TiledEvictable.from_torch(torch.zeros(2), (1,), copy=1)


@pytest.mark.parametrize("policy", [LRU, object(), type("Named", (), {"plan": "a table"})()])
def test_a_policy_is_an_instance_with_a_plan_that_can_be_called(policy):
    tiers = sw.CPU(0), sw.CPU(8)
    with pytest.raises(TypeError, match="residency_policy"):
        sw.TiledEvictable(*tiers, (4,), (2,), residency_policy=policy)
    assert not any(tier.is_owned() for tier in tiers)


def test_tiers_of_different_types_name_the_one_to_make_anew():
    """Oracle: values decide, so that the tier without any, the primary else, is to have their type."""
    values = torch.zeros(4, dtype=torch.bfloat16)
    with pytest.raises(TypeError, match=r"secondary: holds BFloat16, .*make the primary with dtype=BFloat16"):
        sw.TiledEvictable.from_torch(values, (2,), primary=sw.CPU(0))
    with pytest.raises(
        TypeError, match=r"secondary: holds Float32, .*make the secondary with dtype=BFloat16"
    ):
        sw.TiledEvictable(sw.CPU(4, dtype=sw.BFloat16), sw.CPU(0), (2,), (2,))


def test_counts_of_policies_name_what_they_count():
    for make, words in (
        (lambda: LRU(0), "LRU capacity: 0 is below 1 tile"),
        (lambda: LFU(True), "LFU capacity: must be an integer, got True"),
        (lambda: LFU(1, period=0), "LFU period: 0 is below 1 request"),
    ):
        with pytest.raises((TypeError, ValueError), match=words):
            make()


def test_what_cannot_be_iterated_is_named():
    carrier = sw.TiledEvictable(sw.CPU(0), sw.CPU(8), (4,), (2,))
    with pytest.raises(TypeError, match=r"Bundle: expected TiledEvictable carriers.*pass a list"):
        Bundle(carrier)
    for scalar in (torch.tensor(1), numpy.array(1)):
        with pytest.raises(TypeError, match=r"TileSelection: expected a finite iterable.*without axes"):
            TileSelection([scalar])
    with pytest.raises(TypeError, match="tile_shape: expected an integer, got float"):
        sw.TiledEvictable(sw.CPU(0), sw.CPU(8), (4,), (2.0,))


def test_a_picture_of_many_tiles_has_one_row_for_each():
    grid = 3000
    carrier = sw.TiledEvictable(sw.CPU(0), sw.CPU(grid), (grid,), (1,))
    carrier.promote(TileSet((k,) for k in range(grid)))
    carrier.evict(TileSet((k,) for k in range(0, grid, 2)))
    carrier.promote(TileSet([(0,)]))
    drawn = timeline_svg(carrier)
    assert drawn.count("<rect") == grid + 1 and drawn.count('<text x="2"') == grid


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_carrier_is_not_duplicated(duplicate):
    full = sw.TiledEvictable.from_torch(torch.arange(4.0), (2,))
    for carrier in (full.carrier, sw.CPU(2), sw.Generic([1.0])):
        with pytest.raises(TypeError, match=f"{type(carrier).__name__}: a carrier owns its storage"):
            duplicate(carrier)
    if duplicate is not copy.copy:
        with pytest.raises(TypeError, match="TiledEvictable: a carrier owns its storage"):
            duplicate(full)


def test_an_overlay_over_a_secondary_that_can_be_written():
    """Nothing would ever be in it."""
    for secondary in (sw.CPU(8), sw.CPU(0)):
        with pytest.raises(ValueError, match=r"overlay.*mutable=False"):
            sw.TiledEvictable(sw.CPU(8), secondary, (4,), (2,), overlay=sw.CPU(0), initial="primary")
        assert not secondary.is_owned()


def test_what_is_taken_for_a_selection_or_a_tensor(experts):
    """Each message says what to pass instead."""
    carrier, tensor = experts.carrier, experts.tensor
    pair = TileSelection.from_tensor(torch.tensor([1, 0]), carrier.grid_shape)
    for wrong, remedy in ((pair, "pass the first"), ([0, 1], "a list of coordinates per grid axis")):
        with pytest.raises(TypeError, match=f"expected a TileSelection.*{remedy}"):
            carrier.project(tensor, wrong)
    with pytest.raises(ValueError, match="rank 1, the grid 3; give a list of coordinates for each axis"):
        carrier.project(tensor, TileSelection([[0]]))
    handle = carrier.project(tensor, pair[0])
    with pytest.raises(AttributeError, match=r"'shape'.*call wait\(\)"):
        _ = handle.shape
    for stream in ("x", 3):
        with pytest.raises(TypeError, match=r"on_stream: expected a torch\.cuda\.Stream"):
            handle.on_stream(stream)
    assert handle.on_stream() is handle.wait()
    with pytest.raises(TypeError, match="make it with dtype=Float32"):
        carrier.project(tensor, pair[0], sw.CPU(0, dtype=sw.Int32))


@pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt])
def test_tiers_are_free_again_where_construction_fails_after_all_checks(monkeypatch, error):
    """Oracle: the same tiers make a carrier afterwards."""
    tiers = [sw.CPU(0), sw.CPU(8)]

    def fail(*_):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr("strideweave.carriers.tiled_evictable.construction.build_core", fail)
        with pytest.raises(error):
            sw.TiledEvictable(*tiers, (4,), (2,))
    assert not any(tier.is_owned() for tier in tiers)
    assert sw.TiledEvictable(*tiers, (4,), (2,)).size() == 8


def test_a_capacity_beyond_the_grid_is_the_grid():
    """Nothing is allocated for tiles that there are not."""
    carrier = sw.TiledEvictable(sw.CPU(0), sw.CPU(8), (4,), (2,), primary_capacity=1000)
    carrier.promote(TileSet([(1,)]))
    assert carrier.primary_capacity == 4 and carrier._core.primary.allocated() == 4
