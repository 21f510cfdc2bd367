# the DSL reads dtype names as source
"""A Module with a ``@prim_func``, which is no entry of its own."""

from tilefoundry import module, prim_func
from tilefoundry.dsl import Tensor


@module(entry="clear")
class Cleared:
    @prim_func
    def clear(x: Tensor[(4,), "f32"], y: Tensor[(4,), "f32"]):
        for i in range(4):
            y[i] = x[i]
