"""x[...]: static and dynamic windows. Oracle: torch's own indexing."""

from __future__ import annotations

import pytest
import torch

from tilefoundry.dsl import DimVar, Tensor, func, tf
from tilefoundry.evaluator import evaluate
from tilefoundry.ir.errors import DslError

N = DimVar("N", 4, 100)
S = DimVar("S", 1, 5)


@pytest.mark.spec("dsl.subscripts")
@pytest.mark.parametrize(
    "index",
    [
        "0",
        "-1",
        "1, 2",
        "...",
        "..., 0",
        "1, ...",
        ":",
        "1:",
        ":-1",
        "-2:",
        "1:3",
        "2:100",
        "3:1",
        "::2",
        "1:5:3",
        ":, 1",
        ":, -2:, 0",
        "0, :, ::2",
        "1:2, 1, 1:2",
        "(2, 1)",
    ],
)
def test_static_indices(run, index):
    f = run(
        f"""
        @func
        def f(x: Tensor[(5, 3, 4), "f32"]):
            return x[{index}]
        """
    )["f"]
    x = torch.randn(5, 3, 4)
    expected = eval(f"x[{index}]")
    assert f.result.shape == tuple(expected.shape)
    assert torch.equal(evaluate(f, x), expected)


def test_extents_as_bounds():
    @func
    def f(x: Tensor[(N, 3), "f32"], y: Tensor[(S,), "f32"]) -> Tensor[(S, 3), "f32"]:
        return x[0:S] + x[N - S : N] + x[-S:] + x[N - 1 : N]

    x, y = torch.randn(7, 3), torch.randn(2)
    torch.testing.assert_close(evaluate(f, x, y), x[0:2] + x[5:7] + x[5:7] + x[6:7])


@pytest.mark.spec("dsl.subscripts")
def test_a_dynamic_start_with_a_static_window():
    @func
    def f(x: Tensor[(N, 3), "f32"], p: Tensor[(), "i32"]) -> Tensor[(2, 3), "f32"]:
        return x[p : p + 2] * x[p] + x[p + 1 : 2 + (p + 1)]

    x = torch.randn(7, 3)
    torch.testing.assert_close(evaluate(f, x, torch.tensor(3, dtype=torch.int32)), x[3:5] * x[3] + x[4:6])


def test_items_of_a_tuple():
    @func
    def f(x: Tensor[(N, 4), "f32"]) -> Tensor[(N, 2), "f32"]:
        parts = tf.split(x, 1, 2)
        return parts[0] - parts[-1]

    x = torch.randn(5, 4)
    assert torch.equal(evaluate(f, x), x[:, :2] - x[:, 2:])


@pytest.mark.spec("dsl.subscripts")
@pytest.mark.parametrize(
    ("index", "message"),
    [
        ("4", "index 4 is out of range for axis 0 of extent 4"),
        ("-5", "index -5 is out of range"),
        ("0, 0, 0", r"3 indices for x: f32\[4, 3\], which has rank 2"),
        ("..., ...", "one ... at most"),
        ("1.0", "an index is an int, a slice"),
        ("True", "an index is an int, a slice"),
        ("None", "an index is an int, a slice"),
        ("'a'", "an index is an int, a slice"),
        ("::-1", "the step of a slice is an int of at least 1"),
        ("::0", "the step of a slice is an int of at least 1"),
        ("p:", "a dynamic start needs a static window"),
        ("p:3", "a dynamic start needs a static window"),
        ("p:p + p", "the size of a window must be known"),
        ("0:p", "the end of a slice must be an extent"),
        ("p:p + 2:2", "a window with a dynamic start has the step 1"),
        ("x", "an index is a rank-0 integer tensor"),
        ("tf.cast(p, 'f32')", "an index is a rank-0 integer tensor"),
        ("[0, 1]", "an index is an int, a slice"),
    ],
)
def test_refused_indices(run, index, message):
    with pytest.raises(DslError, match=message):
        run(
            f"""
            @func
            def f(x: Tensor[(4, 3), "f32"], p: Tensor[(), "i64"]):
                return x[{index}]
            """
        )
