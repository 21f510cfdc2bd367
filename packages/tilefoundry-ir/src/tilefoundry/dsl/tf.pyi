"""Signatures of the ops. Generated from the registry by tools/gen_tf_stubs.py; do not edit."""

from typing import Any

from tilefoundry.dsl.ranges import tile as tile

Value = Any
"""A tensor inside a program, or a number beside tensors."""

__all__ = [
    "add",
    "sub",
    "mul",
    "div",
    "floor_div",
    "mod",
    "minimum",
    "maximum",
    "cmp_eq",
    "cmp_ne",
    "cmp_lt",
    "cmp_le",
    "cmp_gt",
    "cmp_ge",
    "logical_and",
    "logical_or",
    "neg",
    "abs",
    "logical_not",
    "rsqrt",
    "sqrt",
    "exp",
    "exp2",
    "log",
    "log2",
    "square",
    "ceil",
    "floor",
    "round",
    "sin",
    "cos",
    "erf",
    "clamp",
    "relu",
    "sigmoid",
    "silu",
    "tanh",
    "softplus",
    "gelu",
    "softmax",
    "rms_norm",
    "layer_norm",
    "matmul",
    "grouped_matmul",
    "conv2d",
    "rope",
    "attention",
    "reduce",
    "cast",
    "quant",
    "reshape",
    "transpose",
    "repeat_interleave",
    "slice",
    "insert_slice",
    "concat",
    "stack",
    "split",
    "tuple_get_item",
    "index_select",
    "index_add",
    "index_copy",
    "cache_update",
    "where",
    "argmax",
    "topk",
    "arange",
    "zeros",
    "full_like",
    "shape_of",
    "rank",
    "workspace",
    "prefetch",
    "reshard",
    "local",
    "tile",
]

def add(
    lhs: Value,
    rhs: Value,
) -> Value:
    """lhs + rhs"""

def sub(
    lhs: Value,
    rhs: Value,
) -> Value:
    """lhs - rhs"""

def mul(
    lhs: Value,
    rhs: Value,
) -> Value:
    """lhs * rhs"""

def div(
    lhs: Value,
    rhs: Value,
) -> Value:
    """lhs / rhs, floats only"""

def floor_div(
    lhs: Value,
    rhs: Value,
) -> Value:
    """the exact quotient lhs / rhs rounded down"""

def mod(
    lhs: Value,
    rhs: Value,
) -> Value:
    """lhs - floor_div(lhs, rhs) * rhs, with the sign of rhs"""

def minimum(
    lhs: Value,
    rhs: Value,
) -> Value:
    """min(lhs, rhs); NaN wins"""

def maximum(
    lhs: Value,
    rhs: Value,
) -> Value:
    """max(lhs, rhs); NaN wins"""

def cmp_eq(
    lhs: Value,
    rhs: Value,
) -> Value:
    """lhs == rhs as bool"""

def cmp_ne(
    lhs: Value,
    rhs: Value,
) -> Value:
    """lhs != rhs as bool"""

def cmp_lt(
    lhs: Value,
    rhs: Value,
) -> Value:
    """lhs < rhs as bool"""

def cmp_le(
    lhs: Value,
    rhs: Value,
) -> Value:
    """lhs <= rhs as bool"""

def cmp_gt(
    lhs: Value,
    rhs: Value,
) -> Value:
    """lhs > rhs as bool"""

def cmp_ge(
    lhs: Value,
    rhs: Value,
) -> Value:
    """lhs >= rhs as bool"""

def logical_and(
    lhs: Value,
    rhs: Value,
) -> Value:
    """lhs and rhs, bool only"""

def logical_or(
    lhs: Value,
    rhs: Value,
) -> Value:
    """lhs or rhs, bool only"""

def neg(
    x: Value,
) -> Value:
    """-x; integers wrap"""

def abs(
    x: Value,
) -> Value:
    """|x|; the most negative integer stays itself"""

def logical_not(
    x: Value,
) -> Value:
    """not x, bool only"""

def rsqrt(
    x: Value,
) -> Value:
    """1 / sqrt(x)"""

def sqrt(
    x: Value,
) -> Value:
    """sqrt(x); NaN below zero"""

def exp(
    x: Value,
) -> Value:
    """e ** x"""

def exp2(
    x: Value,
) -> Value:
    """2 ** x"""

def log(
    x: Value,
) -> Value:
    """natural logarithm of x"""

def log2(
    x: Value,
) -> Value:
    """logarithm of x to base 2"""

def square(
    x: Value,
) -> Value:
    """x * x; integers wrap"""

