"""The call that each entry gets written for it. Oracle: a Python body that records what it was given."""

import inspect
import warnings

import pytest
import torch

from tilefoundry.dsl import DimVar
from tilefoundry.ir.types import TensorType
from tilefoundry.ir.types.shard import B, Layout, Mesh, ShardLayout
from tilefoundry.runtime import CompiledModule, EntryABI, ParamABI

N = DimVar("N", 0, 100)


def param(name, shape=(N,), dtype="f32", layout=None):
    return ParamABI(name, TensorType(shape, dtype, layout))


def summing(inputs, outputs=1, fixed=()):
    """An entry whose every output is the sum of its inputs."""
    params = (*(param(f"x{i}") for i in range(inputs)), *(param(f"y{i}") for i in range(outputs)))

    @torch.no_grad()
    def body(*args):
        total = sum(torch.from_dlpack(a) if i in fixed else a for i, a in enumerate(args[:inputs]))
        for out in args[inputs:]:
            out.copy_(total)

    return CompiledModule(type=EntryABI("total", params, outputs, [(i, f"w{i}") for i in fixed]), fn=body)


def ones(count):
    return [torch.ones(3) for _ in range(count)]


@pytest.mark.parametrize("inputs", [1, 2, 15, 16, 30, 300])
@pytest.mark.parametrize("outputs", [1, 2])
def test_any_number_of_parameters(inputs, outputs):
    entry = summing(inputs, outputs)
    given = [torch.zeros(3) for _ in range(outputs)]
    made, filled = entry(*ones(inputs)), entry(*ones(inputs), *given)
    for results in (made, filled) if outputs == 1 else (*made, *filled):
        assert results.tolist() == [inputs] * 3
    assert all(out.tolist() == [inputs] * 3 for out in given)
    for wrong in {0, inputs - 1, inputs + outputs + 1} - {inputs}:
        with pytest.raises(TypeError, match=f"total takes {inputs} inputs? .*got {wrong} arguments"):
            entry(*ones(wrong))
    if outputs == 2:
        with pytest.raises(TypeError, match="or those and its outputs"):
            entry(*ones(inputs), given[0])


@pytest.mark.parametrize("fixed", [(0,), (1,), (0, 2), (0, 1, 2)])
def test_any_inputs_may_be_bound(fixed):
    bound = summing(3, fixed=fixed).bind({f"w{i}": torch.ones(3) for i in fixed})
    free = 3 - len(fixed)
    out = torch.zeros(3)
    assert bound(*ones(free), out) is out and out.tolist() == [3] * 3
    assert bound(*ones(free)).tolist() == [3] * 3
    with pytest.raises(TypeError, match="total takes its activations alone"):
        bound(*ones(free + 2))


def test_calling_is_forward():
    entry = summing(2)
    assert torch.equal(entry.forward(*ones(2)), entry(*ones(2)))

    class Twice(CompiledModule):
        def forward(self, *args):
            return 2 * super().forward(*args)

    assert Twice(type=entry.type, fn=entry._fn)(*ones(2)).tolist() == [4] * 3


def test_what_inspect_shows():
    entry = summing(2)
    assert callable(entry) and str(inspect.signature(entry)) == "(*args)"
    bound = summing(2, fixed=(0,)).bind({"w0": torch.ones(3)})
    assert callable(bound) and str(inspect.signature(bound)) == "(*args)"
    with pytest.raises(TypeError, match=r"total\(\) got an unexpected keyword argument 'x0'"):
        entry(x0=torch.ones(3))


def test_parameters_and_subclasses_take_the_general_way():
    weight, out = torch.nn.Parameter(torch.ones(3)), torch.nn.Parameter(torch.ones(3), requires_grad=False)
    version = out._version
    assert summing(2)(weight, torch.ones(3), out) is out
    # One bump is the body's own copy_, one the module's.
    assert out.tolist() == [2] * 3 and out._version == version + 2
    assert not summing(2)(weight, torch.ones(3)).requires_grad


@pytest.mark.parametrize("error", [RuntimeError, BufferError, IndexError, ValueError, KeyboardInterrupt])
def test_an_error_of_the_entry_comes_through_as_it_is(error):
    thrown = error("of the entry")

    def body(*_):
        raise thrown

    entry = CompiledModule(type=summing(2).type, fn=body)
    out = torch.zeros(3)
    version = out._version
    for args in (ones(2), [*ones(2), out]):
        with pytest.raises(error) as caught:
            entry(*args)
        assert caught.value is thrown
    assert out._version == version


def test_an_error_is_explained_where_an_argument_is_the_cause():
    def body(*_):
        raise RuntimeError("cannot convert")

    entry = CompiledModule(type=summing(2).type, fn=body)
    with warnings.catch_warnings():
        # torch calls nested tensors a prototype.
        warnings.simplefilter("ignore")
        nested = torch.nested.as_nested_tensor(torch.ones(2, 3))
    with pytest.raises(TypeError, match=r"total: x1 is nested; pass \.to_padded_tensor"):
        entry(torch.ones(3), nested)
    with pytest.raises(
        ValueError, match=r"total: x1 has shape \(4,\), declared f32\[N\]: axis 0 is 4, expected 3"
    ):
        entry(torch.ones(3), torch.ones(4))


def test_outputs_with_strides_of_their_own():
    layout = Layout((N, 4), (8, 1))
    abi = EntryABI("f", (param("x", (N, 4)), param("y", (N, 4), layout=layout)), 1)
    out = CompiledModule(type=abi, fn=lambda x, y: y.copy_(x))(torch.ones(3, 4))
    assert out.stride() == (8, 1) and out.sum() == 12


def test_outputs_with_a_layout_that_torch_has_not():
    layout = ShardLayout(Layout((N, 4)), (B(),), Mesh("cta", (2,), ("c",)))
    abi = EntryABI("f", (param("x", (N, 4)), param("y", (N, 4), layout=layout)), 1)
    module = CompiledModule(type=abi, fn=lambda x, y: y.copy_(x))
    with pytest.raises(TypeError, match=r"y has the layout .*, which torch cannot allocate; pass y as well"):
        module(torch.ones(3, 4))
    assert module(torch.ones(3, 4), torch.zeros(3, 4)).sum() == 12


def test_graph_breaks_leave_the_value():
    entry = summing(2)
    compiled = torch.compile(lambda a, b: entry(a + 1, b) * 2, backend="eager")
    assert compiled(*ones(2)).tolist() == [6] * 3
