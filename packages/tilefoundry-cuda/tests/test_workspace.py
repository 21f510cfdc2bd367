"""Sharing one workspace. Oracles: lifetimes compared pair by pair; the text of the host entry."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilefoundry import func
from tilefoundry.codegen.cpu.slab import Lifetime, plan_slots
from tilefoundry.dsl import DimVar, Tensor, tf
from tilefoundry.target import CpuTarget

from .placed_text import H200, source_of

N = DimVar("N", 1, 1000)


@st.composite
def lifetimes(draw):
    spans = st.tuples(st.sampled_from((64, 128, 4096, 4 * N)), st.integers(0, 12), st.integers(0, 5))
    drawn = draw(st.lists(spans, max_size=14))
    return {f"b{i}": Lifetime(size, first, first + more) for i, (size, first, more) in enumerate(drawn)}


@pytest.mark.spec("workspace.one")
@given(lifetimes())
def test_what_is_alive_at_once_lies_apart_and_nothing_else_does(lives):
    slots, chosen = plan_slots(lives)
    assert set(chosen) == set(lives)
    for one, life in lives.items():
        assert life.size in slots[chosen[one]]
        for other, alive in lives.items():
            if one < other and life.first <= alive.last and alive.first <= life.last:
                assert chosen[one] != chosen[other], f"{one} and {other} are alive at once"
    together = (sum(life.first <= step <= life.last for life in lives.values()) for step in range(18))
    assert len(slots) == max(together), "as many places as buffers are ever alive at once"


@func
def chain(x: Tensor[(N, 64), "f32"], w: Tensor[(64, 64), "f32"]) -> Tensor[(N, 64), "f32"]:
    y = x
    for _ in range(6):
        y = tf.softmax(y @ w)
    return y


@func
def pointwise(x: Tensor[(N, 64), "f32"]) -> Tensor[(N, 64), "f32"]:
    return tf.exp(x) + 1.0


@pytest.mark.parametrize("target", [CpuTarget(), H200], ids=["cpu", "cuda"])
@pytest.mark.spec("workspace.one")
def test_an_entry_takes_one_workspace_or_none(target):
    assert source_of(chain, target).count("host::Slab") == 1
    assert source_of(pointwise, target).count("host::Slab") == 0
