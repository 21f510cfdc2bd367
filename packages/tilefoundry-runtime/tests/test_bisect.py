"""``check(bisect=True)``. Oracle: the function in which a fault was planted."""

import pytest
import torch
import toy

from tilefoundry.runtime import (
    CompiledModule,
    DictResource,
    EntryABI,
    MaxAbs,
    RuntimeModule,
    check,
    runtime_func,
    runtime_module,
)
from tilefoundry.runtime.bisection import _difference

X = torch.ones(2, 4)
EXPECT = {"output": [MaxAbs(1e-6)]}


def twin(faulty=()):
    """A twin of Tree whose named functions are off by one; a fault in a leaf sits in ``left`` alone."""

    def leaf(extra):
        @runtime_module(toy.Leaf)
        class LeafTwin:
            @runtime_func
            def scale(self, x, w, b):
                return x * w + b + extra

            @runtime_func
            def shift(self, x, b):
                return x + b

        return LeafTwin

    @runtime_module(toy.Tree)
    class TreeTwin:
        left = leaf(1.0 if "left.scale" in faulty else 0.0)
        right = leaf(1.0 if "right.scale" in faulty else 0.0)

        @runtime_func
        def step(self, x, gain):
            if "raise" in faulty:
                raise RuntimeError("planted")
            extra = 1.0 if "step" in faulty else 0.0
            return self.right(self.left(x) * gain) + extra

    made = TreeTwin()
    made.load(DictResource(toy.tree_weights()))
    return made


@pytest.fixture
def reading():
    return toy.Tree.load(DictResource(toy.tree_weights()))


@pytest.mark.parametrize("fault", ["left.scale", "right.scale", "step"])
def test_the_faulty_function_is_named(reading, fault):
    report = check(twin([fault]), reading, (X,), expect=EXPECT, bisect=True)
    assert not report.passed
    assert report.first_difference.startswith(f"first difference: {fault} (output: max_abs")
    assert report.first_difference in str(report)


def test_the_first_of_several(reading):
    report = check(twin(["right.scale", "left.scale", "step"]), reading, (X,), expect=EXPECT, bisect=True)
    assert "first difference: left.scale" in report.first_difference


def test_bound_methods_serve_and_a_pass_looks_no_further(reading):
    good = twin()
    report = check(good.forward, reading.forward, (X,), expect=EXPECT, bisect=True)
    assert report.passed and report.first_difference is None


def test_a_fault_outside_every_function(reading):
    class Off:
        def __init__(self, inner):
            self.__self__ = inner

        def __call__(self, x):
            return self.__self__(x) + 1

    report = check(Off(twin()), reading, (X,), expect=EXPECT, bisect=True)
    assert "none of the functions by itself" in report.first_difference


@pytest.mark.spec("module.caller-refuses-none")
def test_a_candidate_that_stands_for_no_module_is_refused(reading):
    compiled = CompiledModule(type=EntryABI("f", ()), fn=print)
    for candidate in (compiled, RuntimeModule("r"), torch.exp):
        with pytest.raises(TypeError, match="stands for none"):
            check(candidate, reading, (X,), expect=EXPECT, bisect=True)
    with pytest.raises(TypeError, match="needs a reading as reference"):
        check(twin(), toy.Tree, (X,), expect=EXPECT, bisect=True)


def test_a_kernel_that_raises_is_the_difference(reading):
    broken = twin(["raise"])

    class Off:
        __self__ = broken

        def __call__(self, x):
            return torch.zeros_like(x)

    report = check(Off(), reading, (X,), expect=EXPECT, bisect=True)
    assert report.first_difference == "first difference: step (its kernel raises RuntimeError: planted)"


def test_results_of_another_form_are_the_difference():
    want = (torch.ones(2), torch.ones(3))
    for have, message in (
        (torch.ones(2), "output should be a tuple of 2"),
        ((torch.ones(2),), "output should be a tuple of 2"),
        ((torch.ones(2), torch.ones(4)), r"output[1] is torch.float32[4], expected torch.float32[3]"),
        (
            (torch.ones(2).double(), torch.ones(3)),
            r"output[0] is torch.float64[2], expected torch.float32[2]",
        ),
        ((None, torch.ones(3)), "output[0] is a NoneType, expected a Tensor"),
        ((torch.ones(2), 3.0), "output[1] is a float, expected a Tensor"),
        ((torch.ones(2), (torch.ones(3),)), "output[1] is a tuple, expected a Tensor"),
        (want, None),
    ):
        assert _difference("output", have, want, [MaxAbs(0)]) == message
