"""What ``place`` gives, printed, run as a module file and compiled again. Oracle: the source of the program itself."""

from __future__ import annotations

import pytest

from tilefoundry import func, lower, module
from tilefoundry.codegen import place
from tilefoundry.dsl import ConstTensor, DimVar, DimVarRangePat, Tensor, tf
from tilefoundry.inspection import as_script
from tilefoundry.target import CpuTarget

from .cpu import test_golden_sources as goldens
from .cpu.harness import Program
from .cpu.random_programs import random_program
from .cuda import hand_placed_modules, hand_placed_programs, hand_placed_statements
from .cuda.runners import computing_with
from .cuda.test_golden_sources import PROGRAMS as CUDA_GOLDENS
from .cuda.test_ops_compile import TESTS
from .placed_text import H200, read_back, same_code, source_of

TARGETS = [pytest.param(CpuTarget(), id="cpu"), pytest.param(H200, id="cuda")]
S = DimVar("S", 1, 4096)


@pytest.mark.parametrize("make", dict.fromkeys([*goldens.PROGRAMS, *CUDA_GOLDENS]), ids=lambda m: m.__name__)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.spec("placement.text")
def test_golden_programs(make, target):
    same_code(make(), target)


@pytest.mark.parametrize("test,args", TESTS, ids=lambda value: getattr(value, "__name__", ""))
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.spec("placement.text")
def test_every_op(test, args, target):
    seen = []

    def runner(module, tensors, options):
        seen.append(same_code(module, target))

    with computing_with(runner):
        test(*args)
    assert seen


@pytest.mark.parametrize("batch", range(4))
@pytest.mark.spec("placement.text")
def test_a_hundred_random_programs(batch):
    for seed in range(batch * 25, batch * 25 + 25):
        function, _ = random_program(seed, 10)
        same_code(function, H200)
        if seed % 5 == 0:
            same_code(function, CpuTarget())


def encoder_layer(hidden: int, heads: int) -> object:
    """A post-norm encoder layer with weights of its own and of a child."""
    head = hidden // heads

    @module(entry="mlp")
    class Mlp:
        @func
        def mlp(
            x: Tensor[(2, S, hidden), "f32"],
            up: ConstTensor[(hidden, 4 * hidden), "f32"],
            up_bias: ConstTensor[(4 * hidden,), "f32"],
            down: ConstTensor[(4 * hidden, hidden), "f32"],
        ) -> Tensor[(2, S, hidden), "f32"]:
            return tf.gelu(x @ up + up_bias) @ down

    @module(entry="layer")
    class Layer:
        feed_forward = Mlp

        @func
        def layer(
            x: Tensor[(2, S, hidden), "f32"],
            qkv: ConstTensor[(hidden, 3 * hidden), "f32"],
            out: ConstTensor[(hidden, hidden), "f32"],
            gain: ConstTensor[(hidden,), "f32"],
            bias: ConstTensor[(hidden,), "f32"],
        ) -> Tensor[(2, S, hidden), "f32"]:
            three = tf.transpose(tf.reshape(x @ qkv, (2, S, 3, heads, head)), perm=(2, 0, 3, 1, 4))
            q, k, v = three[0], three[1], three[2]
            scores = tf.softmax(q @ tf.transpose(k, perm=(0, 1, 3, 2)) * 0.125, axis=-1)
            mixed = tf.reshape(tf.transpose(scores @ v, perm=(0, 2, 1, 3)), (2, S, hidden))
            y = tf.layer_norm(x + mixed @ out, gain, bias, eps=1e-12)
            return y + feed_forward(y)  # a member of the class

    return Layer


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.spec("placement.text")
def test_an_encoder_layer_keeps_the_paths_of_its_weights(target):
    layer = encoder_layer(64, 4)
    text = same_code(layer, target)
    assert '"feed_forward.up"' in text
    placed = place(layer, target=target)
    assert all(child.topologies is not None for child in placed.modules)


