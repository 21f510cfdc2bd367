"""add, sub, mul, div and elementwise_mul: arithmetic that broadcasts leaves of extent 1."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ..dtypes import Bool, Scalar
from ..tensor import Tensor
from . import rules
from .checked import checked
from .dispatch import apply
from .operation import Attributes, Operand, Operation, Result, Values, define
from .unbroadcast import sum_to

if TYPE_CHECKING:
    import torch


def _torch(name: str, function: Callable) -> Callable:
    def kernel(views: Sequence[torch.Tensor | Scalar], _: Attributes, result: Result) -> torch.Tensor:
        import torch

        if result.dtype.is_float:
            kind = result.dtype.torch()
            floats = [
                v.to(kind) if isinstance(v, torch.Tensor) and not v.is_floating_point() else v for v in views
            ]
            return function(*floats)
        wide = [v.to(torch.int64) if isinstance(v, torch.Tensor) else v for v in views]
        if result.dtype.itemsize == 8:
            doubles = [v.to(torch.float64) if isinstance(v, torch.Tensor) else float(v) for v in wide]
            if bool((function(*doubles).abs() >= 2.0**63).any()):
                raise OverflowError(f"{name}: a result is outside the range of {result.dtype}")
        return checked(name, function(*wide), result.dtype)

    return kernel


def pairs(operands: Sequence[Values | Scalar], result: Result) -> Iterator[tuple[Scalar, ...]]:
    """For each coordinate of the result the operands' values there."""
    columns = [_spread(o, result.leaves) if isinstance(o, Values) else None for o in operands]
    total = 1
    for extent in result.leaves:
        total *= extent
    for i in range(total):
        yield tuple(c[i] if c is not None else o for c, o in zip(columns, operands, strict=True))  # type: ignore[misc]


def _spread(values: Values, leaves: tuple[int, ...]) -> list[Scalar]:
    out, step = values.items, 1
    for have, want in zip(values.leaves, leaves, strict=True):
        if have == 1 and want > 1:
            out = [v for k in range(0, len(out), step) for _ in range(want) for v in out[k : k + step]]
        step *= want
    return out


def _python(function: Callable[[Scalar, Scalar], Scalar]) -> Callable:
    def kernel(operands: Sequence[Values | Scalar], _: Attributes, result: Result) -> list[Scalar]:
        return [function(a, b) for a, b in pairs(operands, result)]

    return kernel


def _like(operand: Operand, gradient: Tensor | None) -> Tensor | None:
    return None if gradient is None else sum_to(gradient, operand.shape.extents)


def _tensors_only(
    operands: Sequence[Operand], gradients: Sequence[Callable[[], Tensor]]
) -> list[Tensor | None]:
    return [_like(o, g()) for o, g in zip(operands, gradients, strict=True) if isinstance(o, Tensor)]


def vjp_add(operands: Sequence[Operand], _: Attributes, result: Tensor, gradient: Tensor):
    """(g, g)"""
    return _tensors_only(operands, (lambda: gradient, lambda: gradient))


def vjp_sub(operands: Sequence[Operand], _: Attributes, result: Tensor, gradient: Tensor):
    """(g, -g)"""
    return _tensors_only(operands, (lambda: gradient, lambda: mul(gradient, -1)))


def vjp_mul(operands: Sequence[Operand], _: Attributes, result: Tensor, gradient: Tensor):
    """(g b, g a)"""
    a, b = operands
    return _tensors_only(operands, (lambda: mul(gradient, b), lambda: mul(gradient, a)))


def vjp_div(operands: Sequence[Operand], _: Attributes, result: Tensor, gradient: Tensor):
    """(g / b, -g (a / b) / b)"""
    _, b = operands
    return _tensors_only(operands, (lambda: div(gradient, b), lambda: mul(div(mul(gradient, result), b), -1)))


def infer_div(operands: Sequence[Operand], attributes: Attributes) -> Result:
    """As other arithmetic, but integers are refused."""
    result = rules.elementwise("div")(operands, attributes)
    if not result.dtype.is_float:
        raise TypeError("div: integers divide to floats; cast one operand to Float32 first")
    return result


