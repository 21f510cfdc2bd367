"""What @prim_func refuses, with its message. Oracle: the rule that is broken."""

from __future__ import annotations

import pytest
import torch

from tilefoundry.dsl import T, prim_func
from tilefoundry.inspection import as_script
from tilefoundry.ir.errors import DslError, EvaluationError


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("x[0] = 1.0\n    y[0] = x[0]\n    w[0] = 1.0", r"the weight w|last parameters"),
        ("x[0] = 1.0", "stores to x; what a @prim_func writes are its last parameters"),
        ("y[0] = 1", r"the int 1 cannot be a f32 constant; write 1.0"),
        ("y[0] = k[0]", "y: f32.* takes f32, got i32; use T.cast"),
        ("y[0] = x[0] + k[0]", "add takes scalars of one dtype, got f32, i32"),
        ("y[0] = x", r"a scalar is needed here, got x: f32\[N\]; read an element"),
        ("y[0] = x[0:2]", "a scalar is needed here"),
        ("y = x + 1.0", r"\+ is not defined on x: f32\[N\] and 1.0"),
        ("y[0:2] = 1.0", "is stored to one element at a time"),
        ("y[0, 0] = 1.0", "2 indices for y"),
        ("y[-1] = 1.0", "an index counts from the start"),
        ("y[N - 200] = 1.0", r"counts from the start of its axis, got N - 200"),
        ("y[99] = 1.0", r"\[99\] reaches element number 99 of y: f32\[N\], which has N"),
        ("y[0] = x[N]", r"\[N\] reaches element number N of x"),
        ("T.copy(x[95:101], y[0:6])", r"\[95:101\] reaches element number 100 of x"),
        ("T.copy(T.tensor_view(x, (N, 2), (1, N)), y)", r"its last element is number N \* 2 - 1 of x"),
        ("T.copy(T.tensor_view(x, (4,), (1,), N), y)", r"its last element is number N \+ 3 of x"),
        ("v = T.tensor_view(x)", r"T.tensor_view\(src, shape, strides, offset=0\): missing .* 'shape'"),
        ("v = T.alloc_tensor(x, 5)", r"T.alloc_tensor\(annotation\): too many positional arguments"),
        ("for i, j in T.parallel(N, price=2): y[0] = 1.0", r"T.parallel\(extent, cost=1\): .* 'price'"),
        ("a = T.accumulator('sum', 'f32', 1)", r"T.accumulator\(kind='sum', dtype='f32'\): too many"),
        ("y[k[0]] = 1.0", "an index is an int, a loop variable or an extent"),
        ("y[x[0]] = 1.0", "an index is an int, a loop variable or an extent"),
        ("z = x[0]\n    z += 1.0", "only acc \\+= value on a T.accumulator"),
        ("T.copy(x, 3)", "a buffer or a window of one is needed here, got 3"),
        ("T.copy(x)", r"T.copy\(src, dst\): dst missing"),
        ("T.relu(x, k)", "T.relu takes buffers of one dtype"),
        ("T.copy(x[0:3], y[0:2])", "src is f32.3., dst f32.2.; their sizes must be equal"),
        ("T.relu(x[0:3], y[0:2])", "they must have one shape"),
        ("T.binary(x[0:3], x[0:2], y[0:3], 'add')", "rhs is f32.2., dst f32.3.; extents must be equal or 1"),
        ("T.rms_norm(x, w[0:2], y, 1e-6)", "one weight per element of the last axis"),
        ("T.reduce(x, y, axes=(0,), kind='sum')", r"without the axes \(0,\) dst is \[\]"),
        ("T.reduce(x, y, axes=(1,), kind='sum')", "there is no axis 1"),
        ("T.binary(x, x, y, kind='plus')", "unknown BinaryKind 'plus'"),
        ("T.sync(3)", "a Mesh is needed"),
        ("T.exp(x[0])", "the value of this statement is not used"),
        ("v = T.copy(x, y)", "this call is a statement"),
        ("y[0] = T.nothing(x[0])", "tilefoundry.dsl.T has no 'nothing'"),
        ("y[0] = tf.softmax(x[0], axis=0)", "softmax is not computed on scalars"),
        ("y[0] = T.exp(x[0], x[0])", "exp takes 1 scalars, got 2"),
        ("y[0] = T.select(x[0], x[0], x[0])", "select takes a bool condition"),
        ("y[0] = T.cast(x[0], 'f31')", "unknown dtype 'f31'"),
        ("if x[0]: y[0] = 1.0", "a condition is a bool scalar"),
        ("if N: y[0] = 1.0", "compare the extent N with something"),
        ("while True: y[0] = 1.0", "the condition of while must change"),
        ("while N > 3: y[0] = 1.0", "while must change and is one value; compare an element of a buffer"),
        ("v = x[0]\n    while v < 9.0: y[0] = v", "the condition of while must change"),
        ("while x[0] < 9.0: y[0] = x[0]", "while reads x, and its body writes nothing of that"),
        ("while x[0] < y[0]: T.copy(x, x2)", "x2 is not defined"),
        (
            "acc = T.accumulator('sum', 'f32')\n    while acc + x[0] < 9.0: y[0] = 1.0",
            "while reads acc, x, and its body writes nothing of that",
        ),
        ("y[0] = T.clamp(x[0], 2.0, 1.0)", "T.clamp: min_val=2.0 lies above max_val=1.0; swap them"),
        ("y[0] = T.clamp(x[0])", "T.clamp needs min_val or max_val"),
        ("y[0] = T.clamp(x[0], 'a')", "T.clamp: min_val is a number, got 'a'"),
        ("y[0] = T.clamp(x[0], float('nan'), 1.0)", "T.clamp: min_val is a number, got nan"),
        ("T.clamp(x, y, 2, 1)", "T.clamp: min_val=2 lies above max_val=1; swap them"),
        ("T.clamp(x, y, None, None)", "T.clamp needs min_val or max_val"),
        ("for i in T.parallel(N): y[0] = 1.0", "gives the two ends of a piece"),
        ("for i, j in range(4): y[0] = 1.0", "a counted loop has one index"),
        ("for i in range(4): v = x[i]\n    y[0] = v", "v is not defined here"),
        ("i = 2\n    for i in range(4): y[i] = x[i]\n    y[0] = x[i]", "i is not defined here"),
        (
            "for i in range(2):\n        for i in range(4): y[i] = x[i]\n        y[i] = 1.0",
            "i is not defined here",
        ),
        ("v = x[0]\n    while x[0] < 9.0: v = v + 1.0", "v is bound outside this block .* T.accumulator"),
        ("v = x[0]\n    for i in range(4): v = v + x[i]\n    y[0] = v", "v is bound outside this block"),
        ("v = x[0]\n    if v > 1.0: v = 1.0\n    y[0] = v", "v is bound outside this block"),
        ("if x[0] > 1.0: y = T.tensor_view(y, (1,), (1,))", "y is bound outside this block"),
        ("return x", "a @prim_func returns nothing"),
        ("a = T.alloc_tensor(4)", "T.alloc_tensor takes Tensor"),
        (
            "a = T.alloc_tensor(Tensor[(DimVar('K', 1, 4),), 'f32'])",
            "no parameter's shape gives the extent K",
        ),
        ("T.launch(f, x)", "f is not defined here"),
        ("T.launch(len, x)", "T.launch starts a @prim_func"),
        ("T.abort(x[0], 'no')", "T.abort takes a bool scalar"),
        ("lambda: x", "a lambda is not part of the DSL"),
    ],
)
def test_refused_bodies(run, body, message):
    with pytest.raises(DslError, match=message):
        run(
            f"""\
N = DimVar("N", 1, 100)
@prim_func
def f(x: Tensor[(N,), "f32"], k: Tensor[(N,), "i32"], w: ConstTensor[(N,), "f32"], y: Tensor[(N,), "f32"]):
    {body}
"""
        )


