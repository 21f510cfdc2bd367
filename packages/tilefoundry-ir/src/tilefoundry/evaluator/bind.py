"""Check arguments against declared types and bind DimVars, before anything runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilefoundry.evaluator.dtypes import dtype_of_tensor, torch_dtype
from tilefoundry.ir.core.expr import Var
from tilefoundry.ir.errors import EvaluationError
from tilefoundry.ir.types import Dim, DimVar, TensorType, evaluate_dim, substitute

__all__ = ["bind_arguments"]


def bind_arguments(owner: str, params: Sequence[Var], values: Sequence[Any]) -> dict[str, int]:
    """DimVar name -> value, after every argument was checked against its parameter.

    Args:
        owner: the function's name, for messages.
        params: the parameters, in order.
        values: one torch tensor per parameter.

    Raises:
        TypeError: a wrong number of arguments, or one that is no tensor.
        EvaluationError: a dtype, rank or extent that disagrees; two values for one DimVar; a value outside
            a DimVar's range.
    """
    if len(values) != len(params):
        names = ", ".join(p.name for p in params)
        raise TypeError(f"{owner} takes {len(params)} arguments ({names}), got {len(values)}")
    env: dict[str, int] = {}
    bound_by: dict[str, str] = {}
    for param, value in zip(params, values, strict=True):
        _check_kind(owner, param, value)
        _bind_vars(owner, param, value, env, bound_by)
    for param, value in zip(params, values, strict=True):
        _check_extents(owner, param, value, env)
    return env


def _declared(param: Var) -> TensorType:
    assert isinstance(param.type, TensorType)
    return param.type


def _check_kind(owner: str, param: Var, value: Any) -> None:
    import torch

    declared = _declared(param)
    if not isinstance(value, torch.Tensor):
        raise TypeError(
            f"{owner}: {param.name} must be a torch.Tensor of {declared}, got {type(value).__name__}"
        )
    if value.dim() != declared.rank:
        raise EvaluationError(
            f"{owner}: {param.name} has shape {tuple(value.shape)}, declared {declared}: ranks differ"
        )
    if value.dtype == torch_dtype(declared.dtype):
        return
    actual = dtype_of_tensor(value)
    if actual is not declared.dtype:
        raise EvaluationError(
            f"{owner}: {param.name} is {actual}, declared {declared}; convert it with .to()"
        )


def _bind_vars(owner: str, param: Var, value: Any, env: dict[str, int], bound_by: dict[str, str]) -> None:
    for dim, extent in zip(_declared(param).shape, value.shape, strict=True):
        if not isinstance(dim, DimVar):
            continue
        if not dim.lo <= extent < dim.hi:
            raise EvaluationError(
                f"{owner}: {param.name} gives {dim.name} = {extent}, outside its range [{dim.lo}, {dim.hi})"
            )
        if env.setdefault(dim.name, extent) != extent:
            raise EvaluationError(
                f"{owner}: {param.name} gives {dim.name} = {extent}, "
                f"but {bound_by[dim.name]} gave {env[dim.name]}"
            )
        bound_by.setdefault(dim.name, param.name)


def _check_extents(owner: str, param: Var, value: Any, env: dict[str, int]) -> None:
    for axis, (dim, extent) in enumerate(zip(_declared(param).shape, value.shape, strict=True)):
        solved = _solve(dim, extent, env)
        if solved != extent:
            raise EvaluationError(
                f"{owner}: {param.name} has shape {tuple(value.shape)}, declared {param.type}: "
                f"axis {axis} is {extent}, expected {solved if isinstance(solved, int) else dim}"
            )


def _solve(dim: Dim, extent: int, env: dict[str, int]) -> Dim:
    """``dim`` under ``env``; a variable that only an expression mentions is solved where it stands alone."""
    left = dim if isinstance(dim, int) else substitute(dim, env)
    if isinstance(left, int):
        return left
    if isinstance(left, DimVar):
        env[left.name] = extent
        return extent
    terms = dict(left.terms)
    constant = terms.pop((), 0)
    if len(terms) == 1:
        ((monomial, coefficient),) = terms.items()
        if len(monomial) == 1 and isinstance(monomial[0], DimVar) and (extent - constant) % coefficient == 0:
            var = monomial[0]
            value = (extent - constant) // coefficient
            if var.lo <= value < var.hi:
                env[var.name] = value
                return evaluate_dim(dim, env)
    return left