def py_div(a: float, b: float) -> float:
    """a / b as IEEE has it: a division by zero gives an infinity or NaN."""
    if b != 0:
        return a / b
    return math.nan if a == 0 or math.isnan(a) else math.copysign(math.inf, a) * math.copysign(1.0, b)


ADD = define(
    Operation("add", rules.elementwise("add"), _torch("add", lambda a, b: a + b), _python(lambda a, b: a + b),
              vjp_add, scalars=True)
)  # fmt: skip
SUB = define(
    Operation("sub", rules.elementwise("sub"), _torch("sub", lambda a, b: a - b), _python(lambda a, b: a - b),
              vjp_sub, scalars=True)
)  # fmt: skip
MUL = define(
    Operation("mul", rules.elementwise("mul"), _torch("mul", lambda a, b: a * b), _python(lambda a, b: a * b),
              vjp_mul, (0, 1), scalars=True)
)  # fmt: skip
ELEMENTWISE_MUL = define(
    Operation("elementwise_mul", rules.elementwise("elementwise_mul"), _torch("elementwise_mul", lambda a, b: a * b),
              _python(lambda a, b: a * b), vjp_mul, (0, 1))
)  # fmt: skip
DIV = define(
    Operation("div", infer_div, _torch("div", lambda a, b: a / b), _python(py_div), vjp_div, (0, 1, "result"),
              scalars=True)
)  # fmt: skip


def add(a: Operand, b: Operand) -> Tensor:
    """``a + b``. Trees of the same form, each leaf equal or 1; integers are checked for overflow."""
    return apply(ADD, (a, b), {})


def sub(a: Operand, b: Operand) -> Tensor:
    """``a - b``; rules as for ``add``."""
    return apply(SUB, (a, b), {})


def mul(a: Operand, b: Operand) -> Tensor:
    """``a * b`` elementwise; one of them may be a Python number."""
    return apply(MUL, (a, b), {})


def elementwise_mul(a: Tensor, b: Tensor) -> Tensor:
    """``a * b`` of two Tensors."""
    return apply(ELEMENTWISE_MUL, (a, b), {})


def div(a: Operand, b: Operand) -> Tensor:
    """``a / b`` of floats."""
    return apply(DIV, (a, b), {})


def infer_where(operands: Sequence[Operand], _: Attributes) -> Result:
    """A Bool condition and two branches of one type, broadcast together."""
    condition, a, b = operands
    if not isinstance(condition, Tensor) or condition.dtype() is not Bool:
        raise TypeError(f"where: the condition must be a Bool Tensor, got {condition!r}")
    branches = [o for o in (a, b) if isinstance(o, Tensor)]
    if not branches:
        raise TypeError("where: at least one branch must be a Tensor")
    same = len(branches) == 2 and branches[0].dtype() is branches[1].dtype()
    dtype = (
        branches[0].dtype()
        if same
        else rules.promoted("where", [a, b] if len(branches) == 2 else [*branches, 0])
    )
    return Result(
        rules.broadcast("where", [o.shape.extents for o in operands if isinstance(o, Tensor)]), dtype
    )


def vjp_where(operands: Sequence[Operand], _: Attributes, result: Tensor, gradient: Tensor):
    """(None, g where c, g where not c)"""
    condition, a, b = operands
    parts: list[Tensor | None] = [None]
    if isinstance(a, Tensor):
        parts.append(_like(a, where(condition, gradient, 0)))
    if isinstance(b, Tensor):
        parts.append(_like(b, where(condition, 0, gradient)))
    return parts


def torch_where(views: Sequence[Any], _: Attributes, result: Result) -> torch.Tensor:
    """Elementwise choice."""
    import torch

    kind = result.dtype.torch()
    a, b = (v.to(kind) if isinstance(v, torch.Tensor) else torch.tensor(v, dtype=kind) for v in views[1:])
    return torch.where(views[0], a.to(views[0].device), b.to(views[0].device))


WHERE = define(
    Operation("where", infer_where, torch_where,
              lambda o, _, result: [a if c else b for c, a, b in pairs(o, result)], vjp_where, (0,), scalars=True)
)  # fmt: skip


def where(condition: Operand, a: Operand, b: Operand) -> Tensor:
    """``a`` where ``condition`` (Bool) holds, else ``b``."""
    return apply(WHERE, (condition, a, b), {})