def ceil(
    x: Value,
) -> Value:
    """the least integer not below x, as a float"""

def floor(
    x: Value,
) -> Value:
    """the greatest integer not above x, as a float"""

def round(
    x: Value,
) -> Value:
    """the nearest integer as a float, ties to even"""

def sin(
    x: Value,
) -> Value:
    """sin(x), radians"""

def cos(
    x: Value,
) -> Value:
    """cos(x), radians"""

def erf(
    x: Value,
) -> Value:
    """2 / sqrt(pi) * integral of exp(-t * t) for t from 0 to x"""

def clamp(
    x: Value,
    min_val: Any = None,
    max_val: Any = None,
) -> Value:
    """min(max(x, min_val), max_val); a bound that is None does not bind, NaN stays NaN"""

def relu(
    x: Value,
) -> Value:
    """max(x, 0); NaN stays NaN"""

def sigmoid(
    x: Value,
) -> Value:
    """1 / (1 + exp(-x))"""

def silu(
    x: Value,
) -> Value:
    """x * sigmoid(x)"""

def tanh(
    x: Value,
) -> Value:
    """tanh(x)"""

def softplus(
    x: Value,
) -> Value:
    """log(1 + exp(x)), without overflow"""

def gelu(
    x: Value,
    approximate: Any = "tanh",
) -> Value:
    """x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x ** 3))); approximate="none": x / 2 * (1 +
    erf(x / sqrt(2)))"""

def softmax(
    x: Value,
    axis: Any = -1,
) -> Value:
    """exp(x - max(x)) / sum(exp(x - max(x))) along axis"""

def rms_norm(
    x: Value,
    weight: Value = ...,
    eps: Any = 1e-06,
) -> Value:
    """x / sqrt(mean(x * x) + eps) * weight over the last axis; weight may be left out"""

def layer_norm(
    x: Value,
    weight: Value = ...,
    bias: Value = ...,
    axis: Any = -1,
    eps: Any = 1e-05,
) -> Value:
    """(x - mean) / sqrt(variance + eps) * weight + bias over the axes from axis to the last; weight and
    bias have the shape of those axes and may be left out"""

def matmul(
    lhs: Value,
    rhs: Value,
) -> Value:
    """out[..., i, j] = sum over k of lhs[..., i, k] * rhs[..., k, j]; leading axes broadcast"""

def grouped_matmul(
    x: Value,
    w: Value,
    offsets: Value,
) -> Value:
    """out[i] = x[i] @ w[e] for offsets[e] <= i < offsets[e + 1]; rows past the last offset are 0"""

def conv2d(
    x: Value,
    weight: Value,
    bias: Value = ...,
    stride: Any = (1, 1),
    padding: Any = (0, 0),
    dilation: Any = (1, 1),
    groups: Any = 1,
) -> Value:
    """out[b, o, i, j] = bias[o] + sum over c, u, v of weight[o, c, u, v] * x[b, g + c, i * stride + u *
    dilation - padding, ...], zero outside, g the first channel of o's group"""

def rope(
    q: Value,
    k: Value,
    cos_cache: Value,
    sin_cache: Value,
    pos_ids: Value,
) -> Value:
    """(q, k), each x * cos + rotate_half(x) * sin with the cache rows of pos_ids, rotate_half(x) =
    concat(-second half, first half) of the last axis; q and k are [batch, length, heads, dim]"""

def attention(
    q: Value,
    k: Value,
    v: Value,
    kv_len: Value = ...,
    scale: Any = None,
    causal: Any = False,
    window: Any = None,
    softcap: Any = None,
) -> Value:
    """softmax(mask(cap(q @ k.T * scale))) @ v per head, over the first kv_len keys; cap(s) = softcap *
    tanh(s / softcap); causal hides keys after the query's position, window those window or more before
    it; scale is 1 / sqrt(dim) by default"""

def reduce(
    x: Value,
    axes: Any = ...,
    keepdim: Any = True,
    kind: Any = ...,
) -> Value:
    """the sum, mean, max, min or max(|x|) over axes; keepdim leaves them with extent 1"""

def cast(
    x: Value,
    dtype: Any = ...,
) -> Value:
    """x in another dtype: to float rounds to nearest even; float to integer truncates and saturates,
    NaN gives 0; integers keep their low bits; bool is x != 0"""

def quant(
    x: Value,
    scheme: Any = "per_token_group",
    group: Any = 128,
    target_dtype: Any = ...,
) -> Value:
    """(q, f32 scales) over groups of the last axis: scale = max(max |x|, 1e-10) / limit of
    target_dtype, q = x / scale in target_dtype, integers rounded to nearest even"""

