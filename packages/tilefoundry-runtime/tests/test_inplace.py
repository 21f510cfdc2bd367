"""A cache that is passed as input and as output. Oracle: the pure form, ``cache`` with one row replaced."""

import pytest
import torch

from tilefoundry.dsl import DimVar
from tilefoundry.ir.types import TensorType
from tilefoundry.runtime import EntryABI, ParamABI, load_compiled
from tilefoundry.runtime.linking import LinkedModule, load_linked_module

N = DimVar("N", 1, 64)


def param(name, shape, dtype="f32"):
    return ParamABI(name, TensorType(shape, dtype))


PARAMS = (param("cache", (N, 4)), param("row", (4,)), param("pos", (), "i32"), param("out", (N, 4)))
WINDOW = EntryABI("window", PARAMS, 1, inplace=((0, 0),))
POS = torch.tensor(2, dtype=torch.int32)


@pytest.fixture
def window(library):
    return load_linked_module(LinkedModule(library, "", WINDOW))


@pytest.fixture
def case():
    cache, row = torch.randn(5, 4), torch.randn(4)
    want = cache.clone()
    want[2] = row
    return cache, row, want


def test_allocated_outputs_leave_the_input_alone(window, case):
    cache, row, want = case
    before, version = cache.clone(), cache._version
    out = window(cache, row, POS)
    assert torch.equal(out, want) and torch.equal(cache, before)
    assert out.data_ptr() != cache.data_ptr() and cache._version == version


def test_the_identical_tensor_is_both(window, case):
    cache, row, want = case
    version = cache._version
    assert window(cache, row, POS, cache) is cache
    assert torch.equal(cache, want) and cache._version == version + 1


def test_another_tensor_over_the_same_memory_is_both(window, case):
    cache, row, want = case
    out = cache.view(5, 4)
    assert window(cache, row, POS, out) is out
    assert torch.equal(cache, want)


def test_a_saved_library_keeps_the_pairs(window, case, tmp_path):
    cache, row, want = case
    window.save(str(tmp_path / "w"))
    loaded = load_compiled(str(tmp_path / "w"))
    assert loaded.type.inplace == ((0, 0),)
    assert torch.equal(loaded(cache, row, POS, cache), want)


def test_overlap_of_no_pair_is_refused_before_anything_is_written(window):
    memory = torch.randn(7, 4)
    before = memory.clone()
    with pytest.raises(
        ValueError, match="window: out overlaps the memory of cache; pass an output of its own"
    ):
        window(memory[:5], torch.ones(4), POS, memory[1:6])
    with pytest.raises(ValueError, match="window: out overlaps the memory of row"):
        window(memory[:5], memory[1], POS, memory[:5])
    assert torch.equal(memory, before)


def test_a_bound_row_and_a_cache_in_place(library):
    abi = EntryABI("window", PARAMS, 1, ((1, "row"),), ((0, 0),))
    row, cache = torch.ones(4), torch.zeros(5, 4)
    bound = load_linked_module(LinkedModule(library, "", abi)).bind({"row": row})
    assert bound(cache, POS, cache) is cache
    assert cache.sum(1).tolist() == [0, 0, 4, 0, 0]
    fresh = bound(cache, torch.tensor(0, dtype=torch.int32))
    assert fresh.sum(1).tolist() == [4, 0, 4, 0, 0] and cache[0].sum() == 0


def test_a_cache_that_requires_a_gradient_cannot_be_written(window, case):
    cache, row, _ = case
    with pytest.raises(
        ValueError, match=r"out is to be filled and requires a gradient; pass out\.detach\(\)"
    ):
        window(cache.requires_grad_(), row, POS, cache)


@pytest.mark.parametrize(
    ("constants", "inplace", "message"),
    [
        ((), ((1, 0),), r"inplace \(1, 0\) is no \(output, input\) pair; there are 1 outputs and 3 inputs"),
        ((), ((0, 3),), r"inplace \(0, 3\) is no \(output, input\) pair"),
        ((), ((0, 1),), r"inplace pairs out: f32\[N, 4\] with row: f32\[4\], which is of another type"),
        ((), ((0, 0), (0, 0)), "names an output twice"),
        (((0, "w"),), ((0, 0),), "inplace pairs out with the weight cache"),
    ],
)
def test_pairs_that_cannot_be_are_refused(constants, inplace, message):
    with pytest.raises(ValueError, match=message):
        EntryABI("window", PARAMS, 1, constants, inplace)
