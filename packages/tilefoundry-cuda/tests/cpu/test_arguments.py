"""What a compiled entry accepts and refuses. Oracle: the stated rule, and torch for results."""

from __future__ import annotations

import pytest
import torch

from tilefoundry import jit
from tilefoundry.ir.types import DimVar

from .harness import Program, constant

N = DimVar("N", 1, 100)
M = DimVar("M", 2, 50)


@pytest.fixture(scope="module")
def scaled():
    """``scaled(x[N, M], y[M], z[N + M]) = (x + y) * 2`` in f32; ``z`` only binds an extent."""
    p = Program("scaled")
    x, y, _ = p.param("x", (N, M)), p.param("y", (M,)), p.param("z", (N + M,))
    return jit(p.done(p("mul", p("add", x, y), constant("f32", 2.0))), target="cpu")


def good():
    return torch.randn(3, 5), torch.randn(5), torch.randn(8)


def test_right_arguments_give_the_sum(scaled):
    x, y, z = good()
    torch.testing.assert_close(scaled(x, y, z), (x + y) * 2)


@pytest.mark.spec("args.dynamic")
def test_extents_change_without_compiling_again(scaled, monkeypatch):
    monkeypatch.setattr("tilefoundry.verbs.building.lower", None)
    monkeypatch.setattr("subprocess.run", None)
    for n, m in ((1, 2), (99, 49), (7, 7)):
        x, y = torch.randn(n, m), torch.randn(m)
        torch.testing.assert_close(scaled(x, y, torch.empty(n + m)), (x + y) * 2)


REFUSED = [
    ("dtype", lambda x, y, z: (x.double(), y, z), ["scaled: x is f64", "f32[N, M]"]),
    ("rank", lambda x, y, z: (x, y[None], z), ["scaled: y has shape (1, 5) of rank 2", "f32[M] of rank 1"]),
    (
        "two values of one DimVar",
        lambda x, y, z: (x, y[:4].clone(), z),
        ["scaled: y gives M = 4, but x gave 5"],
    ),
    ("range", lambda x, y, z: (x[:, :1].clone(), y[:1].clone(), z), ["scaled: x gives M = 1", "[2, 50)"]),
    (
        "expression",
        lambda x, y, z: (x, y, z[:7].clone()),
        ["scaled: z has shape (7,)", "axis 0 is 7, expected 8"],
    ),
    (
        "transposed",
        lambda x, y, z: (torch.randn(5, 3).t(), y, z),
        ["scaled: x has strides (1, 3)", "x.contiguous()"],
    ),
    ("strided", lambda x, y, z: (x, torch.randn(10)[::2], z), ["scaled: y has strides (2,)", "contiguous"]),
]


@pytest.mark.parametrize(("what", "change", "words"), REFUSED, ids=[r[0] for r in REFUSED])
@pytest.mark.spec("args.refused", "case.wrong-inputs")
def test_a_wrong_argument_is_refused_by_name(scaled, what, change, words):
    out = torch.full((3, 5), 7.0)
    for outputs in ((), (out,)):
        with pytest.raises(ValueError) as caught:
            scaled(*change(*good()), *outputs)
        for word in words:
            assert word in str(caught.value), f"{word!r} is not in: {caught.value}"
    assert torch.equal(out, torch.full((3, 5), 7.0)), "a refused call wrote to its output"


def test_a_refusal_shows_no_frame_of_the_library(scaled):
    """Looking its frames up reads the symbols of all libraries in the process: over a second for the first refusal."""
    x, _, z = good()
    with pytest.raises(ValueError, match="y gives M = 6") as caught:
        scaled(x, torch.randn(6), z)
    places = [(str(frame.path), frame.name) for frame in caught.traceback]
    assert [one for one in places if "unknown" in one[0] or "ffi_q" in one[1]] == []


@pytest.mark.spec("args.refused")
def test_things_that_are_no_tensors_are_type_errors(scaled):
    x, y, z = good()
    out = torch.empty(3, 5)
    for value in (3, 2.5, None, True):
        with pytest.raises(TypeError, match="scaled: y must be a tensor f32"):
            scaled(x, value, z, out)
    with pytest.raises(TypeError, match="scaled"):
        scaled(x, y)


@pytest.mark.spec("args.outputs")
def test_outputs_are_checked_like_inputs(scaled):
    x, y, z = good()
    with pytest.raises(ValueError, match=r"scaled: output has shape \(5, 3\)|scaled: output gives"):
        scaled(x, y, z, torch.empty(5, 3))
    with pytest.raises(ValueError, match="scaled: output is f16"):
        scaled(x, y, z, torch.empty(3, 5, dtype=torch.float16))


@pytest.mark.spec("args.outputs", "case.strided-output")
def test_a_strided_output_is_refused_and_its_gaps_stay():
    p = Program("copied")
    x = p.param("x", (3, 2))
    compiled = jit(p.done(p("neg", x)), target="cpu")
    whole = torch.zeros(6, 4)
    with pytest.raises(ValueError, match="copied: output has strides"):
        compiled(torch.ones(3, 2), whole[::2, ::2])
    assert not whole.any()


