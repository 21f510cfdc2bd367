"""Tokens per second of a decoder of Qwen3-1.7B's shapes, batch 1, bf16, beside torch in a CUDA graph.

    python benchmarks/decode.py                          contexts of 128 and 2048 tokens
    python benchmarks/decode.py --layers 2 --kernels     fewer layers; each kernel of a layer with its time

Needs an NVIDIA GPU. Weights are random: only their bytes matter. One layer is compiled once and called for every
layer's weights; caches are written in place; a whole step, from the token's id to the next one's, is one CUDA graph.
The first step's hidden state is compared with torch's before anything is timed.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable

import torch

from tilefoundry import func, jit
from tilefoundry.dsl import Tensor, tf

HIDDEN, HEADS, SHARED, DIM, FFN, VOCABULARY, LIMIT, EPS = 2048, 16, 8, 128, 6144, 151936, 2304, 1e-6
QKV = (HEADS + 2 * SHARED) * DIM
CACHE = (1, LIMIT, SHARED, DIM)


@func
def layer(
    x: Tensor[(1, HIDDEN), "bf16"],
    position: Tensor[(1,), "i32"],
    length: Tensor[(1,), "i32"],
    cos: Tensor[(LIMIT, DIM), "f32"],
    sin: Tensor[(LIMIT, DIM), "f32"],
    keys: Tensor[CACHE, "bf16"],
    values: Tensor[CACHE, "bf16"],
    attention_gain: Tensor[(HIDDEN,), "bf16"],
    w_qkv: Tensor[(QKV, HIDDEN), "bf16"],
    q_gain: Tensor[(DIM,), "bf16"],
    k_gain: Tensor[(DIM,), "bf16"],
    w_o: Tensor[(HIDDEN, HEADS * DIM), "bf16"],
    ffn_gain: Tensor[(HIDDEN,), "bf16"],
    w_gate: Tensor[(FFN, HIDDEN), "bf16"],
    w_up: Tensor[(FFN, HIDDEN), "bf16"],
    w_down: Tensor[(HIDDEN, FFN), "bf16"],
) -> tuple[Tensor[(1, HIDDEN), "bf16"], Tensor[CACHE, "bf16"], Tensor[CACHE, "bf16"]]:
    normed = tf.rms_norm(x, attention_gain, eps=EPS)
    qkv = tf.reshape(normed @ tf.transpose(w_qkv, (1, 0)), (1, 1, HEADS + 2 * SHARED, DIM))
    q = tf.rms_norm(qkv[:, :, :HEADS], q_gain, eps=EPS)
    k = tf.rms_norm(qkv[:, :, HEADS : HEADS + SHARED], k_gain, eps=EPS)
    q, k = tf.rope(q, k, cos, sin, position)
    keys = tf.cache_update(keys, position, 1, k)
    values = tf.cache_update(values, position, 1, qkv[:, :, HEADS + SHARED :])
    heads = [tf.transpose(t, (0, 2, 1, 3)) for t in (q, keys, values)]
    mixed = tf.attention(heads[0], heads[1], heads[2], length, causal=True)
    x = x + tf.reshape(mixed, (1, HEADS * DIM)) @ tf.transpose(w_o, (1, 0))
    normed = tf.rms_norm(x, ffn_gain, eps=EPS)
    gate = tf.silu(normed @ tf.transpose(w_gate, (1, 0)))
    return x + (gate * (normed @ tf.transpose(w_up, (1, 0)))) @ tf.transpose(w_down, (1, 0)), keys, values


@func
def embed(
    token: Tensor[(1,), "i64"], table: Tensor[(VOCABULARY, HIDDEN), "bf16"]
) -> Tensor[(1, HIDDEN), "bf16"]:
    return tf.index_select(table, token, dim=0)


@func
def head(
    x: Tensor[(1, HIDDEN), "bf16"],
    gain: Tensor[(HIDDEN,), "bf16"],
    table: Tensor[(VOCABULARY, HIDDEN), "bf16"],
) -> Tensor[(1,), "i64"]:
    logits = tf.rms_norm(x, gain, eps=EPS) @ tf.transpose(table, (1, 0))
    return tf.argmax(logits, axis=1)


class Model:
    """Random weights, caches, and two ways to take a step with them."""

    def __init__(self, layers: int) -> None:
        torch.manual_seed(0)
        self.weights = [_layer_weights() for _ in range(layers)]
        self.table, self.gain = _matrix(VOCABULARY, HIDDEN), _gain(HIDDEN)
        shape = (layers, 2, *CACHE)
        self.caches = torch.randn(shape, device="cuda").to(torch.bfloat16)
        exponent = torch.arange(0, DIM, 2, device="cuda") / DIM
        angles = torch.arange(LIMIT, device="cuda")[:, None] * (1.0 / 1e6**exponent)
        both = torch.cat((angles, angles), dim=-1)
        self.cos, self.sin = both.cos(), both.sin()
        # How many tokens lie in the caches before a step, and after it.
        self.counts = torch.zeros(2, dtype=torch.int32, device="cuda")
        self.position, self.length = self.counts.split(1)
        self.token = torch.zeros(1, dtype=torch.int64, device="cuda")

    def start(self, context: int) -> None:
        """Let the next step find ``context`` tokens."""
        self.counts.copy_(torch.tensor([context, context + 1], dtype=torch.int32))

    def ours(self) -> Callable[[], torch.Tensor]:
        """A step of compiled functions; its result is the last hidden state."""
        run, first, last = (jit(f, target="cuda") for f in (layer, embed, head))
        hidden = [torch.empty(1, HIDDEN, dtype=torch.bfloat16, device="cuda") for _ in range(2)]

        def step() -> torch.Tensor:
            x, spare = hidden
            first(self.token, self.table, x)
            for weights, (keys, values) in zip(self.weights, self.caches, strict=True):
                run(
                    x,
                    self.position,
                    self.length,
                    self.cos,
                    self.sin,
                    keys,
                    values,
                    *weights,
                    spare,
                    keys,
                    values,
                )
                x, spare = spare, x
            last(x, self.gain, self.table, self.token)
            self.counts += 1
            return x

        return step

    def torch_form(self) -> Callable[[], torch.Tensor]:
        """The same step of torch's own operations."""

        def step() -> torch.Tensor:
            x = self.table[self.token]
            for weights, (keys, values) in zip(self.weights, self.caches, strict=True):
                x = _torch_layer(x, self.position, self.cos, self.sin, keys, values, *weights)
            self.token.copy_((_norm(x, self.gain) @ self.table.T).argmax(-1))
            self.counts += 1
            return x

        return step


