"""Bit codecs of the small binary float formats, in plain Python.

A value is rounded to nearest, ties to even. Overflow gives infinity, or NaN in the format without one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FloatFormat:
    """Sign, ``exponent_bits``, ``mantissa_bits``; ``finite`` formats use all exponents and have no infinity."""

    exponent_bits: int
    mantissa_bits: int
    finite: bool = False

    @property
    def bias(self) -> int:
        """The exponent's offset."""
        return (1 << (self.exponent_bits - 1)) - 1

    @property
    def sign_bit(self) -> int:
        """The mask of the sign."""
        return 1 << (self.exponent_bits + self.mantissa_bits)

    @property
    def infinity_bits(self) -> int:
        """Infinity, or for a finite format its NaN: what an overflow becomes."""
        if self.finite:
            return self.sign_bit - 1
        return ((1 << self.exponent_bits) - 1) << self.mantissa_bits

    @property
    def nan_bits(self) -> int:
        """A quiet NaN."""
        return self.infinity_bits if self.finite else self.infinity_bits | 1 << (self.mantissa_bits - 1)

    def encode(self, value: float) -> int:
        """The bits of ``value`` rounded to this format."""
        sign = self.sign_bit if math.copysign(1.0, value) < 0 else 0
        if math.isnan(value):
            return sign | self.nan_bits
        if math.isinf(value):
            return sign | self.infinity_bits
        return sign | min(self._magnitude(abs(value)), self.infinity_bits)

    def _magnitude(self, value: float) -> int:
        if value == 0:
            return 0
        exponent = max(math.frexp(value)[1] - 1, 1 - self.bias)
        # round() of a float rounds ties to even, and scaling by a power of two is exact here.
        mantissa = round(math.ldexp(value, self.mantissa_bits - exponent))
        # A mantissa that rounded up to the next power carries into the exponent field by itself.
        return ((exponent + self.bias - 1) << self.mantissa_bits) + mantissa

    def decode(self, bits: int) -> float:
        """The value of ``bits``."""
        sign = -1.0 if bits & self.sign_bit else 1.0
        magnitude = bits & (self.sign_bit - 1)
        if magnitude > self.infinity_bits or (self.finite and magnitude == self.infinity_bits):
            return math.copysign(math.nan, sign)
        if magnitude == self.infinity_bits:
            return sign * math.inf
        exponent, mantissa = magnitude >> self.mantissa_bits, magnitude & ((1 << self.mantissa_bits) - 1)
        if exponent:
            mantissa += 1 << self.mantissa_bits
        return sign * math.ldexp(mantissa, max(exponent, 1) - self.bias - self.mantissa_bits)


FLOAT16 = FloatFormat(5, 10)
BFLOAT16 = FloatFormat(8, 7)
FLOAT8_E4M3 = FloatFormat(4, 3, finite=True)
FLOAT8_E5M2 = FloatFormat(5, 2)
