"""Random layouts and small programs, and how torch computes the same things from the logical values.

The torch side sees only nested values in the order of coordinates: it shares no kernel, view or layout code
with the package.
"""

from __future__ import annotations

import torch
from hypothesis import strategies as st

import strideweave as sw
from strideweave import Layout
from tilefoundry.ir.layout import flatten, unflatten

EXTENTS = st.integers(1, 4)
TREES = st.recursive(EXTENTS, lambda t: st.lists(t, min_size=1, max_size=2).map(tuple), max_leaves=3)


@st.composite
def layouts(draw, shape=None):
    """An injective layout of a tree, its leaves in any order and with gaps."""
    extents = draw(TREES) if shape is None else shape
    leaves = flatten(extents)
    strides, step = [0] * len(leaves), 1
    for k in draw(st.permutations(range(len(leaves)))):
        strides[k] = step
        step = step * leaves[k] + draw(st.integers(0, 2))
    return Layout(extents, unflatten(tuple(strides), extents))


def place(values, layout, offset, carrier, dtype=sw.Float32):
    """A tensor with these logical values on a carrier of the prototype's class, junk in the gaps."""
    concrete = layout.concrete
    slots = [7] * (offset + concrete.cosize())
    for i, value in enumerate(values):
        slots[offset + concrete(i)] = value
    return sw.Tensor(carrier.new_like(slots, mutable=True, dtype=dtype), offset, layout)


def reference(values, shape, dtype=torch.float32):
    """The values as a torch tensor whose dimensions are the leaves, first leaf first."""
    leaves = flatten(shape)
    order = list(range(len(leaves)))[::-1]
    return torch.tensor(values, dtype=dtype).reshape(leaves[::-1]).permute(order).clone()


def logical(tensor):
    """A torch tensor's values in the order of coordinates, first dimension fastest."""
    return tensor.permute(list(range(tensor.ndim))[::-1]).reshape(-1).tolist()
