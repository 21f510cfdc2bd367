"""Every HIR op on the CPU target. Oracle: the evaluator, on full tensors."""

from __future__ import annotations

import pytest
import torch

from tilefoundry.ir.types import DimVar, TensorType

from .harness import Program, compare, constant, random_tensor

N = DimVar("N", 0, 5000)
M = DimVar("M", 1, 5000)
LONG = DimVar("LONG", 2, 5000)
FLOATS = ("f32", "f64", "f16", "bf16")
INTEGERS = ("i8", "u8", "i16", "i32", "i64")


def case(build, *shapes, dtypes=("f32",), seed=0):
    """(function, tensors): ``build(program, *params)`` gives the results; shapes are (declared, concrete)."""
    program = Program()
    params, tensors = [], []
    for i, (declared, concrete) in enumerate(shapes):
        dtype = dtypes[i % len(dtypes)]
        params.append(program.param("xyzuvw"[i], declared, dtype))
        tensors.append(random_tensor(concrete, dtype, seed + i))
    results = build(program, *params)
    return program.done(*(results if isinstance(results, tuple) else (results,))), tensors


WORDS = """
neg abs rsqrt sqrt exp exp2 log log2 square ceil floor round sin cos
erf relu sigmoid silu tanh softplus gelu
"""
UNARY = WORDS.split()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.spec("ops.all")
def test_unary_ops(dtype):
    compare([case(lambda p, x, op=op: p(op, x), ((N, 7), (33, 7)), dtypes=(dtype,)) for op in UNARY])


@pytest.mark.spec("ops.all")
def test_unary_ops_on_special_values():
    special = torch.tensor(
        [0.0, -0.0, 1.0, -1.0, float("inf"), float("-inf"), float("nan"), 1e-40, 88.9, -104.0, 3e38, 1e-3]
    )
    cases = []
    for op in UNARY:
        program = Program()
        x = program.param("x", (12,))
        cases.append((program.done(program(op, x)), [special]))
    compare(cases)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.spec("ops.all")
def test_binary_ops_broadcast(dtype):
    ops = [
        "add",
        "sub",
        "mul",
        "div",
        "floor_div",
        "mod",
        "minimum",
        "maximum",
        "cmp_eq",
        "cmp_ne",
        "cmp_lt",
        "cmp_le",
        "cmp_gt",
        "cmp_ge",
    ]
    compare(
        [
            case(
                lambda p, x, y, op=op: p(op, x, y), ((N, 1, 5), (4, 1, 5)), ((3, 1), (3, 1)), dtypes=(dtype,)
            )
            for op in ops
        ]
    )


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.spec("ops.all")
def test_integer_ops(dtype):
    binary = ["add", "sub", "mul", "floor_div", "mod", "minimum", "maximum", "cmp_eq", "cmp_lt", "cmp_ge"]
    cases = []
    for op in binary:
        function, tensors = case(
            lambda p, x, y, op=op: p(op, x, y), ((N,), (200,)), ((N,), (200,)), dtypes=(dtype,)
        )
        tensors[1][tensors[1] == 0] = 3
        cases.append((function, tensors))
    cases += [
        case(lambda p, x, op=op: p(op, x), ((N,), (200,)), dtypes=(dtype,))
        for op in ("neg", "abs", "square", "relu")
    ]
    cases.append(case(lambda p, x: p("clamp", x, min_val=-2, max_val=5), ((N,), (200,)), dtypes=(dtype,)))
    cases.append(case(lambda p, x: p("clamp", x, min_val=-1000), ((N,), (200,)), dtypes=(dtype,)))
    compare(cases)


@pytest.mark.spec("ops.all")
def test_logic_and_select():
    compare(
        [
            case(lambda p, x, y: p("logical_and", x, y), ((N,), (50,)), ((N,), (50,)), dtypes=("bool",)),
            case(lambda p, x, y: p("logical_or", x, y), ((N,), (50,)), ((N,), (50,)), dtypes=("bool",)),
            case(lambda p, x: p("logical_not", x), ((N,), (50,)), dtypes=("bool",)),
            case(
                lambda p, c, x, y: p("where", c, x, y),
                ((N, 1), (9, 1)),
                ((4,), (4,)),
                ((N, 4), (9, 4)),
                dtypes=("bool", "f32", "f32"),
            ),
            case(lambda p, x: p("clamp", x, min_val=-0.5, max_val=0.5), ((N,), (50,))),
            case(lambda p, x: p("clamp", x, max_val=0.25), ((N,), (50,)), dtypes=("bf16",)),
        ]
    )


