"""Reductions and row ops. Oracle: the evaluator, on full tensors."""

from __future__ import annotations

import pytest
import torch

from tilefoundry import func, jit
from tilefoundry.dsl import DimVar, Tensor, tf

from .harness import compare
from .op_cases import FLOATS, M, N, case

_KINDS = ("sum", "max", "min", "absmax")
_REDUCTIONS = [(kind, dtype) for kind in _KINDS for dtype in ("f32", "f64", "bf16", "i32", "i8")]
_REDUCTIONS += [("mean", dtype) for dtype in ("f32", "f64", "bf16")]  # integers have no mean


@pytest.mark.parametrize(("kind", "dtype"), _REDUCTIONS)
@pytest.mark.spec("ops.all")
def test_reductions_over_every_kind_of_axes(dtype, kind):
    axes = [(2,), (1,), (0,), (0, 1), (1, 2), (0, 2), (0, 1, 2)]
    cases = []
    for i, some in enumerate(axes):
        keep = i % 2 == 0
        cases.append(
            case(
                lambda p, x, a=some, k=keep: p("reduce", x, axes=a, keepdim=k, kind=kind),
                ((N, 3, M), (17, 3, 37)),
                dtypes=(dtype,),
            )
        )
    compare(cases, length=2000)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.spec("ops.all")
def test_row_ops(dtype):
    compare(
        [
            case(lambda p, x: p("softmax", x, axis=-1), ((N, M), (6, 33)), dtypes=(dtype,)),
            case(lambda p, x: p("softmax", x, axis=0), ((N, M), (6, 33)), dtypes=(dtype,)),
            case(lambda p, x: p("softmax", x, axis=1), ((N, 5, M), (6, 5, 33)), dtypes=(dtype,)),
            case(lambda p, x: p("softmax", x, axis=1), ((N, 1, M), (6, 1, 33)), dtypes=(dtype,)),
            case(
                lambda p, x, w: p("rms_norm", x, w, eps=1e-6),
                ((N, M), (7, 769)),
                ((M,), (769,)),
                dtypes=(dtype,),
            ),
            case(lambda p, x: p("rms_norm", x), ((N, 3, M), (7, 3, 31)), dtypes=(dtype,)),
            case(
                lambda p, x, w, b: p("layer_norm", x, w, b),
                ((N, M), (7, 45)),
                ((M,), (45,)),
                ((M,), (45,)),
                dtypes=(dtype,),
            ),
            case(lambda p, x: p("layer_norm", x, axis=1), ((N, 4, M), (7, 4, 9)), dtypes=(dtype,)),
        ],
        length=800,
    )


@pytest.mark.spec("ops.all")
def test_argmax_and_topk():
    def pair(p, x, **attrs):
        return tuple(p.items(p("topk", x, **attrs)))

    cases = [
        case(lambda p, x: p("argmax", x, axis=-1), ((N, M), (6, 33))),
        case(lambda p, x: p("argmax", x, axis=0), ((N, M), (6, 33)), dtypes=("bf16",)),
        case(lambda p, x: p("argmax", x, axis=1), ((N, M, 2), (6, 33, 2)), dtypes=("i8",)),
        case(lambda p, x: p("argmax", x, axis=-1), ((N, 4104), (3, 4104)), dtypes=("bf16",)),
        case(lambda p, x: p("argmax", x, axis=0), ((5003, M), (5003, 2))),
        case(lambda p, x: pair(p, x, k=5), ((N, 33), (6, 33))),
        case(lambda p, x: pair(p, x, k=4, axis=0, largest=False), ((33, M), (33, 6)), dtypes=("i8",)),
        case(lambda p, x: pair(p, x, k=33), ((N, 33), (6, 33)), dtypes=("f16",)),
    ]
    cases[0][1][0][1, 4] = float("nan")
    cases[4][1][0][4000, 1] = float("nan")
    cases[5][1][0][2, 7] = float("nan")
    compare(cases)


def test_row_ops_on_narrow_and_wide_rows():
    """Many rows in a block, with a tail; rows wider than a block holds, aligned and not."""
    narrow, wide, odd = (301, 128), (2, 20000), (2, 20001)
    compare(
        [
            case(lambda p, x: p("softmax", x), (narrow, narrow), dtypes=("bf16",)),
            case(lambda p, x, w: p("rms_norm", x, w), (narrow, narrow), ((128,), (128,)), dtypes=("bf16",)),
            *(case(lambda p, x: p("softmax", x), (shape, shape), dtypes=("bf16",)) for shape in (wide, odd)),
            case(lambda p, x: p("layer_norm", x, axis=1), (wide, wide), dtypes=("f32",)),
        ],
        length=20001,
    )


def test_row_ops_over_axes_of_extent_one():
    """A row of one element is its own sum and its own largest value."""
    one = (5, 1)
    compare(
        [
            *(case(lambda p, x, a=axis: p("softmax", x, axis=a), (one, one)) for axis in (0, 1)),
            case(lambda p, x: p("layer_norm", x, axis=1), (one, one)),
            case(lambda p, x, w: p("rms_norm", x, w), (one, one), ((1,), (1,))),
        ],
        length=5,
    )


ROWS, LENGTH = DimVar("ROWS", 0, 100), DimVar("LENGTH", 0, 5000)


@func
def row_sums(
    x: Tensor[(ROWS, LENGTH), "f32"], y: Tensor[(ROWS, LENGTH), "f64"]
) -> tuple[Tensor[(ROWS,), "f32"], Tensor[(ROWS,), "f64"]]:
    total = tf.reduce(x, axes=(1,), keepdim=False, kind="sum")
    return total, tf.reduce(y * y, axes=(1,), keepdim=False, kind="mean")


@pytest.mark.parametrize("length", [0, 1, 7, 31, 32, 63, 64, 65, 95, 96, 97, 127, 1000, 4099])
def test_sums_side_by_side_at_every_remainder(length):
    """Oracle: float64 sums; equal rows, at addresses of every alignment, give equal bits."""
    x = torch.randn(1, length).repeat(9, 1)
    wide = torch.randn(9, length, dtype=torch.float64)
    total, mean = jit(row_sums, target="cpu")(x, wide)
    torch.testing.assert_close(total.double(), x.double().sum(1), rtol=1e-5, atol=1e-4)
    torch.testing.assert_close(mean, (wide * wide).mean(1), rtol=1e-12, atol=1e-12, equal_nan=True)
    assert total.unique().numel() == 1