def test_a_result_type_is_refused(run):
    with pytest.raises(DslError, match="a @prim_func returns nothing"):
        run("@prim_func\ndef f(x: Tensor[(4,), 'f32']) -> Tensor[(4,), 'f32']:\n    pass\n")


def test_a_func_body_cannot_call_a_prim_func(run):
    with pytest.raises(
        DslError,
        match=r"f is a @prim_func without levels of its own, which a @prim_func launches; .* same class",
    ):
        run(
            """
            @prim_func
            def f(x: Tensor[(4,), "f32"], y: Tensor[(4,), "f32"]):
                T.copy(x, y)
            @func
            def g(x: Tensor[(4,), "f32"]):
                return f(x)
            """
        )


def test_ops_have_no_meaning_outside():
    with pytest.raises(TypeError, match=r"T.copy has a meaning inside a @prim_func only"):
        T.copy(1, 2)
    with pytest.raises(TypeError, match="@prim_func decorates a def"):
        prim_func(3)


@pytest.mark.spec("tir.launch")
@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("T.launch(kernel, x, y, cooperative=1)", "cooperative= is True or False, got 1"),
        ("T.launch(kernel, x, y, cluster=0)", "cluster= takes positive ints, got 0"),
        ("T.launch(kernel, x, y, cluster=(4, 4))", "at most 8 CTAs in all"),
        ("T.launch(kernel, x, y, cluster=(1, 1, 1, 1))", "takes 1 to 3 extents"),
        ("T.launch(kernel, x, y, grid=3, cluster=2)", "does not divide the grid"),
        (
            "T.launch(kernel, x, y, stream=3)",
            "no launch attribute stream; there are cooperative, cluster, programm",
        ),
        ("T.launch(kernel, x)", r"kernel takes 2 buffers \(x, y\), got 1"),
        ("T.launch(kernel, x, w)", "y makes K = 8, a buffer before it 4"),
        (
            "T.launch(kernel, w[:, 0:4], y)",
            r"x takes a dense buffer, got a window of w with the strides \(8, 1\)",
        ),
        ("T.launch(kernel, w, y)", "y makes K = 4, a buffer before it 8"),
        ("T.launch(kernel, x, x, grid=0)", "grid= takes positive extents, got 0"),
        ("T.launch(plain, x, y)", "T.launch starts a @prim_func, got"),
        ("T.launch(outside, x, y)", "starts a @prim_func of its own module, and outside is defined outside"),
        ("T.launch(child, x)", "f takes 2 buffers"),
        ("T.launch(child.g, x, y)", "T.launch starts a @prim_func, got child.g, a @func"),
        ("T.launch(child.h, x, y)", "has no function or child 'h'"),
        ("T.launch(many, big, big)", "x makes A = 50, which lies in .* declared .1, 9. there"),
        ("T.launch(doubled, x, y)", "got the extent N where 8 is expected"),
    ],
)
def test_refused_launches(run, call, message):
    with pytest.raises(DslError, match=message):
        run(
            f"""\
N, K, A = DimVar("N", 1, 100), DimVar("K", 1, 9), DimVar("A", 1, 9)

@prim_func
def outside(x: Tensor[(N, 4), "f32"], y: Tensor[(N, 4), "f32"]):
    T.copy(x, y)

@module
class M:
    @module(entry="f")
    class child:
        @prim_func
        def f(x: Tensor[(N, 4), "f32"], y: Tensor[(N, 4), "f32"]):
            T.copy(x, y)
        @func
        def g(x: Tensor[(N, 4), "f32"]):
            return x
    @func
    def plain(x: Tensor[(N, 4), "f32"]):
        return x
    @prim_func
    def kernel(x: Tensor[(N, K), "f32"], y: Tensor[(N, K), "f32"]):
        T.copy(x, y)
    @prim_func
    def many(x: Tensor[(A, A), "f32"], y: Tensor[(A, A), "f32"]):
        T.copy(x, y)
    @prim_func
    def doubled(x: Tensor[(N, K), "f32"], y: Tensor[(K * 2, K), "f32"]):
        T.fill(y, 0.0)
    @prim_func
    def host(x: Tensor[(N, 4), "f32"], w: Tensor[(N, 8), "f32"], big: Tensor[(50, 50), "f32"],
             y: Tensor[(N, 4), "f32"]):
        {call}
"""
        )