@pytest.mark.parametrize(
    "source", ["f32", "f64", "f16", "bf16", "fp8e4m3", "fp8e5m2", "i8", "u8", "i32", "i64", "bool"]
)
@pytest.mark.spec("ops.all")
def test_casts(source):
    targets = ("f32", "f64", "f16", "bf16", "fp8e4m3", "fp8e5m2", "i8", "u8", "i16", "i32", "i64", "bool")
    cases = [
        case(lambda p, x, t=t: p("cast", x, dtype=t), ((N,), (300,)), dtypes=(source,), seed=3)
        for t in targets
    ]
    for _, tensors in cases:
        if tensors[0].dtype == torch.float32:
            tensors[0][:6] = torch.tensor([float("nan"), float("inf"), float("-inf"), 3e9, -3e9, 300.5])
    compare(cases)


@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16", "i32", "i8"])
@pytest.mark.parametrize("kind", ["sum", "max", "min", "absmax", "mean"])
@pytest.mark.spec("ops.all")
def test_reductions_over_every_kind_of_axes(dtype, kind):
    if kind == "mean" and dtype.startswith("i"):
        pytest.skip("integers have no mean")
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
    compare(
        [case(b, *s, dtypes=(dtype,)) for b in (chain, norm, both) for s in (shapes, one_row, batched)],
        length=900,
    )


@pytest.mark.spec("ops.all")
def test_views_and_copies():
    def heads(p, x):
        split = p("reshape", x, new_shape=(N, M, 3, 4))
        return p("exp", p("transpose", split, perm=(0, 2, 1, 3)))

    def merged(p, x):
        return p("reshape", p("transpose", x, perm=(0, 2, 1)), new_shape=(N, 12 * M))

    compare(
        [
            case(heads, ((N, M, 12), (3, 5, 12))),
            case(merged, ((N, M, 12), (3, 5, 12))),
            case(lambda p, x: p("transpose", x, perm=(1, 0)), ((N, M), (40, 30)), dtypes=("i16",)),
            case(lambda p, x: p("reshape", x, new_shape=(M, N)), ((N, M), (4, 6))),
            case(
                lambda p, x: p("slice", x, starts=(1, 0), sizes=(3, 2), strides=(2, 3)),
                ((9, 6), (9, 6)),
                dtypes=("bf16",),
            ),
            case(lambda p, x: p("neg", p("slice", x, starts=(2, 0), sizes=(N, M))), ((N + 4, M), (9, 6))),
            case(lambda p, x: tuple(p.items(p("split", x, axis=1, num_splits=3))), ((N, 12), (5, 12))),
            case(lambda p, x: x, ((N, M), (4, 6))),
            case(lambda p, x: (p("exp", x), p("exp", x)), ((N, M), (4, 6))),
            case(lambda p, x, y: p("concat", x, y, x, axis=1), ((N, M), (4, 6)), ((N, 3), (4, 3))),
            case(
                lambda p, x, y: p("stack", x, y, axis=1),
                ((N, M), (4, 6)),
                ((N, M), (4, 6)),
                dtypes=("fp8e4m3",),
            ),
            case(lambda p, x: p("repeat_interleave", x, repeats=3, axis=0), ((N, M), (4, 6))),
            case(
                lambda p, x: p("add", p("repeat_interleave", x, repeats=2, axis=1), constant("f32", 1.0)),
                ((N, M), (4, 6)),
            ),
        ]
    )


def with_index(build, shape, rows, count, dtype="f32", index_dtype="i64", seed=0):
    function, tensors = case(build, *shape, dtypes=(dtype, index_dtype, dtype), seed=seed)
    tensors[1] = torch.randint(0, rows, (count,) if isinstance(count, int) else count).to(tensors[1].dtype)
    return function, tensors


