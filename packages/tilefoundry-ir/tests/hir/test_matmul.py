"""matmul and grouped_matmul. Oracles: numpy float64 and Python integers; torch as second witness."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tilefoundry.ir.errors import EvaluationError, TypeRuleError
from tilefoundry.ir.hir.matmul import _integer_product
from tilefoundry.ir.types import DimVar, TensorType

FLOATS = ["f64", "f32", "f16", "bf16", "fp8e4m3", "fp8e5m2"]
SHAPES = [
    ((3, 5), (5, 4)),
    ((1, 1), (1, 1)),
    ((2, 3, 5), (5, 4)),
    ((2, 3, 5), (2, 5, 4)),
    ((2, 1, 3, 5), (1, 4, 5, 2)),
    ((3, 5), (2, 5, 4)),
    ((3, 0), (0, 4)),
    ((0, 5), (5, 4)),
    ((2, 3, 5), (0, 1, 5, 0)),
    ((2, 300), (300, 3)),
]


@pytest.mark.spec("ops.matmul")
@pytest.mark.parametrize("dtype", FLOATS)
def test_float_products(ops, dtype):
    for seed, (left, right) in enumerate(SHAPES):
        a, b = ops.sample(left, dtype, seed), ops.sample(right, dtype, seed + 50)
        wide = ops.exact(a), ops.exact(b)
        got = ops.run("matmul", a, b)
        size = np.abs(wide[0]) @ np.abs(wide[1])
        ops.assert_close(got, wide[0] @ wide[1], length=left[-1], magnitude=size)
        witness = torch.matmul(torch.tensor(wide[0]), torch.tensor(wide[1])).numpy()
        ops.assert_close(got, witness, length=left[-1], magnitude=size)


@pytest.mark.parametrize("dtype", ["i8", "u8", "i16", "i32", "i64"])
def test_integer_products_wrap(ops, dtype):
    info = np.iinfo(ops.NUMPY[dtype])
    rng = np.random.default_rng(2)
    a = rng.integers(info.min, info.max, (2, 3, 6), endpoint=True).astype(ops.NUMPY[dtype])
    b = rng.integers(info.min, info.max, (6, 4), endpoint=True).astype(ops.NUMPY[dtype])
    want = np.vectorize(lambda v: (v - int(info.min)) % 2**info.bits + int(info.min))(
        a.astype(object) @ b.astype(object)
    )
    ops.assert_same(ops.run("matmul", a, b), want.astype(a.dtype))


def test_integer_product_without_library_agrees():
    """The path for devices whose library multiplies no integers."""

    class Elsewhere(torch.Tensor):
        device = torch.device("meta")

    for left, right in (((2, 3, 5), (5, 4)), ((3, 0), (0, 2))):
        a, b = torch.randint(-9, 9, left), torch.randint(-9, 9, right)
        got = _integer_product(a.as_subclass(Elsewhere), b.as_subclass(Elsewhere))
        assert torch.equal(got.as_subclass(torch.Tensor), a @ b)


@pytest.mark.spec("ops.matmul")
def test_bf16_accumulates_wide(ops):
    a = np.ones((1, 1024)).astype(ops.NUMPY["bf16"])
    assert ops.exact(ops.run("matmul", a, a.T.copy()))[0, 0] == 1024


@pytest.fixture(params=["legacy", "per device"])
def reduced_precision(request):
    """The process lets f32 products drop to shorter types, by either of torch's settings."""
    matmul = torch.backends.cuda.matmul
    if request.param == "legacy":
        torch.set_float32_matmul_precision("medium")
        yield
        torch.set_float32_matmul_precision("highest")
    elif not hasattr(matmul, "fp32_precision"):
        pytest.skip("this torch has the one setting only")
    else:
        before, matmul.fp32_precision = matmul.fp32_precision, "tf32"
        yield
        matmul.fp32_precision = before


