#!/usr/bin/env python3
"""Build, test and measure on a machine with an NVIDIA GPU. Prints a summary; exit status 0 only if all went well.

    python tools/gpu_check.py                      every section
    python tools/gpu_check.py --only cpp           one section (repeatable)
    python tools/gpu_check.py --only cpp --sanitize memcheck --sanitize racecheck
    python tools/gpu_check.py --out results.json   machine-readable results too

Sections: `cpp` builds cpp-runtime/tests/gpu with nvcc and runs each program, then again under the asked-for
compute-sanitizer tools with small problems; `bench` builds and runs cpp-runtime/benchmarks; `carriers` and
`cuda` run the `gpu`-marked pytest suites of those packages. Needs nvcc on PATH for the C++ sections, and the
headers that tools/vendor.py materialises. Standard library only.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from threading import Semaphore

ROOT = Path(__file__).resolve().parent.parent
CPP = ROOT / "cpp-runtime"
ARCH = {
    "sm_90a": ["-gencode=arch=compute_90a,code=sm_90a"],
    "sm_90": ["-gencode=arch=compute_90,code=sm_90"],
    # As PTX: the driver compiles it for the chip at hand, without the features of newer targets.
    "sm_80": ["-gencode=arch=compute_80,code=compute_80"],
    # No asynchronous copies and no bf16 matrix instructions: the plain paths of both.
    "sm_75": ["-gencode=arch=compute_75,code=compute_75"],
}
SANITIZERS = ("memcheck", "racecheck", "synccheck", "initcheck")
# Processes that share the GPU: with many more, each waits for its turn at every call.
GPU = Semaphore(6)


@dataclass(frozen=True, slots=True)
class Program:
    """One C++ test program: a source, the features it includes and the macros that select its cases."""

    source: str
    features: tuple[str, ...]
    defines: tuple[str, ...] = ()
    arch: str = "sm_90a"
    sanitize: bool = True  # False: device errors are what the program is about

    @property
    def name(self) -> str:
        return "-".join([self.source, *(d.replace("=", "") for d in self.defines), self.arch])


@dataclass(slots=True)
class Result:
    """Outcome of one step."""

    step: str
    ok: bool
    seconds: float
    text: str = field(default="", repr=False)


def mesh(a: int, b: int, c: int, *more: str) -> Program:
    """The reduction program for a block of a*b*c threads."""
    return Program("reduce", ("REDUCE",), (f"MESH0={a}", f"MESH1={b}", f"MESH2={c}", *more))


def programs() -> list[Program]:
    """Every program to build, the slowest first."""
    matmul = [
        Program("matmul", ("MATMUL",), (f"THREADS={n}",), arch)
        for arch, counts in {
            "sm_90a": (288, 512, 256, 128, 64, 1024),
            "sm_90": (256, 128, 32),
            "sm_80": (512, 288, 64),
        }.items()
        for n in counts
    ]
    meshes = [(4, 8, 4), (1, 8, 32), (10, 20, 5), (13, 8, 1), (8, 24, 1), (2, 64, 4), (3, 32, 1), (2, 4, 4)]
    reductions = [mesh(3, 8, 1, "ALL_TYPES"), mesh(8, 4, 8, "ALL_TYPES"), *(mesh(*m) for m in meshes)]
    return [
        *reductions[:2],
        Program("unary", ("ELEMENTWISE",)),
        *matmul,
        Program("matmul", ("MATMUL",), ("THREADS=288", "PAIRED")),
        *reductions[2:],
        Program("binary", ("ELEMENTWISE",)),
        Program("views", ("VIEWS",)),
        Program("indices", ("VIEWS",)),
        *(
            Program("grouped", ("GROUPED",), (f"THREADS={n}",), arch)
            for n, arch in ((128, "sm_90a"), (256, "sm_80"))
        ),
        *(
            Program("attention", ("ATTENTION",), defines, arch)
            for defines, arch in ((("THREADS=256", "CLUSTERS"), "sm_90a"), (("THREADS=64",), "sm_80"))
        ),
        *(
            Program("epilogue", ("MATMUL",), (f"THREADS={n}",), arch)
            for n, arch in ((288, "sm_90a"), (128, "sm_80"))
        ),
        *(
            Program("attention_tiles", ("ATTENTION_TILES", "SYNC"), (f"THREADS={n}",), arch)
            for n, arch in ((384, "sm_90a"), (128, "sm_90a"), (384, "sm_80"), (64, "sm_80"), (256, "sm_90a"))
        ),
        *(
            Program("group", ("MATMUL",), (f"THREADS={n}",), arch)
            for n, arch in ((256, "sm_90a"), (512, "sm_90a"), (128, "sm_80"))
        ),
        Program("select", ("ELEMENTWISE",)),
        Program("packs", ("ASYNC",)),
        Program("packs", ("ASYNC",), arch="sm_75"),
        Program("cast", ("ELEMENTWISE",)),
        Program("cast", ("ELEMENTWISE",), arch="sm_80"),
        Program("mma", ("MMA", "TMA", "SYNC"), ("HOPPER",)),
        Program("mma", ("MMA",), arch="sm_80"),
        Program("partial", ("REDUCE", "SYNC")),
        Program("copy", ("ASYNC",)),
        Program("copy", ("ASYNC",), arch="sm_80"),
        Program("copy", ("ASYNC",), arch="sm_75"),
        Program("sync", ("SYNC",)),
        Program("faults", ("VIEWS", "GROUPED"), sanitize=False),
    ]


def run(
    step: str, command: list[str], *, timeout: float, env: dict[str, str] | None = None, quiet: bool = False
) -> Result:
    """Run one command and say how it went as soon as it is over; a timeout is a failure that says so."""
    start = time.monotonic()
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=timeout,
            env={**os.environ, **(env or {})},
            cwd=ROOT,
        )
        ok, text = done.returncode == 0, done.stdout + done.stderr
    except subprocess.TimeoutExpired as late:
        ok, text = False, f"timed out after {timeout:.0f} s\n{(late.stdout or b'').decode(errors='replace')}"
    except FileNotFoundError as missing:
        ok, text = False, f"{missing.filename}: not found"
    result = Result(step, ok, time.monotonic() - start, text)
    if not quiet:
        lines = text.strip().splitlines()
        note = "" if not lines or step.startswith("build") else lines[-1][:100]
        print(f"{'ok  ' if ok else 'FAIL'} {result.seconds:7.1f} s  {step}  {note}", flush=True)
    return result


def nvcc_command(program: Program, source: Path, output: Path) -> list[str]:
    """The compiler call for one program."""
    macros = [
        "TILEFOUNDRY_TARGET_CUDA",
        *(f"TILEFOUNDRY_USE_{f}" for f in program.features),
        *program.defines,
    ]
    includes = ["-I", str(CPP / "include"), "-isystem", str(ROOT / "third_party" / "cutlass" / "include")]
    warnings = ["-Werror", "all-warnings", "-Xcompiler", "-Wall"]
    return [
        *("nvcc", "-std=c++17", "-O2", "-lineinfo", *ARCH[program.arch], *warnings, *includes),
        *(f"-D{m}" for m in macros),
        *("-o", str(output), str(source)),
    ]


def build(items: Iterable[Program], folder: Path, sources: Path, jobs: int) -> dict[Program, Result]:
    """Compile every program, several at a time."""
    items = list(items)

    def one(program: Program) -> Result:
        command = nvcc_command(program, sources / f"{program.source}.cu", folder / program.name)
        return run(f"build {program.name}", command, timeout=400)

    with ThreadPoolExecutor(jobs) as pool:
        return dict(zip(items, pool.map(one, items), strict=True))


def sanitized(program: Program, tool: str, folder: Path) -> Result:
    """One program under one compute-sanitizer tool, with small problems."""
    command = ["compute-sanitizer", "--tool", tool, "--error-exitcode", "9", str(folder / program.name)]
    with GPU:
        return run(f"{tool} {program.name}", command, timeout=180, env={"TILEFOUNDRY_QUICK": "1"})


def check_program(program: Program, options: argparse.Namespace, folder: Path) -> list[Result]:
    """Build one C++ test program, run it, then run it under the asked-for sanitizers."""
    results = list(build([program], folder, CPP / "tests" / "gpu", 1).values())
    if results[0].ok:
        with GPU:
            results.append(run(f"run {program.name}", [str(folder / program.name)], timeout=120))
        with ThreadPoolExecutor(2) as pool:
            tools = options.sanitize if program.sanitize else []
            results += pool.map(lambda tool: sanitized(program, tool, folder), tools)
    return results


def check_cpp(options: argparse.Namespace) -> list[Result]:
    """The C++ test programs, several at a time."""
    chosen = [p for p in programs() if not options.match or any(m in p.name for m in options.match)]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.jobs) as pool:
        checked = list(pool.map(lambda program: check_program(program, options, Path(folder)), chosen))
    return [result for results in checked for result in results]


def check_bench(options: argparse.Namespace) -> list[Result]:
    """Build and run the C++ measurements; their lines are the result's text."""
    chosen = [Program("ops", ("ELEMENTWISE", "REDUCE", "SYNC", "MATMUL")), Program("matmul", ("MATMUL",))]
    with tempfile.TemporaryDirectory() as scratch:
        built = build(chosen, Path(scratch), CPP / "benchmarks", options.jobs)
        ready = [p for p, result in built.items() if result.ok]
        measured = [run(f"bench {p.source}", [str(Path(scratch) / p.name)], timeout=120) for p in ready]
    return [*built.values(), *measured]


