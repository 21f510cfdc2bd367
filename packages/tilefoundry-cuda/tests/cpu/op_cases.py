"""How the op tests state a case, and the extents and dtypes that they share."""

from __future__ import annotations

from tilefoundry.ir.types import DimVar

from .harness import Program, random_tensor

__all__ = ["FLOATS", "M", "N", "case"]

N = DimVar("N", 0, 5000)
M = DimVar("M", 1, 5000)
FLOATS = ("f32", "f64", "f16", "bf16")


def case(build, *shapes, dtypes=("f32",), seed=0):
    """(function, tensors): ``build(program, *params)`` gives the results; shapes are (declared, concrete)."""
    program = Program()
    params, tensors = [], []
    for i, (declared, concrete) in enumerate(shapes):
        dtype = dtypes[i % len(dtypes)]
        params.append(program.param("xyzuvw"[i], declared, dtype))
        tensors.append(random_tensor(concrete, dtype, seed + i))
    results = build(program, *params)
    return program.done(*(results if isinstance(results, tuple) else (results,))), tensors
