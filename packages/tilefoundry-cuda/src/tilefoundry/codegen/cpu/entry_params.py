"""What a caller of an entry passes: inputs whose shapes tell every extent, and memory for the results."""

from __future__ import annotations

from tilefoundry.ir.core.expr import Var
from tilefoundry.ir.core.module import Module
from tilefoundry.ir.errors import LoweringError
from tilefoundry.ir.hir.function import Function
from tilefoundry.ir.passes import Names, is_solvable
from tilefoundry.ir.types import TensorType, TupleType

__all__ = ["check_extents", "output_params"]


def output_params(entry: Function) -> tuple[Var, ...]:
    """A parameter per result, named apart from the inputs."""
    types = entry.result.elements if isinstance(entry.result, TupleType) else (entry.result,)
    taken = Names([*(p.name for p in entry.params), *(v.name for v in entry.dim_vars())])
    single = len(types) == 1
    return tuple(
        Var(type_, taken.fresh("output" if single else f"output{i}")) for i, type_ in enumerate(types)
    )


def check_extents(module: Module, entry: Function) -> None:
    """Every extent must follow from a parameter's shape.

    Raises:
        LoweringError: one does not.
    """
    shapes = [dim for p in entry.params if isinstance(p.type, TensorType) for dim in p.type.shape]
    for var in entry.dim_vars():
        if not any(is_solvable(dim, var) for dim in shapes):
            raise LoweringError(
                f"{module.name}.{entry.name}: no parameter's shape tells {var.name}: it stands nowhere by itself or "
                "in a sum with integers; add a parameter with that extent"
            )
