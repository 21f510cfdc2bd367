"""Tensors of one shape in safetensors files, stacked along a new axis. Oracle: torch.stack."""

from __future__ import annotations

import re

import pytest
import torch
from safetensors.torch import save_file

import strideweave as sw
from strideweave.carriers.tiled_evictable import TileSelection

COUNT, SHAPE = 6, (4, 3)
NAMES = [f"experts.{k}.w" for k in range(COUNT)]


@pytest.fixture
def experts():
    return [torch.randn(SHAPE).bfloat16() for _ in range(COUNT)]


@pytest.fixture
def shards(tmp_path, experts):
    """Two files, in neither of which the tensors lie in the order of their numbers; the file of each tensor."""
    files = [tmp_path / "a.safetensors", tmp_path / "b.safetensors"]
    for k, file in enumerate(files):
        save_file(
            {NAMES[e]: experts[e] for e in range(COUNT)[k::2][::-1]} | {f"x{k}": torch.ones(k + 1)}, file
        )
    return [files[e % 2] for e in range(COUNT)]


@pytest.mark.parametrize("tile", [(1, 4, 3), (1, 2, 3), (1, 1, 1), (3, 4, 3), (2, 4, 3), (6, 4, 3)])
def test_a_stack_is_read_from_where_its_tensors_lie(tiled, experts, shards, tile):
    full = sw.TiledEvictable.from_safetensors(shards, NAMES, tile, primary_capacity=1)
    stacked = torch.stack(experts)
    every = TileSelection([range(n) for n in full.carrier.grid_shape])
    assert full.carrier.tile_shape == tile and full.dtype() is sw.BFloat16
    # By the layout that was handed out, from primary, and past it.
    assert torch.equal(tiled.by_mode(sw.add(full, 0.0)), stacked)
    assert torch.equal(tiled.by_mode(full.carrier.project(full, every).wait()), stacked)


def test_one_file_for_all_and_any_order_of_names(tmp_path, experts):
    file = tmp_path / "one.safetensors"
    save_file(dict(zip(NAMES, experts, strict=True)), file)
    full = sw.TiledEvictable.from_safetensors(file, reversed(NAMES), (1, *SHAPE))
    two = full.carrier.project(full, TileSelection([[0, 5], [0], [0]]), order="tile").wait()
    assert torch.equal(sw.to_torch(two), torch.stack([experts[5], experts[0]]))
    # The same tensor may stand in the stack more than once.
    full = sw.TiledEvictable.from_safetensors(str(file), [NAMES[2]] * 2, (2, *SHAPE))
    both = full.carrier.project(full, TileSelection([[0], [0], [0]]), order="tile").wait()
    assert torch.equal(sw.to_torch(both), torch.stack([experts[2]] * 2))


def test_gradients_of_a_stack(experts, shards):
    full = sw.TiledEvictable.from_safetensors(shards, NAMES, (1, *SHAPE), primary_capacity=2)
    some = full.carrier.project(full, TileSelection([[4, 1], [0], [0]]), order="tile").wait()
    weight = torch.randn(2, *SHAPE).bfloat16()
    some.backward(sw.from_torch(weight))
    back = full.grad.carrier.project(full.grad, TileSelection([[1, 4, 5], [0], [0]]), order="tile").wait()
    assert torch.equal(sw.to_torch(back), torch.stack([weight[1], weight[0], torch.zeros(SHAPE).bfloat16()]))


@pytest.mark.parametrize(
    ("names", "change", "error", "message"),
    [
        ([], {}, ValueError, "no names; expected a tensor's, or several to stack"),
        (["a", 3], {}, TypeError, "expected a tensor's name, or several, got int 3"),
        ({"a", "b"}, {}, TypeError, "a set has no order to stack its tensors in"),
        (
            ["a", "longer"],
            {},
            ValueError,
            "'longer' is BFloat16 (5, 3), 'a' is BFloat16 (4, 3); tensors of one",
        ),
        (["a", "other"], {}, ValueError, "'other' is Float32 (4, 3), 'a' is BFloat16 (4, 3); tensors of one"),
        (["a", "none"], {}, KeyError, "has no tensor 'none'; it has a, b, longer, other"),
        (
            ["a", "b"],
            {"tile_shape": (4, 3)},
            ValueError,
            "the stack of 'a' and 1 more: tile_shape (4, 3) has rank",
        ),
        (
            ["a", "b"],
            {"tile_shape": (2, 2, 3)},
            ValueError,
            "axis 0 is not cut to 1 while a later one is cut",
        ),
        (["a", "b"], {"paths": 3}, ValueError, "3 paths for 2 tensors; give one file, or one for each"),
        (["a", "b"], {"path": 7}, TypeError, "expected a path, or one for each tensor, got int 7"),
    ],
)
def test_what_makes_no_stack_is_refused(tmp_path, names, change, error, message):
    file = tmp_path / "m.safetensors"
    a = torch.zeros(SHAPE).bfloat16()
    save_file(
        {"a": a, "b": a.clone(), "longer": torch.zeros(5, 3).bfloat16(), "other": torch.zeros(SHAPE)}, file
    )
    path = change.get("path", [file] * change["paths"] if "paths" in change else file)
    with pytest.raises(error, match=re.escape(message)):
        sw.TiledEvictable.from_safetensors(path, names, change.get("tile_shape", (1, *SHAPE)))
