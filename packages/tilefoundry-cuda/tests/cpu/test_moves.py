"""Views, copies, gathers and windows. Oracle: the evaluator, on full tensors."""

from __future__ import annotations

import pytest
import torch

from .harness import compare, constant
from .op_cases import M, N, case


def with_index(build, shape, rows, count, dtype="f32", index_dtype="i64", seed=0):
    function, tensors = case(build, *shape, dtypes=(dtype, index_dtype, dtype), seed=seed)
    tensors[1] = torch.randint(0, rows, (count,) if isinstance(count, int) else count).to(tensors[1].dtype)
    return function, tensors


def scalar_i32(value):
    return torch.tensor(value, dtype=torch.int32)


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