def reshape(
    x: Value,
    new_shape: Any = ...,
) -> Value:
    """the elements of x in row-major order under new_shape; one extent may be -1"""

def transpose(
    x: Value,
    perm: Any = None,
) -> Value:
    """axis i of the result is axis perm[i] of x; no perm reverses the axes"""

def repeat_interleave(
    x: Value,
    repeats: Any = ...,
    axis: Any = ...,
) -> Value:
    """out[..., i, ...] = x[..., i // repeats, ...] along axis"""

def slice(
    x: Value,
    *start: Value,
    starts: Any = ...,
    sizes: Any = None,
    strides: Any = None,
) -> Value:
    """out[i, ...] = x[starts[0] + i * strides[0], ...] for i < sizes[0]; a start that is None takes the
    next start operand; without sizes the window runs to the end of each axis"""

def insert_slice(
    dst: Value,
    update: Value,
    *offset: Value,
    offsets: Any = ...,
) -> Value:
    """dst with the window of update's shape at offsets replaced by update; an offset that is None takes
    the next offset operand"""

def concat(
    *xs: Value,
    axis: Any = 0,
) -> Value:
    """xs one after the other along axis"""

def stack(
    *xs: Value,
    axis: Any = 0,
) -> Value:
    """xs side by side along a new axis"""

def split(
    x: Value,
    axis: Any = ...,
    num_splits: Any = ...,
) -> Value:
    """x in num_splits equal parts along axis, as a tuple"""

def tuple_get_item(
    x: Value,
    index: Any = ...,
) -> Value:
    """element index of the tuple x"""

def index_select(
    x: Value,
    index: Value,
    dim: Any = 0,
) -> Value:
    """out[a, i, b] = x[a, index[i], b] with i over the axes of index, in the place of axis dim of x"""

def index_add(
    dst: Value,
    index: Value,
    src: Value,
    dim: Any = 0,
) -> Value:
    """dst with src[i] added to row index[i] along dim; equal indices add up, rounded once"""

def index_copy(
    dst: Value,
    index: Value,
    src: Value,
    dim: Any = 0,
) -> Value:
    """dst with row index[i] along dim replaced by src[i]; of equal indices the last counts"""

def cache_update(
    cache: Value,
    cur_pos: Value,
    s: Value,
    new: Value,
) -> Value:
    """cache with cache[:, cur_pos : cur_pos + s] replaced by new[:, :s]; [batch, length, heads, dim]"""

def where(
    condition: Value,
    a: Value,
    b: Value,
) -> Value:
    """a where condition holds, b elsewhere; all three broadcast"""

def argmax(
    x: Value,
    axis: Any = -1,
) -> Value:
    """the i64 index of the greatest element along axis, which is dropped; the lowest index of equals"""

def topk(
    x: Value,
    k: Any = ...,
    axis: Any = -1,
    largest: Any = True,
    sorted: Any = True,
) -> Value:
    """(values, i64 indices) of the k greatest (or least) elements along axis, best first; equal values
    go to the lower index; the evaluator sorts whether asked or not"""

def arange(
    end: Any = ...,
    start: Any = 0,
    step: Any = 1,
    dtype: Any = ...,
) -> Value:
    """start, start + step, ... below end, as i32 or i64"""

def zeros(
    type: Any = ...,
    dtype: Any = None,
    storage: Any = None,
) -> Value:
    """a tensor of the type, or of a shape, dtype and storage, every element 0"""

def full_like(
    x: Value,
    value: Any = ...,
) -> Value:
    """value at every place of x, rounded once to its dtype"""

def shape_of(
    x: Value,
) -> Value:
    """the extents of x as i64"""

def rank(
    x: Value,
) -> Value:
    """the number of axes of x as an i64 scalar"""

def workspace(
    type: Any = ...,
    dtype: Any = None,
    storage: Any = None,
    zero: Any = False,
) -> Value:
    """scratch memory of the type, 0 where asked and undefined otherwise (the evaluator fills in NaN or
    the greatest integer)"""

def prefetch(
    x: Value,
) -> Value:
    """x; asks for its bytes to be brought near before they are read"""

def reshard(
    x: Value,
    layout: Any = None,
    storage: Any = None,
) -> Value:
    """x under another layout and in another storage; its value stays"""

def local(
    x: Value,
) -> Value:
    """what the running instance holds of x: extent 1 along split canonical axes, all of the others"""

max = maximum

min = minimum