@pytest.mark.parametrize("dtype", ["f32", "bf16", "i8"])
@pytest.mark.spec("ops.all")
def test_indexing(dtype):
    def select(dim):
        return lambda p, x, i: p("index_select", x, i, dim=dim)

    compare(
        [
            with_index(select(0), (((20, M), (20, 6)), ((N,), (15,))), 20, 15, dtype),
            with_index(select(1), (((N, 20, 3), (4, 20, 3)), ((M,), (7,))), 20, 7, dtype, "i32"),
            with_index(select(1), (((N, 20), (4, 20)), ((M, 2), (7, 2))), 20, (7, 2), dtype),
            with_index(select(0), (((20, M), (20, 6)), ((), ())), 20, (), dtype),
            with_index(
                lambda p, d, i, s: p("index_add", d, i, s, dim=0),
                (((20, M), (20, 6)), ((N,), (9,)), ((N, M), (9, 6))),
                20,
                9,
                dtype,
            ),
            with_index(
                lambda p, d, i, s: p("index_add", d, i, s, dim=1),
                (((M, 5), (6, 5)), ((N,), (9,)), ((M, N), (6, 9))),
                5,
                9,
                dtype,
            ),
            with_index(
                lambda p, d, i, s: p("index_copy", d, i, s, dim=1),
                (((M, 5), (6, 5)), ((N,), (9,)), ((M, N), (6, 9))),
                5,
                9,
                dtype,
            ),
        ]
    )


@pytest.mark.spec("ops.all")
def test_argmax_and_topk():
    def pair(p, x, **attrs):
        return tuple(p.items(p("topk", x, **attrs)))

    cases = [
        case(lambda p, x: p("argmax", x, axis=-1), ((N, M), (6, 33))),
        case(lambda p, x: p("argmax", x, axis=0), ((N, M), (6, 33)), dtypes=("bf16",)),
        case(lambda p, x: p("argmax", x, axis=1), ((N, M, 2), (6, 33, 2)), dtypes=("i8",)),
        case(lambda p, x: pair(p, x, k=5), ((N, 33), (6, 33))),
        case(lambda p, x: pair(p, x, k=4, axis=0, largest=False), ((33, M), (33, 6)), dtypes=("i8",)),
        case(lambda p, x: pair(p, x, k=33), ((N, 33), (6, 33)), dtypes=("f16",)),
    ]
    cases[0][1][0][1, 4] = float("nan")
    cases[3][1][0][2, 7] = float("nan")
    compare(cases)


def scalar_i32(value):
    return torch.tensor(value, dtype=torch.int32)


@pytest.mark.spec("ops.all")
def test_windows_with_values():
    def insert(p, x, y, i):
        return p("insert_slice", x, y, i, offsets=(None, 1))

    def window(p, x, i):
        return p("exp", p("slice", x, i, starts=(None, 0), sizes=(3, M)))

    def cache(p, c, pos, s, new):
        return p("cache_update", c, pos, s, new)

    first = case(insert, ((N, 9), (12, 9)), ((3, 4), (3, 4)), ((), ()), dtypes=("f32", "f32", "i32"))
    first[1][2] = scalar_i32(7)
    second = case(window, ((N, M), (12, 9)), ((), ()), dtypes=("f32", "i64"))
    second[1][1] = torch.tensor(9)
    third = case(
        cache,
        ((N, 16, 2, 4), (3, 16, 2, 4)),
        ((), ()),
        ((1,), (1,)),
        ((N, 5, 2, 4), (3, 5, 2, 4)),
        dtypes=("bf16", "i32", "i32", "bf16"),
    )
    third[1][1], third[1][2] = scalar_i32(10), torch.tensor([3], dtype=torch.int32)
    compare([first, second, third])


@pytest.mark.spec("ops.all")
def test_creation():
    compare(
        [
            case(lambda p, x: p("add", x, p("arange", end=N)), ((N,), (9,)), dtypes=("i64",)),
            case(lambda p, x: p("arange", end=LONG, start=2, step=3, dtype="i32"), ((LONG,), (19,))),
            case(lambda p, x: p("zeros", type=TensorType((N, 3), "bf16")), ((N,), (9,))),
            case(lambda p, x: p("full_like", x, value=2.5), ((N, 2), (9, 2)), dtypes=("f16",)),
            case(lambda p, x: p("shape_of", x), ((N, 2, M), (9, 2, 5))),
            case(lambda p, x: p("rank", x), ((N, 2, M), (9, 2, 5))),
            case(lambda p, x: p("workspace", type=TensorType((N,), "f32"), zero=True), ((N,), (9,))),
            case(lambda p, x: p("exp", p("prefetch", x)), ((N,), (9,))),
        ]
    )


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
