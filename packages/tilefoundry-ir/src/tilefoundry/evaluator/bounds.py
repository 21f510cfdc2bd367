"""How far a result may lie from the exact value: the one table that every numerical test uses.

A value is computed in a wide type and rounded once to its dtype. With ``u`` the unit roundoff of the dtype,
``w`` that of the wide type, ``n`` the number of terms that are added up, and ``M`` the sum of their
magnitudes (what the terms would add up to without cancellation):

* rounding the result costs at most ``u * |exact|``, or half the least subnormal;
* adding ``n`` terms in any order costs at most ``(n - 1) * w * M``, and each term, a product or a function
  value, brings its own ``w``: ``n * w * M`` in total;
* every further wide operation on the sum (a division, a root, an exponential) costs a few ``w``; library
  functions are good to 2 units, so ``steps`` of them cost ``2 * steps * w * |exact|``.

Hence ``|actual - exact| <= relative * |exact| + absolute * M + least``. Accumulating in the wide type with
another order, wider intermediates or fused multiply-adds stays inside; rounding intermediates does not.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilefoundry.ir.types import DType

__all__ = ["MODEL_REL_L2", "Bound", "error_bound", "unit_roundoff"]

# dtype -> (stored fraction bits, exponent of the least normal number)
_FORMATS = {
    DType.f64: (52, -1022),
    DType.f32: (23, -126),
    DType.f16: (10, -14),
    DType.bf16: (7, -126),
    DType.fp8e4m3: (3, -6),
    DType.fp8e5m2: (2, -14),
    DType.f8e8m0: (0, -127),
    DType.f4e2m1: (1, 0),
}

MODEL_REL_L2 = {DType.f64: 1e-12, DType.f32: 1e-5, DType.f16: 5e-3, DType.bf16: 2e-2}
"""Relative L2 distance of a whole model's output from the published implementation, by dtype of its weights."""


@dataclass(frozen=True, slots=True)
class Bound:
    """``|actual - exact| <= relative * |exact| + absolute * M + least``, with M as the module says."""

    relative: float
    absolute: float
    least: float

    def limit(self, exact: float, magnitude: float = 0.0) -> float:
        """The largest error allowed for one element; also takes arrays."""
        return self.relative * abs(exact) + self.absolute * abs(magnitude) + self.least


def unit_roundoff(dtype: DType) -> float:
    """Largest relative error of rounding to nearest; ValueError for a type that is no float."""
    if dtype not in _FORMATS:
        raise ValueError(f"{dtype} is exact: compare integers and bools for equality")
    return 2.0 ** -(_FORMATS[dtype][0] + 1)


def error_bound(dtype: DType, length: int = 1, steps: int = 1) -> Bound:
    """The bound of a result in ``dtype`` that adds up ``length`` terms and takes ``steps`` further functions."""
    own = unit_roundoff(dtype)
    wide = DType.f64 if dtype is DType.f64 else DType.f32
    relative = own + 2 * steps * unit_roundoff(wide)
    return Bound(relative, max(length, 1) * unit_roundoff(wide), 0.5 * _least(dtype) + _least(wide))


def _least(dtype: DType) -> float:
    """The smallest positive number of ``dtype``."""
    fraction, exponent = _FORMATS[dtype]
    return 2.0 ** (exponent - fraction)
