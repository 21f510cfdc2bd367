"""Atoms of matrix multiply-accumulate. Oracle: the instructions' published shapes and types."""

from __future__ import annotations

import pytest

from tilefoundry.dsl import T, Tensor, prim_func
from tilefoundry.ir.errors import DslError
from tilefoundry.ir.tir import MMA_ATOMS, Evaluate, walk_tir
from tilefoundry.ir.types import DType


@pytest.mark.spec("tir.mma")
def test_every_atom_fills_the_registers_of_a_warp():
    for atom in MMA_ATOMS.values():
        assert atom.m * atom.n % 32 == 0 and len(atom.since) == len(atom.inputs)
        for dtype in atom.inputs:
            assert (
                atom.m * atom.k * dtype.bits % (32 * 8) == 0 and atom.k * atom.n * dtype.bits % (32 * 8) == 0
            )
        assert atom.sums in (DType.f32, DType.i32, DType.f64)
    assert (MMA_ATOMS["m16n8k16"].m, MMA_ATOMS["m16n8k16"].n, MMA_ATOMS["m16n8k16"].k) == (16, 8, 16)


@pytest.mark.spec("tir.mma")
def test_an_atom_is_written_by_name():
    @prim_func
    def f(a: Tensor[(32, 16), "bf16"], b: Tensor[(16, 8), "bf16"], acc: Tensor[(32, 8), "f32"]):
        T.mma(acc, a, b, atom="m16n8k16")

    (mma,) = (s for s in walk_tir(f.body) if isinstance(s, Evaluate))
    assert dict(mma.attrs) == {"atom": "m16n8k16"} and mma.args[-1].buffer.name == "acc"


@pytest.mark.spec("tir.mma")
def test_other_names_types_and_extents_are_refused():
    with pytest.raises(DslError, match=r"unknown mma atom 'm1'; the atoms are m16n8k16, m16n8k32"):

        @prim_func
        def f(a: Tensor[(16, 16), "bf16"], b: Tensor[(16, 8), "bf16"], acc: Tensor[(16, 8), "f32"]):
            T.mma(acc, a, b, atom="m1")

    with pytest.raises(
        DslError, match=r"T\.mma: a is f32\[16, 16\], the atom m16n8k16 takes f16 or bf16 in tiles"
    ):

        @prim_func
        def g(a: Tensor[(16, 16), "f32"], b: Tensor[(16, 8), "f32"], acc: Tensor[(16, 8), "f32"]):
            T.mma(acc, a, b, atom="m16n8k16")

    with pytest.raises(DslError, match=r"T\.mma: b is bf16\[8, 16\], the atom .* in tiles of \[16, 8\]"):

        @prim_func
        def h(a: Tensor[(16, 16), "bf16"], b: Tensor[(8, 16), "bf16"], acc: Tensor[(16, 8), "f32"]):
            T.mma(acc, a, b, atom="m16n8k16")
