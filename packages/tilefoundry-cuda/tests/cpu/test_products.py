"""Products, attention, convolution, quantisation. Oracle: the evaluator, on full tensors."""

from __future__ import annotations

import pytest
import torch

from .harness import compare
from .op_cases import FLOATS, M, N, case


@pytest.mark.parametrize("dtype", [*FLOATS, "i8", "i32", "i64"])
@pytest.mark.spec("ops.all")
def test_matmul(dtype):
    def transposed(p, x, y):
        return p("matmul", p("transpose", x, perm=(1, 0)), p("transpose", y, perm=(1, 0)))

    compare(
        [
            case(
                lambda p, x, y: p("matmul", x, y), ((N, 40), (33, 40)), ((40, M), (40, 65)), dtypes=(dtype,)
            ),
            case(
                lambda p, x, y: p("matmul", x, y), ((1, 40), (1, 40)), ((40, 300), (40, 300)), dtypes=(dtype,)
            ),
            case(
                lambda p, x, y: p("matmul", x, y), ((N, 3, 8), (5, 3, 8)), ((8, 6), (8, 6)), dtypes=(dtype,)
            ),
            case(
                lambda p, x, y: p("matmul", x, y),
                ((N, 1, 3, 8), (5, 1, 3, 8)),
                ((4, 8, M), (4, 8, 6)),
                dtypes=(dtype,),
            ),
            case(transposed, ((40, N), (40, 33)), ((M, 40), (65, 40)), dtypes=(dtype,)),
            case(lambda p, x, y: p("matmul", x, y), ((N, 0), (3, 0)), ((0, 4), (0, 4)), dtypes=(dtype,)),
        ]
    )