def pytest_section(package: str) -> Callable[[argparse.Namespace], list[Result]]:
    """The `gpu`-marked tests of one package, on the sources of this checkout."""

    def check(options: argparse.Namespace) -> list[Result]:
        paths = [str(p / "src") for p in sorted((ROOT / "packages").iterdir()) if (p / "src").is_dir()]
        env = {"PYTHONPATH": os.pathsep.join([*paths, os.environ.get("PYTHONPATH", "")])}
        command = [sys.executable, "-m", "pytest", "-q", "-m", "gpu", f"packages/{package}/tests"]
        return [run(f"pytest -m gpu {package}", command, timeout=500, env=env)]

    return check


SECTIONS: dict[str, Callable[[argparse.Namespace], list[Result]]] = {
    "cpp": check_cpp,
    "bench": check_bench,
    "carriers": pytest_section("strideweave-carriers"),
    "cuda": pytest_section("tilefoundry-cuda"),
}


def environment() -> dict[str, str]:
    """GPU, driver and tool versions, as the machine states them."""
    queries = {
        "gpu": ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"],
        "nvcc": ["nvcc", "--version"],
        "compute-sanitizer": ["compute-sanitizer", "--version"],
    }
    out = {}
    for name, command in queries.items():
        lines = run(name, command, timeout=60, quiet=True).text.strip().splitlines()
        out[name] = next(
            (line for line in reversed(lines) if "elease" in line or "ersion" in line),
            lines[-1] if lines else "?",
        )
    return out


