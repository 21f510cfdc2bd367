"""The CPU target beside torch eager with the same threads: pointwise ops, rows, products, MiniLM's forward, tiny calls.

    python benchmarks/cpu_kernels.py [--rounds 15] [--threads 1] [--threads 2] [--shape 2048x1024] [--only softmax]

Rounds are interleaved in one process, so that other load meets all contenders alike; shown are the medians and the best
times, and the ratio to torch by each. Inputs are random; eager runs its ops under inference mode. On one thread the
times are processor times, which other load does not inflate. ``--shape`` and ``--threads`` may be given several times;
by default shapes lie in the second-level cache, in the last-level one, and in memory. For the tiny calls the floor is
the exported function called through tvm_ffi with outputs given, in processor time of the caller.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

from tilefoundry import func, jit
from tilefoundry.dsl import Tensor, tf

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests-integration"))

SHAPES = ("64x1024", "2048x1024", "16384x1024")
F = torch.nn.functional
TORCH = {"f32": torch.float32, "bf16": torch.bfloat16}
Form = Callable[..., torch.Tensor]
Calls = tuple[Callable[[], object], Callable[[], object]]


def kernels_of(shape: tuple[int, int]) -> tuple[tuple[str, object, Form], ...]:
    """(name, our program, torch's chain of ops) for tensors of ``shape``."""
    rows, width = shape

    @func
    def gate(x: Tensor[shape, "f32"], y: Tensor[shape, "f32"]) -> Tensor[shape, "f32"]:
        return tf.silu(x) * y

    @func
    def chain(x: Tensor[shape, "f32"], y: Tensor[shape, "f32"]) -> Tensor[shape, "f32"]:
        return tf.tanh(x * 0.5 + y) * x + 1.0

    @func
    def gelu(x: Tensor[shape, "f32"], b: Tensor[(width,), "f32"]) -> Tensor[shape, "f32"]:
        return tf.gelu(x + b)

    @func
    def add(x: Tensor[shape, "f32"], y: Tensor[shape, "f32"]) -> Tensor[shape, "f32"]:
        return x + y

    @func
    def half(x: Tensor[shape, "bf16"], y: Tensor[shape, "bf16"]) -> Tensor[shape, "bf16"]:
        return tf.silu(x) * y

    @func
    def softmax(x: Tensor[shape, "f32"]) -> Tensor[shape, "f32"]:
        return tf.softmax(x)

    @func
    def rms(x: Tensor[shape, "f32"], w: Tensor[(width,), "f32"]) -> Tensor[shape, "f32"]:
        return tf.rms_norm(x, w, eps=1e-6)

    @func
    def layer(
        x: Tensor[shape, "f32"], w: Tensor[(width,), "f32"], b: Tensor[(width,), "f32"]
    ) -> Tensor[shape, "f32"]:
        return tf.layer_norm(x, w, b, axis=-1, eps=1e-5)

    @func
    def total(x: Tensor[shape, "f32"]) -> Tensor[(rows,), "f32"]:
        return tf.reduce(x, axes=(1,), keepdim=False, kind="sum")

    @func
    def largest(x: Tensor[shape, "f32"]) -> Tensor[(rows,), "f32"]:
        return tf.reduce(x, axes=(1,), keepdim=False, kind="max")

    @func
    def columns(x: Tensor[shape, "f32"]) -> Tensor[(width,), "f32"]:
        return tf.reduce(x, axes=(0,), keepdim=False, kind="sum")

    @func
    def rms_half(x: Tensor[shape, "bf16"], w: Tensor[(width,), "bf16"]) -> Tensor[shape, "bf16"]:
        return tf.rms_norm(x, w, eps=1e-6)

    n = (width,)
    return (
        ("add", add, lambda x, y: x + y),
        ("silu(x) * y", gate, lambda x, y: F.silu(x) * y),
        ("tanh(x / 2 + y) * x + 1", chain, lambda x, y: torch.tanh(x * 0.5 + y) * x + 1.0),
        ("gelu(x + bias)", gelu, lambda x, b: F.gelu(x + b)),
        ("silu(x) * y, bf16", half, lambda x, y: F.silu(x) * y),
        ("softmax", softmax, lambda x: torch.softmax(x, -1)),
        ("rms_norm", rms, lambda x, w: F.rms_norm(x, n, w, 1e-6)),
        ("rms_norm, bf16", rms_half, lambda x, w: F.rms_norm(x, n, w, 1e-6)),
        ("layer_norm", layer, lambda x, w, b: F.layer_norm(x, n, w, b, 1e-5)),
        ("row sums", total, lambda x: x.sum(1)),
        ("row maxima", largest, lambda x: x.amax(1)),
        ("column sums", columns, lambda x: x.sum(0)),
    )


def kernel_case(program: object, form: Form) -> Calls:
    """(ours, torch's) calls on one set of inputs; both allocate their result."""
    compiled = jit(program, target="cpu")
    inputs = [torch.randn(p.type.shape).to(TORCH[p.type.dtype.name]) for p in compiled.type.input_params]
    torch.testing.assert_close(compiled(*inputs), form(*inputs), rtol=2e-2, atol=2e-2)
    return lambda: compiled(*inputs), lambda: form(*inputs)


def products_of(rows: int, k: int, columns: int) -> tuple[tuple[str, object, Form], ...]:
    """(name, our program, torch's chain of ops) of products whose operands are computed while they are read."""
    left, right, turned, out = (rows, k), (k, columns), (columns, k), (rows, columns)

    @func
    def scaled(
        x: Tensor[left, "f32"], w: Tensor[right, "i8"], s: Tensor[(columns,), "f32"]
    ) -> Tensor[out, "f32"]:
        return x @ (tf.cast(w, dtype="f32") * s)

    @func
    def along(
        x: Tensor[left, "f32"], w: Tensor[turned, "i8"], s: Tensor[(columns, 1), "f32"]
    ) -> Tensor[out, "f32"]:
        return x @ tf.transpose(tf.cast(w, dtype="f32") * s, perm=(1, 0))

    @func
    def wide(x: Tensor[left, "f32"], w: Tensor[turned, "bf16"]) -> Tensor[out, "f32"]:
        return x @ tf.transpose(tf.cast(w, dtype="f32"), perm=(1, 0))

    @func
    def gated(g: Tensor[left, "f32"], u: Tensor[left, "f32"], w: Tensor[right, "f32"]) -> Tensor[out, "f32"]:
        return (tf.silu(g) * u) @ w

    return (
        ("product with i8 weights * scale", scaled, lambda x, w, s: x @ (w.float() * s)),
        ("product with transposed i8 weights * scale", along, lambda x, w, s: x @ (w.float() * s).T),
        ("product with transposed bf16 weights", wide, lambda x, w: x @ w.float().T),
        ("product of silu(g) * u", gated, lambda g, u, w: (F.silu(g) * u) @ w),
    )


def product_case(program: object, form: Form) -> Calls:
    """As ``kernel_case``; weights and inputs of about one over the root of the sum's length."""
    compiled = jit(program, target="cpu")
    inputs = []
    for param in compiled.type.input_params:
        shape, dtype = param.type.shape, param.type.dtype.name
        integers = torch.randint(-127, 128, shape, dtype=torch.int8)
        inputs.append(integers if dtype == "i8" else (torch.randn(shape) / shape[-1] ** 0.5).to(TORCH[dtype]))
    got, want = compiled(*inputs), form(*inputs)
    torch.testing.assert_close(got, want, rtol=1e-3, atol=1e-4 * float(want.abs().max()))
    return lambda: compiled(*inputs), lambda: form(*inputs)


def minilm_case() -> Calls:
    """MiniLM's forward, batch 8, sequence 128, random weights; torch's is transformers' eager BertModel."""
    from models.minilm.checkpoint import names
    from models.minilm.model import MINILM, MiniLM
    from models.minilm.reference import pooled
    from transformers import BertConfig, BertModel

    from tilefoundry.runtime import DictResource, SafetensorsResource

    config = BertConfig(
        vocab_size=MINILM.vocabulary,
        hidden_size=MINILM.hidden,
        num_hidden_layers=MINILM.layers,
        num_attention_heads=MINILM.heads,
        intermediate_size=MINILM.ffn,
        max_position_embeddings=MINILM.positions,
    )
    bert = BertModel(config, add_pooling_layer=False).eval()
    resource = DictResource(bert.state_dict(), alias=names(MINILM))
    compiled = jit(MiniLM, target="cpu")
    with tempfile.TemporaryDirectory() as folder:
        MiniLM.prepare(resource, f"{folder}/prepared")
        call = compiled.bind(MiniLM.load(SafetensorsResource(f"{folder}/prepared", device="cpu")))
    ids = torch.randint(0, MINILM.vocabulary, (8, 128))
    mask = torch.ones(8, 128, dtype=torch.int64)
    torch.testing.assert_close(call(ids, mask), pooled(bert, ids, mask), rtol=1e-4, atol=1e-4)
    return lambda: call(ids, mask), lambda: pooled(bert, ids, mask)


def timed(call: Callable[[], object], count: int, clock: Callable[[], float] = time.perf_counter) -> float:
    """Seconds a call."""
    start = clock()
    for _ in range(count):
        call()
    return (clock() - start) / count


def report_kernels(only: list[str] | None, rounds: int, shapes: list[str]) -> dict[str, list[list[float]]]:
    """Measure and print the table of kernels and the model, with torch's current threads."""
    cases: list[tuple[str, Callable[[], Calls], int]] = []
    for text in shapes:
        rows, width = map(int, text.split("x"))
        count = max(1, min(100, 2**22 // (rows * width)))
        for name, program, form in kernels_of((rows, width)):
            cases.append((f"{name}, {text}", lambda p=program, f=form: kernel_case(p, f), count))
    for rows in (1, 8, 64, 512):
        for name, program, form in products_of(rows, 4096, 4096):
            title = f"{name}, {rows}x4096x4096"
            cases.append((title, lambda p=program, f=form: product_case(p, f), 1))
    cases.append(("minilm 8 x 128, f32", minilm_case, 1))
    clock = time.thread_time if torch.get_num_threads() == 1 else time.perf_counter
    taken: dict[str, list[list[float]]] = {}
    print("| what | ours, ms | torch eager, ms | ratio of medians | ratio of bests |\n|---|---|---|---|---|")
    for name, make, count in cases:
        if only and not any(word in name for word in only):
            continue
        ours, theirs = make()
        pairs = [[timed(ours, count, clock), timed(theirs, count, clock)] for _ in range(rounds + 1)][1:]
        taken[name] = pairs
        middle = [statistics.median(pair[i] for pair in pairs) for i in (0, 1)]
        best = [min(pair[i] for pair in pairs) for i in (0, 1)]
        print(
            f"| {name} | {middle[0] * 1e3:.3f} (best {best[0] * 1e3:.3f}) | {middle[1] * 1e3:.3f} "
            f"(best {best[1] * 1e3:.3f}) | {middle[0] / middle[1]:.2f} | {best[0] / best[1]:.2f} |",
            flush=True,
        )
    return taken


def report_calls(rounds: int) -> dict[str, float]:
    """What a call on eight elements costs over the bare exported function."""

    @func
    def tiny(x: Tensor[(8,), "f32"], y: Tensor[(8,), "f32"]) -> Tensor[(8,), "f32"]:
        return x + y

    compiled = jit(tiny, target="cpu")
    x, y, out = torch.ones(8), torch.ones(8), torch.empty(8)
    bare = compiled.function if hasattr(compiled, "function") else compiled._fn
    calls: dict[str, Callable[[], object]] = {
        "bare tvm_ffi call, outputs given": lambda: bare(x, y, out),
        "compiled module, outputs given": lambda: compiled(x, y, out),
        "compiled module, outputs allocated": lambda: compiled(x, y),
        "torch.empty": lambda: torch.empty(8),
        "torch.add(out=)": lambda: torch.add(x, y, out=out),
    }
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            times[name].append(timed(call, 2000, time.thread_time))
    print("\n| a call | us |\n|---|---|")
    for name, values in times.items():
        print(f"| {name} | {statistics.median(values) * 1e6:.2f} |")
    return {name: statistics.median(values) for name, values in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, action="append", help="torch's default where left out")
    parser.add_argument("--shape", action="append", help="ROWSxWIDTH of the kernels' tensors")
    parser.add_argument("--only", action="append", help="rows whose name holds this word")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    taken: dict[str, object] = {}
    with torch.inference_mode():
        for threads in args.threads or [torch.get_num_threads()]:
            torch.set_num_threads(threads)
            print(f"torch {torch.__version__}, {threads} threads\n")
            taken[f"kernels, {threads}"] = report_kernels(args.only, args.rounds, args.shape or [*SHAPES])
        if not args.only or "calls" in args.only:
            taken["calls"] = report_calls(args.rounds)
    if args.json:
        args.json.write_text(json.dumps(taken, indent=1))


if __name__ == "__main__":
    main()