def grouped_layer() -> object:
    """RMS norms, grouped heads, rotary positions and a gated projection in bf16."""
    p = Program("layer")
    x, positions = p.param("x", (1, S, 64), "bf16"), p.param("positions", (S,), "i64")
    gain = p.param("gain", (64,), "bf16")
    h = p("rms_norm", x, gain)
    q = p("reshape", p("matmul", h, p.param("wq", (64, 64), "bf16")), new_shape=(1, S, 4, 16))
    k = p("reshape", p("matmul", h, p.param("wk", (64, 32), "bf16")), new_shape=(1, S, 2, 16))
    v = p("reshape", p("matmul", h, p.param("wv", (64, 32), "bf16")), new_shape=(1, S, 2, 16))
    cos, sin = p.param("cos", (40, 16), "f32"), p.param("sin", (40, 16), "f32")
    q, k = p.items(p("rope", q, k, cos, sin, positions))
    q, k, v = (p("transpose", t, perm=(0, 2, 1, 3)) for t in (q, k, v))
    mixed = p(
        "reshape",
        p("transpose", p("attention", q, k, v, causal=True), perm=(0, 2, 1, 3)),
        new_shape=(1, S, 64),
    )
    y = p("add", x, p("matmul", mixed, p.param("wo", (64, 64), "bf16")))
    n = p("rms_norm", y, gain)
    gate = p("silu", p("matmul", n, p.param("wg", (64, 96), "bf16")))
    up = p("mul", gate, p("matmul", n, p.param("wu", (64, 96), "bf16")))
    return p.done(p("add", y, p("matmul", up, p.param("wd", (96, 64), "bf16"))))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.spec("placement.text")
def test_a_decoder_layer_with_grouped_heads(target):
    same_code(grouped_layer(), target)


@func
def chosen(x: Tensor[(S, 4), "f32"]) -> Tensor[(S, 4), "f32"]:
    pass


@chosen.specialize(DimVarRangePat("S", 1, 8))
def few(x: Tensor[(S, 4), "f32"]) -> Tensor[(S, 4), "f32"]:
    return tf.softmax(x)


@chosen.specialize(DimVarRangePat("S", 8, 4096))
def many(x: Tensor[(S, 4), "f32"]) -> Tensor[(S, 4), "f32"]:
    return tf.exp(x)


@func
def looped(x: Tensor[(8, 64), "f32"], w: Tensor[(S, 64, 64), "f32"]) -> Tensor[(8, 64), "f32"]:
    for i in range(S):
        x = tf.silu(x @ w[i])
    return x


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.spec("placement.text")
def test_loops_around_kernels(target):
    assert "for i in range(S):" in same_code(looped, target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.spec("placement.text")
def test_variants(target):
    same_code(chosen, target)


@pytest.mark.parametrize(
    "program",
    [
        hand_placed_modules.tiles,
        hand_placed_modules.host_between,
        hand_placed_modules.variants,
        hand_placed_programs.product,
        hand_placed_statements.product,
    ],
    ids=lambda program: program.name,
)
@pytest.mark.spec("placement.text")
def test_programs_that_their_authors_placed_stay_as_they_are(program):
    same_code(program, H200)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.spec("placement.text")
def test_a_kernel_with_another_op_in_it_is_compiled_as_edited(target):
    """Oracle: the kernel's name stays, its comment says the other op."""
    program = goldens.pointwise()
    text = as_script(place(program, target=target))
    edited = read_back(text.replace("tf.exp(", "tf.exp2("), "pointwise")
    source = source_of(edited, target)
    assert "tf.exp2(" in source and "tf.exp(" not in source
    names = [f.name for f in lower(edited, target=target).functions]
    assert names == [f.name for f in lower(program, target=target).functions]


@pytest.mark.spec("placement.text")
def test_metadata_that_names_other_parameters_is_refused():
    text = as_script(place(goldens.pointwise(), target=H200))
    wrong = read_back(text.replace('("x", "y")', '("x",)'), "pointwise")
    with pytest.raises(ValueError, match="param_paths names 1 parameters, pointwise has 2"):
        lower(wrong, target=H200)
