"""Atoms of matrix multiply-accumulate: what one warp's instruction takes and gives."""

from __future__ import annotations

from dataclasses import dataclass

from tilefoundry.ir.types import DType

__all__ = ["MMA_ATOMS", "MmaAtom", "atom_named"]


@dataclass(frozen=True, slots=True)
class MmaAtom:
    """``acc[m, n] += a[m, k] @ b[k, n]`` by one warp.

    Attributes:
        name: its spelling in ``T.mma(..., atom=)``.
        m, n, k: extents.
        inputs: dtypes that ``a`` and ``b`` may have, both the same.
        sums: dtype of the accumulator.
        since: the first architecture that has it for each input, as ``sm_`` numbers.
    """

    name: str
    m: int
    n: int
    k: int
    inputs: tuple[DType, ...]
    sums: DType
    since: tuple[int, ...]


MMA_ATOMS: dict[str, MmaAtom] = {
    atom.name: atom
    for atom in (
        MmaAtom("m16n8k16", 16, 8, 16, (DType.f16, DType.bf16), DType.f32, (80, 80)),
        MmaAtom("m16n8k32", 16, 8, 32, (DType.fp8e4m3, DType.fp8e5m2), DType.f32, (89, 89)),
        MmaAtom("m16n8k32_i32", 16, 8, 32, (DType.i8, DType.u8), DType.i32, (80, 80)),
        MmaAtom("m8n8k4", 8, 8, 4, (DType.f64,), DType.f64, (80,)),
    )
}
"""Every atom by name; each is one instruction of the C++ runtime's ``ops::atom``."""


def atom_named(name: object) -> MmaAtom:
    """The atom called ``name``; ValueError listing the names there are."""
    if isinstance(name, MmaAtom):
        return name
    found = MMA_ATOMS.get(name) if isinstance(name, str) else None
    if found is None:
        raise ValueError(f"unknown mma atom {name!r}; the atoms are {', '.join(MMA_ATOMS)}")
    return found