def report(results: list[Result]) -> None:
    """Print what failed, and what was measured."""
    for result in results:
        if not result.ok:
            print(f"\n== {result.step}\n{result.text[-1500:]}")
        elif result.step.startswith("bench"):
            print(f"\n== {result.step}\n{result.text}")


def main(argv: list[str] | None = None) -> int:
    """Command line; returns the exit status."""
    parser = argparse.ArgumentParser(description="Build, test and measure on a machine with an NVIDIA GPU.")
    parser.add_argument(
        "--only", action="append", choices=sorted(SECTIONS), help="run this section only (repeatable)"
    )
    parser.add_argument(
        "--match", action="append", help="cpp: only programs whose name contains this (repeatable)"
    )
    parser.add_argument(
        "--sanitize", action="append", choices=SANITIZERS, help="cpp: also run under this tool"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="programs at a time")
    parser.add_argument("--out", type=Path, help="write results as JSON to this file")
    options = parser.parse_args(argv)
    options.sanitize = options.sanitize or []
    if shutil.which("nvidia-smi") is None:
        print("error: no nvidia-smi on PATH; run this on a machine with an NVIDIA GPU", file=sys.stderr)
        return 2
    machine = environment()
    for name, text in machine.items():
        print(f"{name}: {text}")
    results = [result for name in options.only or SECTIONS for result in SECTIONS[name](options)]
    report(results)
    if options.out:
        options.out.write_text(
            json.dumps({"machine": machine, "results": [asdict(r) for r in results]}, indent=1)
        )
    failed = sum(not r.ok for r in results)
    print(f"{len(results)} steps, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