@pytest.mark.parametrize("dtype", [*FLOATS, "i32"])
def test_matmul_of_static_extents(dtype):
    """Few rows by weights of contiguous columns, in pieces and not; products of several tiles in every order."""

    def linear(p, x, w):
        return p("matmul", x, p("transpose", w, perm=(1, 0)))

    def scaled(p, x, w):
        return p("add", p("relu", linear(p, x, w)), p("matmul", x, p("transpose", w, perm=(1, 0))))

    few = [((1, 264), (70, 264)), ((5, 264), (33, 264)), ((8, 40), (6, 40)), ((2, 37), (9, 37))]
    large = [((200, 136), (264, 136)), ((130, 72), (300, 72))]
    same = [((shape, shape), (weights, weights)) for shape, weights in (*few, *large)]
    plain = [(((144, 72), (144, 72)), ((72, 264), (72, 264))), (((2, 144, 72),) * 2, ((2, 72, 136),) * 2)]
    compare(
        [
            *(case(linear, *shapes, dtypes=(dtype,)) for shapes in same),
            case(scaled, *same[1], dtypes=(dtype,)),
            *(case(lambda p, x, y: p("matmul", x, y), *shapes, dtypes=(dtype,)) for shapes in plain),
        ],
        length=900,
    )


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_matmul_with_epilogues(dtype):
    def chain(p, x, y, z):
        return p("gelu", p("add", p("matmul", x, y), z), approximate="tanh")

    def norm(p, x, y, z):
        return p("softmax", p("add", p("matmul", x, y), z))

    def both(p, x, y, z):
        product = p("matmul", x, y)
        return (
            product,
            p("relu", product),
            p("reduce", p("square", product), axes=(-1,), keepdim=False, kind="sum"),
        )

    shapes = (((N, 24), (70, 24)), ((24, M), (24, 50)), ((M,), (50,)))
    one_row = (((N, 24), (1, 24)), ((24, M), (24, 900)), ((M,), (900,)))
    batched = (((N, 3, 24), (5, 3, 24)), ((24, M), (24, 50)), ((N, 3, M), (5, 3, 50)))
    one_column = (((N, 24), (70, 24)), ((24, 1), (24, 1)), ((1,), (1,)))
    one_element = (((1, M), (1, 24)), ((M, 1), (24, 1)), ((1,), (1,)))
    compare(
        [
            case(b, *s, dtypes=(dtype,))
            for b in (chain, norm, both)
            for s in (shapes, one_row, batched, one_column, one_element)
        ],
        length=900,
    )


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.spec("ops.all")
def test_products_of_few_rows(dtype):
    """With weights along k, of so few columns that several warps share one, and of so many that each has its own."""

    def linear(p, x, w):
        return p("matmul", x, p("transpose", w, perm=(1, 0)))

    shapes = ((1, 5, 1032), (3, 100, 513), (2, 1000, 72), (1, 3200, 40), (8, 17, 264))
    cases = [
        case(linear, ((rows, k), (rows, k)), ((columns, k), (columns, k)), dtypes=(dtype,))
        for rows, columns, k in shapes
    ]
    compare(cases)


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f64"])
@pytest.mark.spec("ops.all")
def test_attention(dtype):
    def attend(p, q, k, v, **attrs):
        return p("attention", q, k, v, **attrs)

    shapes = (((N, 4, M, 8), (2, 4, 5, 8)), ((N, 2, 9, 8), (2, 2, 9, 8)), ((N, 2, 9, 6), (2, 2, 9, 6)))
    square = (((N, 2, M, 8), (2, 2, 9, 8)),) * 3
    attrs = [{}, {"causal": True}, {"causal": True, "window": 3}, {"softcap": 2.0, "scale": 0.5}]
    cases = [
        case(
            lambda p, q, k, v, a=a: attend(p, q, k, v, **a), *(square if i == 1 else shapes), dtypes=(dtype,)
        )
        for i, a in enumerate(attrs)
    ]
    with_length = case(
        lambda p, q, k, v, n: p("attention", q, k, v, n, causal=True),
        *shapes,
        ((N,), (2,)),
        dtypes=(dtype, dtype, dtype, "i32"),
    )
    with_length[1][3] = torch.tensor([7, 0], dtype=torch.int32)
    compare([*cases, with_length])


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.spec("ops.all")
def test_attention_over_many_keys(dtype):
    def shapes(heads, shared, queries, keys, dim, width):
        return [
            (shape, shape)
            for shape in ((1, heads, queries, dim), (1, shared, keys, dim), (1, shared, keys, width))
        ]

    cases = []
    for given, attrs, length in (
        (shapes(4, 2, 1, 700, 128, 128), {"causal": True}, 389),
        (shapes(2, 2, 3, 260, 80, 33), {"causal": True, "window": 70, "softcap": 3.0}, 260),
        (shapes(6, 1, 5, 131, 192, 128), {"causal": True}, 3),
        (shapes(3, 3, 2, 65, 7, 300), {}, 64),
        (shapes(2, 2, 3, 0, 8, 8), {"causal": True}, 0),
    ):
        one = case(
            lambda p, q, k, v, n, a=attrs: p("attention", q, k, v, n, **a),
            *given,
            ((), ()),
            dtypes=(dtype, dtype, dtype, "i32"),
        )
        one[1][3] = torch.tensor(length, dtype=torch.int32)
        cases.append(one)
    compare(cases)


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.spec("ops.all")
def test_rope_grouped_matmul_and_convolution(dtype):
    def rope(p, q, k, c, s, i):
        return tuple(p.items(p("rope", q, k, c, s, i)))

    rotary = case(
        rope,
        ((N, M, 4, 8), (2, 5, 4, 8)),
        ((N, M, 2, 8), (2, 5, 2, 8)),
        ((30, 8), (30, 8)),
        ((30, 8), (30, 8)),
        ((M,), (5,)),
        dtypes=(dtype, dtype, "f32", "f32", "i64"),
    )
    rotary[1][4] = torch.tensor([3, 29, 0, 7, 7])
    grouped = case(
        lambda p, x, w, o: p("grouped_matmul", x, w, o),
        ((N, 8), (20, 8)),
        ((3, 8, 5), (3, 8, 5)),
        ((4,), (4,)),
        dtypes=(dtype, dtype, "i32"),
    )
    grouped[1][2] = torch.tensor([0, 7, 7, 18], dtype=torch.int32)
    conv = [
        case(
            lambda p, x, w, b: p("conv2d", x, w, b, stride=2, padding=1),
            ((N, 4, 9, 8), (2, 4, 9, 8)),
            ((6, 4, 3, 3), (6, 4, 3, 3)),
            ((6,), (6,)),
            dtypes=(dtype,),
        ),
        case(
            lambda p, x, w: p("conv2d", x, w, groups=2, dilation=(2, 1)),
            ((N, 4, 9, 8), (2, 4, 9, 8)),
            ((6, 2, 3, 3), (6, 2, 3, 3)),
            dtypes=(dtype,),
        ),
    ]
    compare([rotary, grouped, *conv])


@pytest.mark.parametrize("target", ["fp8e4m3", "fp8e5m2", "i8"])
@pytest.mark.spec("ops.all")
def test_quant(target):
    def quant(p, x):
        return tuple(p.items(p("quant", x, group=16, target_dtype=target)))

    compare([case(quant, ((N, 64), (5, 64)), dtypes=(d,)) for d in ("f32", "bf16")])