def test_conditions_are_scalars(run):
    with pytest.raises(DslError, match=r"a scalar is needed here.*read an element"):
        run(
            """\
@prim_func
def f(m: Tensor[(4,), "bool"], y: Tensor[(4,), "f32"]):
    if m[0:2]:
        y[0] = 1.0
"""
        )


def test_a_prim_func_that_stores_nothing_has_no_value(run):
    with pytest.raises(DslError, match=r"k\.k is a @prim_func that stores to none of its parameters"):
        run(
            """\
@module
class M:
    @prim_func(topologies=(Topology("cta", 4),))
    def k(x: Tensor[(4,), "f32"]):
        v = x[0]
    @func
    def f(x: Tensor[(4,), "f32"]):
        return k(x)
"""
        )


def test_a_call_of_a_prim_func_takes_what_it_reads_and_gives_what_it_writes(run):
    """Oracle: the types in the text; the printed module reads back equal."""
    found = run(
        """\
N = DimVar("N", 1, 9)
@module(entry="f")
class M:
    @prim_func(topologies=(Topology("cta", 4),))
    def k(x: Tensor[(N,), "f32"], y: Tensor[(N,), "f32"], z: Tensor[(N, 1), "f32"]):
        T.copy(x, y)
        T.copy(x, T.tensor_view(z, (N,), (1,)))
    @func
    def f(x: Tensor[(N,), "f32"]):
        return k(x)
"""
    )["M"]
    assert str(found.entry_function().result) == "tuple[f32[N], f32[N, 1]]"
    assert run(as_script(found))["M"] == found
    with pytest.raises(EvaluationError, match=r"k\.k is a @prim_func: its statements are compiled"):
        found(torch.ones(3))
