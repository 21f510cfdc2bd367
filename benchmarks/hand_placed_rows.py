"""Hand-placed row kernels against the copy rate of the device: rmsnorm and softmax, 32768x4096 bf16, one CTA a row.

Run it on a GPU; every line is a median over turns interleaved with the copies.
"""

from __future__ import annotations

import statistics

import torch

from tilefoundry import func, jit
from tilefoundry.dsl import Mesh, Tensor, Topology, persistent, tf, tile

ROWS, COLUMNS, THREADS = 32768, 4096, 256


@func(topologies=(Topology("cta", ROWS), Topology("thread", THREADS)))
def rmsnorm(
    x: Tensor[(ROWS, COLUMNS), "bf16"], w: Tensor[(COLUMNS,), "bf16"]
) -> Tensor[(ROWS, COLUMNS), "bf16"]:
    with Mesh(("cta", "thread"), (ROWS, THREADS), ("b", "t")) as m:
        row = tf.reshard(x, (ROWS @ m.b, 2, 2048 @ m.t), "rmem")
        out = tf.reshard(tf.rms_norm(row, w, eps=1e-6), (ROWS @ m.b, 2, 2048 @ m.t), "gmem")
    return out


@func(topologies=(Topology("cta", ROWS), Topology("thread", THREADS)))
def softmax(x: Tensor[(ROWS, COLUMNS), "bf16"]) -> Tensor[(ROWS, COLUMNS), "bf16"]:
    with Mesh(("cta", "thread"), (ROWS, THREADS), ("b", "t")) as m:
        row = tf.reshard(x, (ROWS @ m.b, 2, 2048 @ m.t), "rmem")
        out = tf.reshard(tf.softmax(row, axis=-1), (ROWS @ m.b, 2, 2048 @ m.t), "gmem")
    return out


@func(topologies=(Topology("cta", persistent), Topology("thread", THREADS)))
def rmsnorm_persistent(
    x: Tensor[(ROWS, COLUMNS), "bf16"], w: Tensor[(COLUMNS,), "bf16"]
) -> Tensor[(ROWS, COLUMNS), "bf16"]:
    y = tf.workspace(Tensor[(ROWS, COLUMNS), "bf16"])
    with Mesh(("cta", "thread"), (persistent, THREADS), ("b", "t")) as m:
        for i in tile(ROWS, 1, over=m.b):
            row = tf.reshard(x[i, :], (1, 2, 2048 @ m.t), "rmem")
            y = tf.insert_slice(y, tf.reshard(tf.rms_norm(row, w, eps=1e-6), (1, COLUMNS), "gmem"), (i, 0))
    return y


def milliseconds(run) -> float:
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(5):
        run()
    stop.record()
    stop.synchronize()
    return start.elapsed_time(stop) / 5


def main() -> None:
    x = torch.randn(ROWS, COLUMNS, device="cuda").bfloat16()
    w = torch.rand(COLUMNS, device="cuda").bfloat16()
    out = torch.empty_like(x)
    wanted = torch.nn.functional.rms_norm(x.float(), (COLUMNS,), w.float(), 1e-6)
    soft = torch.softmax(x.float(), -1)
    runs = {"copy": (lambda: out.copy_(x), None)}
    for program, args, right in (
        (rmsnorm, (x, w), wanted),
        (softmax, (x,), soft),
        (rmsnorm_persistent, (x, w), wanted),
    ):
        compiled = jit(program, target="cuda")
        runs[program.name] = ((lambda c=compiled, a=args: c(*a, out)), right)
    for name, (run, right) in runs.items():
        run()
        if right is not None:
            torch.testing.assert_close(out.float(), right, rtol=2e-2, atol=1e-2 if "rms" in name else 1e-4)
    times = {name: [] for name in runs}
    for _ in range(15):
        for name, (run, _) in runs.items():
            times[name].append(milliseconds(run))
    base = statistics.median(times["copy"])
    moved = 2 * x.numel() * 2
    for name, found in times.items():
        median = statistics.median(found)
        print(f"{name:20} {median:.4f} ms {moved / median / 1e6:8.0f} GB/s  {base / median:.3f} of copy")


if __name__ == "__main__":
    main()