def _norm(x: torch.Tensor, gain: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.rms_norm(x, x.shape[-1:], gain, EPS)


def _torch_layer(x, position, cos, sin, keys, values, gain, qkv, q_gain, k_gain, o, ffn_gain, gate, up, down):
    mixed = (_norm(x, gain) @ qkv.T).view(1, HEADS + 2 * SHARED, DIM)
    c, s = cos[position], sin[position]

    def turn(t: torch.Tensor) -> torch.Tensor:
        low, high = t.float().chunk(2, dim=-1)
        return (t * c + torch.cat((-high, low), dim=-1) * s).to(t.dtype)

    q, k = turn(_norm(mixed[:, :HEADS], q_gain)), turn(_norm(mixed[:, HEADS : HEADS + SHARED], k_gain))
    keys.index_copy_(1, position.long(), k[None])
    values.index_copy_(1, position.long(), mixed[None, :, HEADS + SHARED :])
    seen = (torch.arange(LIMIT, device=x.device) <= position)[None]
    out = torch.nn.functional.scaled_dot_product_attention(
        q[None].transpose(1, 2), keys.transpose(1, 2), values.transpose(1, 2), attn_mask=seen, enable_gqa=True
    )
    x = x + out.reshape(1, HEADS * DIM) @ o.T
    normed = _norm(x, ffn_gain)
    return x + (torch.nn.functional.silu(normed @ gate.T) * (normed @ up.T)) @ down.T


def _matrix(rows: int, columns: int) -> torch.Tensor:
    return torch.randn(rows, columns, device="cuda", dtype=torch.bfloat16) / columns**0.5


def _gain(n: int) -> torch.Tensor:
    return (0.5 + torch.rand(n, device="cuda")).to(torch.bfloat16)


def _layer_weights() -> list[torch.Tensor]:
    wide, ffn = HEADS * DIM, (FFN, HIDDEN)
    return [
        _gain(HIDDEN), _matrix(QKV, HIDDEN), _gain(DIM), _gain(DIM), _matrix(HIDDEN, wide),
        _gain(HIDDEN), _matrix(*ffn), _matrix(*ffn), _matrix(HIDDEN, FFN),
    ]  # fmt: skip


def captured(model: Model, step: Callable[[], torch.Tensor], context: int) -> torch.cuda.CUDAGraph:
    """The step as a graph, at a cache of ``context`` tokens."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(2):
            model.start(context)
            step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    model.start(context)
    with torch.cuda.graph(graph):
        step()
    return graph


def seconds(model: Model, graph: torch.cuda.CUDAGraph, context: int, steps: int = 64) -> float:
    """Median time of a step while the cache grows by ``steps`` tokens."""
    found = []
    for _ in range(7):
        model.start(context)
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(steps):
            graph.replay()
        end.record()
        end.synchronize()
        found.append(begin.elapsed_time(end) / steps / 1e3)
    return statistics.median(found)


def difference(model: Model, context: int) -> float:
    """Relative distance of the hidden states after one step, from equal caches and tokens."""
    states = []
    kept = model.caches.clone()
    for step in (model.ours(), model.torch_form()):
        model.caches.copy_(kept)
        model.start(context)
        model.token.fill_(17)
        states.append(step().double())
    return float((states[0] - states[1]).norm() / states[1].norm())


def kernel_times(model: Model, step: Callable[[], torch.Tensor], context: int) -> None:
    """Print the kernels of a step by the time that they take."""
    from torch.profiler import ProfilerActivity, profile

    model.start(context)
    step()
    model.start(context)
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        step()
        torch.cuda.synchronize()
    rows = sorted(seen.key_averages(), key=lambda row: -row.device_time_total)
    for row in rows[:24]:
        print(f"  {row.device_time_total:9.1f} us {row.count:4} x {row.key[:90]}")


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--layers", type=int, default=28)
    parser.add_argument("--contexts", type=int, nargs="+", default=[128, 2048])
    parser.add_argument("--kernels", action="store_true", help="print each kernel's time")
    given = parser.parse_args()
    model = Model(given.layers)
    print(f"relative distance to torch after one step: {difference(model, given.contexts[0]):.2e}")
    ours, theirs = model.ours(), model.torch_form()
    print("| context | ours, tokens/s | torch in a graph | ratio |\n|---|---|---|---|", flush=True)
    for context in given.contexts:
        one, other = (seconds(model, captured(model, step, context), context) for step in (ours, theirs))
        print(f"| {context} | {1 / one:.0f} | {1 / other:.0f} | {other / one:.2f} |", flush=True)
    if given.kernels:
        kernel_times(model, ours, given.contexts[-1])
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
