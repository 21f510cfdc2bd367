"""Tile shapes that do not fit a tensor. Oracle: the rules of division, written out."""

import pytest
import torch

import strideweave as sw


@pytest.mark.parametrize(
    ("tile_shape", "message"),
    [
        ((1, 8), r"tile_shape \(1, 8\) has rank 2, the tensor 3; give one extent per axis"),
        ((1, 3, 4), r"axis 1 of extent 8 is not divided by the tile extent 3; give a divisor of it"),
        ((4, 8, 4), r"axis 0 of extent 6 is not divided by the tile extent 4; give a divisor of it"),
    ],
)
def test_a_tile_shape_that_does_not_fit_is_refused_by_axis(tile_shape, message):
    with pytest.raises(ValueError, match=message):
        sw.TiledEvictable.from_torch(torch.zeros(6, 8, 4), tile_shape=tile_shape)