@pytest.mark.spec("args.outputs")
def test_an_output_that_overlaps_an_input_is_refused(scaled):
    memory = torch.randn(40)
    x, y, z = memory[:15].view(3, 5), torch.randn(5), torch.randn(8)
    before = memory.clone()
    for start in (0, 1, 14):
        with pytest.raises(ValueError, match="scaled: output overlaps the memory of x"):
            scaled(x, y, z, memory[start : start + 15].view(3, 5))
    assert torch.equal(memory, before)
    torch.testing.assert_close(scaled(x, y, z, memory[15:30].view(3, 5)), (x + y) * 2)


@pytest.mark.spec("case.odd-offset")
def test_a_contiguous_view_at_an_odd_offset_is_legal(scaled):
    x = torch.zeros(17)[1:16].view(3, 5).normal_()
    y, z = torch.randn(6)[1:], torch.randn(9)[1:]
    out = torch.empty(16)[1:].view(3, 5)
    assert x.data_ptr() % 16 == 4 or x.data_ptr() % 16 == 12 or x.data_ptr() % 4 == 0
    torch.testing.assert_close(scaled(x, y, z, out), (x + y) * 2)


@pytest.mark.spec("args.strides")
def test_size_one_axes_may_carry_any_stride(scaled):
    x = torch.randn(1, 5).as_strided((1, 5), (999, 1))
    y, z = torch.randn(5), torch.randn(6)
    torch.testing.assert_close(scaled(x, y, z), (x + y) * 2)


@pytest.mark.spec("args.grad")
def test_tensors_that_require_grad_give_results_outside_of_graphs(scaled):
    x, y, z = (t.requires_grad_() for t in good())
    assert not scaled(x, y, z).requires_grad


@pytest.mark.spec("args.empty")
def test_empty_inputs_give_identities_and_extremes_refuse():
    zero = DimVar("K", 0, 10)
    p = Program("empty")
    x = p.param("x", (3, zero))
    total = p("reduce", x, axes=(1,), keepdim=False, kind="sum")
    mean = p("reduce", x, axes=(1,), keepdim=False, kind="mean")
    compiled = jit(p.done(total, mean, p("exp", x)), target="cpu")
    total, mean, nothing = compiled(torch.empty(3, 0))
    assert torch.equal(total, torch.zeros(3)) and mean.isnan().all() and nothing.shape == (3, 0)
    q = Program("greatest")
    y = q.param("y", (3, zero))
    greatest = jit(q.done(q("reduce", y, axes=(1,), keepdim=False, kind="max")), target="cpu")
    with pytest.raises(ValueError, match="max over an empty axis"):
        greatest(torch.empty(3, 0))


@pytest.mark.spec("args.empty")
@pytest.mark.parametrize("axis", [0, 1])
def test_a_softmax_over_nothing_is_empty_and_leaves_other_results_alone(axis):
    # Oracle: no element is asked for, so no maximum is missing.
    zero = DimVar("K", 0, 10)
    p = Program("weights")
    shape = (zero, 4) if axis == 0 else (4, zero)
    x, y = p.param("x", shape), p.param("y", (2,))
    compiled = jit(p.done(p("softmax", x, axis=axis), p("exp", y)), target="cpu")
    none = torch.empty(tuple(0 if d is zero else d for d in shape))
    weights, other = compiled(none, torch.zeros(2))
    assert weights.shape == none.shape and torch.equal(other, torch.ones(2))


@pytest.mark.spec("args.refused")
def test_an_index_outside_is_refused_with_its_value():
    p = Program("rows")
    x, i = p.param("x", (4, N)), p.param("i", (N,), "i64")
    compiled = jit(p.done(p("index_select", x, i, dim=0)), target="cpu")
    x = torch.randn(4, 3)
    torch.testing.assert_close(compiled(x, torch.tensor([3, 0, 1])), x[[3, 0, 1]])
    for bad in (4, -1, 2**40):
        with pytest.raises(ValueError, match=f"index_select: the index {bad} is outside the extent 4"):
            compiled(x, torch.tensor([0, bad, 1]))


@pytest.mark.spec("args.dlpack")
def test_numpy_arrays_may_be_given_with_outputs(scaled):
    numpy = pytest.importorskip("numpy")
    tvm_ffi = pytest.importorskip("tvm_ffi")
    x, y, z = (t.numpy() for t in good())
    out = numpy.empty((3, 5), dtype="float32")
    scaled(*(tvm_ffi.from_dlpack(a) for a in (x, y, z, out)))
    numpy.testing.assert_allclose(out, (x + y) * 2, rtol=1e-6)


def test_threads_call_one_module_at_once(scaled):
    from concurrent.futures import ThreadPoolExecutor

    def one(seed: int) -> bool:
        torch.manual_seed(seed)
        x, y, z = good()
        return torch.allclose(scaled(x, y, z), (x + y) * 2)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(one, range(200)))
