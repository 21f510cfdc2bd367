"""Two tensors side by side in float64, with the positions set apart where a difference has no number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

# torch is imported where it is first needed: importing the runtime must not load it.

__all__ = [
    "Pair",
    "is_exact_dtype",
    "largest_integer_difference",
    "norm",
    "pair_of",
    "ulp_distance",
    "widened",
]


def is_exact_dtype(tensor: Any) -> bool:
    """True for integers and bool, which are compared exactly."""
    return not (tensor.is_floating_point() or tensor.is_complex())


@dataclass(frozen=True, slots=True)
class Pair:
    """Candidate and reference, finite where they are compared.

    Attributes:
        candidate, reference: float64, flat; 0 at positions that are settled without a number.
        nan_one: how many positions are NaN on one side.
        nan_both: how many are NaN on both.
        inf_equal: how many hold the same infinity.
        inf_differ: how many are infinite on one side, or differ in sign.
    """

    candidate: Any
    reference: Any
    nan_one: int
    nan_both: int
    inf_equal: int
    inf_differ: int

    @property
    def difference(self) -> Any:
        """|candidate - reference|, element by element."""
        return (self.candidate - self.reference).abs()

    def broken(self, equal_nan: bool) -> str | None:
        """Why no bound can be met: NaN, or infinities that differ; None where all is finite or settled."""
        parts = []
        if self.nan_one:
            parts.append(f"{self.nan_one} NaN on one side only")
        if self.nan_both and not equal_nan:
            parts.append(f"{self.nan_both} NaN on both sides")
        if self.inf_differ:
            parts.append(f"{self.inf_differ} infinities that differ")
        return ", ".join(parts) or None

    def settled(self) -> str | None:
        """What was left out of the measure, for a note; None where nothing was."""
        parts = []
        if self.inf_equal:
            parts.append(f"{self.inf_equal} equal infinities")
        if self.nan_both:
            parts.append(f"{self.nan_both} NaN on both sides")
        return f"measured without {' and '.join(parts)}" if parts else None


def pair_of(candidate: Any, reference: Any) -> Pair:
    """The float64 view of two tensors of one shape and dtype; both on the candidate's device."""
    import torch

    c, r = _wide(candidate), _wide(reference.to(candidate.device))
    nan_c, nan_r = c.isnan(), r.isnan()
    inf = c.isinf() | r.isinf()
    equal = inf & (c == r)
    differ = inf & ~equal & ~nan_c & ~nan_r
    aside = nan_c | nan_r | inf
    zero = torch.zeros((), dtype=torch.float64, device=c.device)
    return Pair(
        torch.where(aside, zero, c),
        torch.where(aside, zero, r),
        int((nan_c ^ nan_r).sum()),
        int((nan_c & nan_r).sum()),
        int(equal.sum()),
        int(differ.sum()),
    )


def widened(tensor: Any) -> Any:
    """``tensor`` flat, small floats as float32 (exact); other types as they are."""
    flat = tensor.detach().reshape(-1)
    return flat.float() if flat.is_floating_point() and flat.element_size() < 4 else flat


def _wide(tensor: Any) -> Any:
    import torch

    return widened(tensor).to(torch.float64)


def norm(values: Any) -> float:
    """The Euclidean norm, scaled so that it neither overflows nor loses small values."""
    if values.numel() == 0:
        return 0.0
    scale = float(values.abs().max())
    return scale * float((values / scale).square().sum().sqrt()) if scale else 0.0


def largest_integer_difference(candidate: Any, reference: Any) -> tuple[int, int, int]:
    """(largest |c - r|, how many differ, flat position of the largest) of two integer or bool tensors, exact."""
    import torch

    c, r = _ordered_int64(candidate), _ordered_int64(reference.to(candidate.device))
    # Wrapping subtraction of the smaller from the larger is the difference as an unsigned 64-bit number.
    wrapped = torch.where(c >= r, c - r, r - c)
    count = int((c != r).sum())
    # Flipping the top bit puts unsigned numbers into signed order.
    at = int((wrapped ^ torch.iinfo(torch.int64).min).argmax())
    return int(wrapped[at]) % 2**64, count, at


def _ordered_int64(tensor: Any) -> Any:
    import torch

    flat = tensor.detach().reshape(-1)
    if flat.dtype is torch.uint64:
        # Order and differences stay the same when the whole range moves down by 2**63.
        return flat.view(torch.int64) ^ torch.iinfo(torch.int64).min
    return flat.to(torch.int64)


def ulp_distance(candidate: Any, reference: Any, keep: Any) -> int:
    """The largest distance in representable values of the tensors' own type, over the positions in ``keep``."""
    c, r = _rank(candidate), _rank(reference.to(candidate.device))
    zero = c.new_zeros(())
    c, r = c.where(keep, zero), r.where(keep, zero)
    return largest_integer_difference(c, r)[0]


def _rank(tensor: Any) -> Any:
    """Integers in the order of the floats, consecutive for neighbours, both zeros 0."""
    import torch

    flat = tensor.detach().reshape(-1).contiguous()
    if flat.dtype is torch.float8_e8m0fnu:
        return flat.view(torch.uint8).to(torch.int64)
    bits = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[flat.element_size()]
    raw = flat.view(bits).to(torch.int64)
    lowest = torch.iinfo(bits).min
    return torch.where(raw >= 0, raw, lowest - raw)
