"""Device code of every op compiles through NVRTC without a GPU. Oracle: the compiler."""

import pytest

from ..cpu import test_ops as ops
from .runners import compile_for, computing_with

TESTS = [
    (ops.test_unary_ops, ("bf16",)),
    (ops.test_binary_ops_broadcast, ("f32",)),
    (ops.test_integer_ops, ("i32",)),
    (ops.test_logic_and_select, ()),
    (ops.test_reductions_over_every_kind_of_axes, ("f16", "absmax")),
    (ops.test_row_ops, ("bf16",)),
    (ops.test_matmul_with_epilogues, ("bf16",)),
    (ops.test_views_and_copies, ()),
    (ops.test_indexing, ("f32",)),
    (ops.test_argmax_and_topk, ()),
    (ops.test_windows_with_values, ()),
    (ops.test_creation, ()),
    (ops.test_attention, ("bf16",)),
    (ops.test_rope_grouped_matmul_and_convolution, ("f32",)),
]


@pytest.mark.slow
@pytest.mark.parametrize("test,args", TESTS, ids=lambda value: getattr(value, "__name__", ""))
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.spec("pipeline.cross-compile")
def test_device_code_compiles(test, args, arch):
    with computing_with(compile_for(arch)):
        test(*args)
