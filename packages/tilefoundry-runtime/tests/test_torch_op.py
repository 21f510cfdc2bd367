"""Compiled entries as torch operators. Oracle: the formula of the hand-written library, in torch."""

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend

from tilefoundry.dsl import DimVar, ceildiv
from tilefoundry.ir.types import TensorType
from tilefoundry.runtime import CompiledModule, EntryABI, ParamABI
from tilefoundry.runtime.linking import LinkedModule, load_linked_module

N = DimVar("N", 0, 100)
X, W = torch.arange(8.0).reshape(2, 4), torch.tensor([1.0, 2.0, 3.0, 4.0])


def param(name, shape, dtype="f32"):
    return ParamABI(name, TensorType(shape, dtype))


AFFINE = EntryABI("affine", (param("x", (N, 4)), param("w", (4,)), param("y", (N, 4))), 1, ((1, "left.w"),))
SPLIT = EntryABI("split", (param("x", (N,)), param("low", (N,)), param("high", (2 * N,), "i64")), 2)


@pytest.fixture(scope="module")
def affine(library):
    return load_linked_module(LinkedModule(library, "", AFFINE))


@pytest.fixture(scope="module")
def op(affine):
    return affine.as_torch_op("tilefoundry_tests::affine")


@pytest.fixture(scope="module")
def split_op(library):
    return load_linked_module(LinkedModule(library, "", SPLIT)).as_torch_op("tilefoundry_tests::split")


def test_the_operator_is_the_entry(op, affine):
    torch.testing.assert_close(op(X, W), X * W + 1)
    torch.testing.assert_close(torch.ops.tilefoundry_tests.affine(X, W), X * W + 1)
    assert affine.as_torch_op("tilefoundry_tests::affine") is op


def test_several_outputs_come_as_a_tuple(split_op):
    low, high = split_op(torch.ones(3))
    assert low.tolist() == [-1.0] * 3 and high.tolist() == [0, 0, 1, -1, 2, -2]


def test_torchs_own_checks_of_an_operator(op, split_op):
    torch.library.opcheck(op, (X, W))
    torch.library.opcheck(op, (X.clone().requires_grad_(), W))
    torch.library.opcheck(split_op, (torch.ones(5),))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_it_is_one_graph_with_symbols_for_extents(op, split_op, backend):
    counter = CompileCounterWithBackend(backend)

    @torch.compile(backend=counter, fullgraph=True, dynamic=True)
    def step(x, w):
        low, high = torch.ops.tilefoundry_tests.split(op(x, w).sum(1))
        return low * 2, high + 1

    for n in (2, 5, 33):
        x = torch.randn(n, 4)
        low, high = step(x, W)
        torch.testing.assert_close(low, -2 * (x * W + 1).sum(1))
        assert high.tolist() == [sign * i + 1 for i in range(n) for sign in (1, -1)]
    assert counter.frame_count == 1


def test_the_meta_function_gives_shapes_without_data(op, split_op):
    made = op(torch.empty(7, 4, device="meta"), torch.empty(4, device="meta"))
    assert (made.shape, made.dtype, made.device.type) == ((7, 4), torch.float32, "meta")
    low, high = split_op(torch.empty(5, device="meta"))
    assert (low.shape, high.shape, high.dtype) == ((5,), (10,), torch.int64)


@pytest.mark.parametrize(
    ("x", "w", "message"),
    [
        (torch.empty(4), W, r"affine: x is torch\.float32 of rank 1, declared f32\[N, 4\]"),
        (X.double(), W, r"x is torch\.float64 of rank 2"),
        (X, torch.empty(5), r"axis 0 of w is 5, expected 4"),
        (torch.empty(100, 4), W, r"N = 100, outside its range \[0, 100\)"),
    ],
)
def test_the_meta_function_refuses_what_a_call_would(op, x, w, message):
    with pytest.raises(ValueError, match=message):
        op(x.to("meta"), w.to("meta"))


def test_one_extent_under_two_parameters():
    abi = EntryABI("f", (param("a", (N,)), param("b", (N + 1,)), param("y", (ceildiv(N, 4),))), 1)
    op = CompiledModule(type=abi, fn=print).as_torch_op("tilefoundry_tests::two")
    assert op(torch.empty(9, device="meta"), torch.empty(10, device="meta")).shape == (3,)
    with pytest.raises(ValueError, match=r"f: axis 0 of b is 9, expected N \+ 1 = 10"):
        op(torch.empty(9, device="meta"), torch.empty(9, device="meta"))


def test_results_join_no_graph(op):
    x = X.clone().requires_grad_()
    assert not op(x, W).requires_grad
    compiled = torch.compile(lambda x: op(x, W) + x, backend="aot_eager", fullgraph=True)
    out = compiled(x)
    out.sum().backward()
    torch.testing.assert_close(x.grad, torch.ones(2, 4))


def test_parameters_whose_names_are_words_of_the_schema_language():
    names = ("int", "Tensor", "self", "self_", "left.w", "left_w", "lambda", "3d", "größe")
    abi = EntryABI("f", (*(param(name, (2,)) for name in names), param("y", (2,))), 1)

    def total(*tensors):
        tensors[-1].copy_(sum(tensors[:-1]))

    op = CompiledModule(type=abi, fn=total).as_torch_op("tilefoundry_tests::words")
    assert op(*[torch.ones(2)] * len(names)).tolist() == [9.0, 9.0]


@pytest.mark.parametrize("name", ["affine", "a::b::c", "a.b", "::b", "a::", "a::1", "a::class", "def::a", 3])
def test_a_name_is_namespace_and_op(affine, name):
    with pytest.raises(ValueError, match=r"affine: an operator's name is 'namespace::op', .*, got"):
        affine.as_torch_op(name)


def test_a_name_stands_for_one_thing(library, op):
    other = load_linked_module(LinkedModule(library, "", AFFINE))
    with pytest.raises(ValueError, match="tilefoundry_tests::affine is another compiled module's"):
        other.as_torch_op("tilefoundry_tests::affine")
    with pytest.raises(ValueError, match="torch has an operator aten::mul already"):
        other.as_torch_op("aten::mul")


def test_outputs_that_inputs_do_not_tell():
    module = CompiledModule(type=EntryABI("f", (param("x", (4,)), param("y", (N,))), 1), fn=print)
    with pytest.raises(TypeError, match="no input gives N; pass y as well"):
        module.as_torch_op("tilefoundry_tests::untold")
