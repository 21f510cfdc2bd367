"""Names of programs as identifiers of C++."""

from __future__ import annotations

import re

__all__ = ["mangle"]

_WORDS = """
alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t
class compl concept const consteval constexpr constinit const_cast continue co_await co_return co_yield
decltype default delete do double dynamic_cast else enum explicit export extern false float for friend
goto if inline int long mutable namespace new noexcept not not_eq nullptr operator or or_eq private
protected public register reinterpret_cast requires return short signed sizeof static static_assert
static_cast struct switch template this thread_local throw true try typedef typeid typename union
unsigned using virtual void volatile wchar_t while xor xor_eq restrict typeof main linux unix NULL EOF
INFINITY NAN assert errno stdin stdout stderr major minor blockIdx blockDim threadIdx gridDim warpSize
cute cutlass std tvm tilefoundry ops math host detail index_t convert widen make_view parallel_for copy
fill args entry data extents tensors declaration bound slab f64 f32 f16 bf16 fp8e4m3 fp8e5m2 f8e8m0
f4e2m1 i64 i32 i16 i8 u8 View Scratch IndexFault min max abs
Arguments Bound Call DLTensor Declaration Int Kernel Layout Pack Param Program Shape Slab Stride TopologyScope Variable
as_gmem await_earlier_launches bind_arguments computed contract contract_computed cta device_fail device_of
entry_function exp_op fail
from_key_for_max from_key_for_min gelu_tanh_op identity infinity is_aligned join key_for_max kDLBfloat kDLCPU
kDLCUDA kDLFloat kDLInt
load_streaming make_layout make_mesh make_packed_epilogue make_shape make_shard_layout make_shard_tensor make_stride
make_tensor matmul matmul_workspace_bytes max_op nothing_to_write numeric_limits program_id program_shape
program_threads reduce reduce_workspace_bytes shard stay_packed store_streaming sum_op thread topk tuple visibility
"""
_RESERVED = frozenset(_WORDS.split())
_UNSAFE = re.compile(r"__|^_|_$|^\d|_t$|^(?=.*[A-Z])[A-Z0-9_]{2,}$")
"""Shapes of names that C++ keeps for itself, of the types of C, and of macros, which headers define by the hundred."""


def mangle(name: str) -> str:
    """``name`` as a C++ identifier: itself where that is safe, else a spelling that no other name has.

    Underscores at either end, double ones, reserved words, what may be a macro of some header, and characters outside
    of ASCII get a prefix or an escape, so that distinct names stay distinct.
    """
    escaped = "".join(c if c.isascii() and (c.isalnum() or c == "_") else f"_u{ord(c):x}_" for c in name)
    if escaped == name and name not in _RESERVED and not _UNSAFE.search(name):
        return name
    return f"v{_checksum(name)}_{re.sub('_+', '_', escaped).strip('_')}"


def _checksum(name: str) -> str:
    total = 0
    for char in name:
        total = (total * 131 + ord(char)) % 0xFFFFFF
    return f"{total:x}"
