"""TileSet, ResidencyPlan and ResidencyPolicy against Python sets and hand-written expectations."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strideweave.carriers.tiled_evictable.geometry import TileGeometry
from strideweave.carriers.tiled_evictable.plan import ResidencyPlan, ResidencyPolicy
from strideweave.carriers.tiled_evictable.tile_set import TileSet, of_codes


@pytest.mark.spec("A80", "SET.order")
def test_a_set_that_is_no_product_is_sorted_by_the_reversed_tuple():
    assert TileSet([(1, 0), (0, 1), (0, 0)]).coordinates == ((0, 0), (1, 0), (0, 1))


@pytest.mark.spec("A80", "SET.order", "SET.any")
@given(st.sets(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 5))))
def test_order_and_codes_agree_with_the_numbering(tiles):
    made = TileSet(iter(tiles))
    assert made.coordinates == tuple(sorted(tiles, key=lambda c: tuple(reversed(c))))
    geometry = TileGeometry((6, 6, 6), (1, 2, 3))
    codes = made.bind(geometry)
    assert list(codes) == sorted(codes)
    assert of_codes(codes, geometry) == made
    assert hash(of_codes(codes, geometry)) == hash(made)


@pytest.mark.spec("A81", "SET.values")
@pytest.mark.parametrize("bad", [[(0,), (0, 0)], [(-1,)], [(1, 2), (1, 2)], [()]])
def test_mixed_ranks_negatives_and_repeats_are_value_errors(bad):
    with pytest.raises(ValueError, match="TileSet"):
        TileSet(bad)


@pytest.mark.spec("A81", "SET.types")
@pytest.mark.parametrize("bad", [[3], [(True,)], 5, None, "ab", ["ab"], [(1.5,)], [(0,), 3]])
def test_what_is_no_coordinate_is_a_type_error(bad):
    with pytest.raises(TypeError):
        TileSet(bad)


@pytest.mark.spec("SET.types")
def test_an_endless_set_is_a_type_error():
    with pytest.raises(TypeError, match="no length"):
        TileSet((i,) for i in itertools.count())


@pytest.mark.spec("SET.immutable")
def test_a_set_is_a_value():
    tiles = [[np.int64(1), 2]]
    made = TileSet(tiles)
    tiles[0][0] = 5
    tiles.append([0, 0])
    assert made.coordinates == ((1, 2),)
    assert type(made.coordinates[0][0]) is int
    with pytest.raises(AttributeError):
        made.coordinates = ()
    assert pickle.loads(pickle.dumps(made)) == made


@pytest.mark.spec("SET.empty", "SET.bind")
def test_binding():
    geometry = TileGeometry((2, 3), (1, 1))
    assert TileSet().bind(geometry) == ()
    assert TileSet().rank is None
    for bad in ([(0,)], [(2, 0)], [(0, 3)], [(0, 0, 0)]):
        with pytest.raises(ValueError, match=r"rank|outside"):
            TileSet(bad).bind(geometry)


@pytest.mark.spec("A82", "SET.plan")
def test_a_plan_has_three_empty_sets_by_default():
    plan = ResidencyPlan()
    assert plan.promote == plan.retain == plan.evict == TileSet()
    assert ResidencyPlan(None, TileSet([(1,)])).retain == TileSet([(1,)])
    with pytest.raises(AttributeError):
        plan.promote = TileSet()


@pytest.mark.spec("A82", "SET.plan")
@pytest.mark.parametrize("name", ["promote", "retain", "evict"])
def test_a_plan_takes_sets_only(name):
    with pytest.raises(TypeError, match=name):
        ResidencyPlan(**{name: [(1,)]})


@pytest.mark.spec("A82", "SET.plan_disjoint")
@pytest.mark.parametrize("pair", list(itertools.combinations(["promote", "retain", "evict"], 2)))
def test_a_tile_stands_in_one_field_only(pair):
    tiles = TileSet([(1, 1), (0, 1)])
    with pytest.raises(ValueError, match=r"\(0, 1\)"):
        ResidencyPlan(**dict.fromkeys(pair, tiles))


@pytest.mark.spec("POL.protocol")
def test_the_policy_protocol_is_structural():
    class Good:
        def plan(self, required, purpose):
            return ResidencyPlan()

    assert isinstance(Good(), ResidencyPolicy)
    assert not isinstance(object(), ResidencyPolicy)
