"""How long compilation takes: first jit, again, in a new process, of MiniLM's forward; CUDA without a launch too.

    python benchmarks/compile_times.py [--rounds 5] [--only minilm] [--json out.json]

Every figure is taken in a fresh process with a cache directory of its own, after torch and tvm_ffi are imported. Rounds
are interleaved. Shown are the median and the best of the wall-clock times, and the processor time of the best round
(this process and its compilers), which other load does not inflate. The CUDA rows need NVRTC and CUDA headers, no GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

# (name, what the child does, goal in seconds or None)
CASES: tuple[tuple[str, str, float | None], ...] = (
    ("first jit, pointwise, cpu", "first cpu", 2.5),
    ("the same with precompiled headers", "first-precompiled cpu", 1.5),
    ("the same from the disk cache of another process", "disk cpu", 0.050),
    ("the same again in one process", "again cpu", 20e-6),
    ("first jit, pointwise, cuda, no launch", "first cuda", 2.5),
    ("the same with precompiled headers, cuda", "first-precompiled cuda", 1.5),
    ("the same from the disk cache, cuda", "disk cuda", 0.050),
    ("minilm forward, cpu", "minilm cpu", 20.0),
    ("minilm forward from the disk cache, cpu", "minilm-disk cpu", None),
)


def child(what: str, target_name: str) -> dict[str, float]:
    """One measurement in this process: seconds of wall clock and of processor time."""
    import torch  # noqa: F401  # its import is not what is measured
    import tvm_ffi  # noqa: F401

    sys.path.insert(0, str(ROOT / "tests-integration"))
    imports_aside = what in ("disk", "again", "minilm-disk")
    program = _program(what)
    if what == "headers":
        return _timed(lambda: _precompile_device_headers(program, target_name), 1)
    if imports_aside:
        import tilefoundry.codegen.cpu
        import tilefoundry.codegen.cuda
        import tilefoundry.verbs  # noqa: F401
    if what == "again":
        compiled = _jit(program, target_name)
        return _timed(lambda: [_jit(program, target_name) for _ in range(1000)] and compiled, 1000)
    return _timed(lambda: _jit(program, target_name), 1)


def _program(what: str) -> object:
    if what.startswith("minilm"):
        from models.minilm.model import MiniLM

        return MiniLM
    from tilefoundry import func
    from tilefoundry.dsl import Tensor, tf

    @func
    def gate(x: Tensor[(64, 256), "f32"], y: Tensor[(64, 256), "f32"]) -> Tensor[(64, 256), "f32"]:
        return tf.silu(x) * y + 1.0

    return gate


def _target(name: str) -> object:
    from tilefoundry import CudaTarget

    return CudaTarget("nvidia.h200_sxm") if name == "cuda" else name


def _jit(program: object, target_name: str) -> object:
    import tilefoundry

    return tilefoundry.jit(program, target=_target(target_name))  # type: ignore[arg-type]  # a name or a Target


def _precompile_device_headers(program: object, target_name: str) -> None:
    """What a second program of this kind would have started behind its caller's back; nothing for the CPU target."""
    if target_name == "cpu":
        return
    import tilefoundry
    from tilefoundry import CompilerOptions
    from tilefoundry.codegen.cache import cache_directory
    from tilefoundry.codegen.cuda import BACKEND
    from tilefoundry.codegen.cuda.link import device_headers, device_tool

    target, options = _target(target_name), CompilerOptions()
    lowered = tilefoundry.lower(program, target=target, options=options)  # type: ignore[arg-type]  # a function
    for text in BACKEND.emit(lowered, target, options).parts.devices:  # type: ignore[arg-type]  # a CudaTarget
        if device_headers(cache_directory(), device_tool(target.arch, options), text).build() is None:  # type: ignore[attr-defined]
            raise RuntimeError("this system cannot precompile device headers: it randomises addresses")


def _timed(call: Callable[[], object], count: int) -> dict[str, float]:
    before = _processor_seconds()
    start = time.perf_counter()
    call()
    wall = time.perf_counter() - start
    return {"wall": wall / count, "processor": (_processor_seconds() - before) / count}


def _processor_seconds() -> float:
    spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in spent)


def measure(case: str, scratch: Path) -> dict[str, float]:
    """One round of a case in processes of its own."""
    what, target = case.split()
    with tempfile.TemporaryDirectory(dir=scratch) as cache:
        environment = {
            **os.environ,
            "TILEFOUNDRY_CACHE_DIR": cache,
            "PYTHONDONTWRITEBYTECODE": "",
            "PYTHONPYCACHEPREFIX": str(scratch / "bytecode"),
            "TILEFOUNDRY_PRECOMPILED": "1" if what == "first-precompiled" else "0",
        }
        if what == "first-precompiled":
            _spawn([sys.executable, "-m", "tilefoundry.cli", "cache", "warm"], environment)
            _spawn([sys.executable, __file__, "--child", "headers", target], environment)
        if what.endswith("disk"):
            _run_child(what, target, environment)
        return _run_child(what, target, environment)


def _run_child(what: str, target: str, environment: dict[str, str]) -> dict[str, float]:
    return json.loads(
        _spawn([sys.executable, __file__, "--child", what, target], environment).splitlines()[-1]
    )


def _spawn(command: list[str], environment: dict[str, str]) -> str:
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    return done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", action="append", help="cases whose name holds this word")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        print(json.dumps(child(*args.child)))
        return
    cases = [case for case in CASES if not args.only or any(word in case[0] for word in args.only)]
    taken: dict[str, list[dict[str, float]]] = {name: [] for name, _, _ in cases}
    with tempfile.TemporaryDirectory() as scratch:
        for _, what, _ in cases:
            measure(what, Path(scratch))  # leaves bytecode behind, as an installed package has it
        for _ in range(args.rounds):
            for name, what, _ in cases:
                taken[name].append(measure(what, Path(scratch)))
    print("| what | median | best | processor time of the best | goal |\n|---|---|---|---|---|")
    for name, _, goal in cases:
        rounds = sorted(taken[name], key=lambda one: one["wall"])
        middle = statistics.median(one["wall"] for one in rounds)
        print(
            f"| {name} | {_seconds(middle)} | {_seconds(rounds[0]['wall'])} | {_seconds(rounds[0]['processor'])} "
            f"| {_seconds(goal) if goal else '-'} |"
        )
    if args.json:
        args.json.write_text(json.dumps(taken, indent=1))


def _seconds(value: float) -> str:
    if value < 1e-3:
        return f"{value * 1e6:.1f} us"
    return f"{value * 1e3:.1f} ms" if value < 1 else f"{value:.2f} s"


if __name__ == "__main__":
    main()