def test_f32_products_keep_their_precision(ops, reduced_precision):
    a, b = ops.sample((33, 512), "f32"), ops.sample((512, 17), "f32", 1)
    size = np.abs(ops.exact(a)) @ np.abs(ops.exact(b))
    ops.assert_close(ops.run("matmul", a, b), ops.exact(a) @ ops.exact(b), length=8, magnitude=size)


def test_dynamic_extents(ops):
    b, s = DimVar("B", 1, 9), DimVar("S", 1, 9)
    left, right = TensorType((b, s, 4), "f32"), TensorType((4, 3), "f32")
    assert ops.infer("matmul", left, right).shape == (b, s, 3)
    x, w = ops.sample((2, 5, 4), "f64").astype(np.float32), ops.sample((4, 3), "f32")
    got = ops.run("matmul", x, w, types=(left, right))
    ops.assert_close(got, ops.exact(x) @ ops.exact(w), length=4, magnitude=np.abs(x) @ np.abs(w))


@pytest.mark.spec("ops.matmul")
@pytest.mark.parametrize("dtype", FLOATS)
def test_grouped_products(ops, dtype):
    for offsets, rows in (([0, 2, 2, 7], 7), ([0, 0, 0, 0], 3), ([0, 4, 5, 6], 9), ([0, 0, 0, 0], 0)):
        x, w = ops.sample((rows, 6), dtype, 3), ops.sample((3, 6, 5), dtype, 4)
        want, size = np.zeros((rows, 5)), np.zeros((rows, 5))
        for e in range(3):
            part = slice(offsets[e], offsets[e + 1])
            want[part] = ops.exact(x)[part] @ ops.exact(w)[e]
            size[part] = np.abs(ops.exact(x))[part] @ np.abs(ops.exact(w))[e]
        got = ops.run("grouped_matmul", x, w, np.array(offsets, np.int32))
        ops.assert_close(got, want, length=6, magnitude=size)


@pytest.mark.parametrize("offsets", [[1, 2, 3], [0, 3, 2], [0, 2, 9], [0, -1, 2]])
def test_bad_offsets_are_refused(ops, offsets):
    with pytest.raises(
        EvaluationError, match="must start at 0, never fall, and end at no more than the 4 rows"
    ):
        ops.run(
            "grouped_matmul",
            ops.sample((4, 2), "f32"),
            ops.sample((2, 2, 3), "f32"),
            np.array(offsets, np.int64),
        )


A, B = TensorType((2, 3), "f32"), TensorType((3, 4), "f32")


@pytest.mark.parametrize(
    ("op", "types", "message"),
    [
        ("matmul", (A, A), "meets the second to last of rhs .* but 3 is not 2; use tf.transpose"),
        ("matmul", (A, TensorType((3,), "f32")), "rhs is .* rank 2 or more is needed"),
        ("matmul", (A, TensorType((3, 4), "bf16")), "operands must have one dtype"),
        ("matmul", (TensorType((2, 3), "bool"), TensorType((3, 4), "bool")), "a number is needed"),
        ("matmul", (TensorType((2, 2, 3), "f32"), TensorType((5, 3, 4), "f32")), "extents 2, 5 differ"),
        ("matmul", (TensorType((2, 3), "f4e2m1"), TensorType((3, 4), "f4e2m1")), "without arithmetic"),
        ("grouped_matmul", (A, B, TensorType((2,), "i32")), r"w\[groups, k, n\] are needed"),
        (
            "grouped_matmul",
            (A, TensorType((5, 3, 4), "f32"), TensorType((5,), "i32")),
            "one offset more is needed",
        ),
        (
            "grouped_matmul",
            (A, TensorType((5, 3, 4), "f32"), TensorType((6,), "f32")),
            "i32 or i64 is needed",
        ),
    ],
)
def test_refusals(ops, op, types, message):
    with pytest.raises(TypeRuleError, match=message):
        ops.infer(op, *types)
