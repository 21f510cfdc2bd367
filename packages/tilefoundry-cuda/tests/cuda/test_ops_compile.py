"""Device code of every op compiles through NVRTC without a GPU. Oracle: the compiler."""

import pytest

from ..cpu import test_elementwise, test_moves, test_products, test_reductions
from .runners import compile_for, computing_with

TESTS = [
    (test_elementwise.test_unary_ops, ("bf16",)),
    (test_elementwise.test_binary_ops_broadcast, ("f32",)),
    (test_elementwise.test_integer_ops, ("i32",)),
    (test_elementwise.test_logic_and_select, ()),
    (test_reductions.test_reductions_over_every_kind_of_axes, ("f16", "absmax")),
    (test_reductions.test_row_ops, ("bf16",)),
    (test_products.test_matmul_with_epilogues, ("bf16",)),
    (test_moves.test_views_and_copies, ()),
    (test_moves.test_indexing, ("f32",)),
    (test_reductions.test_argmax_and_topk, ()),
    (test_moves.test_windows_with_values, ()),
    (test_elementwise.test_creation, ()),
    (test_elementwise.test_casts, ("f32",)),
    (test_products.test_quant, ("fp8e4m3",)),
    (test_products.test_attention, ("bf16",)),
    (test_products.test_rope_grouped_matmul_and_convolution, ("f32",)),
]


@pytest.mark.slow
@pytest.mark.parametrize("test,args", TESTS, ids=lambda value: getattr(value, "__name__", ""))
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.spec("pipeline.cross-compile")
def test_device_code_compiles(test, args, arch):
    with computing_with(compile_for(arch)):
        test(*args)
