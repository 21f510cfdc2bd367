"""The main job on a real checkpoint, step by step: author, prepare, load, twin, compile, check, use.

Run with ``make quickstart``, or ``python -m pipeline.quickstart`` in ``tests-integration``. Ends with code 1 where
a check fails.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import torch
from models.minilm.checkpoint import raw_resource
from models.minilm.model import MINILM, encoder
from models.minilm.reference import Reference, tokenize
from transformers.utils import logging

import tilefoundry
from pipeline.similarity import nearest_pairs, similarity_table
from tilefoundry.runtime import NanInf, RelL2, Report, SafetensorsResource, check

SENTENCES = [
    "A cat is sleeping on the sofa.",
    "The kitten naps on the couch.",
    "Matrix multiplication dominates the cost of a transformer.",
    "Most of the time in large models goes into GEMM.",
    "The harbour was closed because of the storm.",
    "Heavy weather kept the ships from leaving port.",
]
EXPECT = {"output": [RelL2(1e-5), NanInf()]}
T = TypeVar("T")


def step(title: str, work: Callable[[], T]) -> T:
    """Run ``work`` and print what it was and how long it took."""
    print(f"\n== {title}", flush=True)
    start = time.perf_counter()
    result = work()
    print(f"   {time.perf_counter() - start:.2f} s", flush=True)
    return result


def author():
    """The model's program, parsed and typed here and now."""
    model = encoder(MINILM)
    weights = sum(
        len(node.weights) for node in (model, *model.modules, *(m.attention for m in model.modules[1:]))
    )
    print(f"   {model.name}: {len(model.modules)} children, {weights} weights")
    return model


def load_twin(folder: str):
    """The hand-written twin, loaded from the same prepared folder."""
    from models.minilm.twin import MiniLMTwin

    twin = MiniLMTwin()
    twin.load(SafetensorsResource(folder, device="cpu"))
    return twin


def cuda_status() -> str:
    """One line on whether the CUDA target can be used here, and why not if it cannot."""
    if not torch.cuda.is_available():
        return "CUDA target: not available, torch sees no NVIDIA GPU on this machine"
    try:
        target = tilefoundry.CudaTarget.current()
    except Exception as error:
        return f"CUDA target: not available: {error}"
    return f"CUDA target: {target} on {torch.cuda.get_device_name()}"


def report(name: str, candidate, reference, inputs: tuple[torch.Tensor, ...]) -> Report:
    """Compare two implementations on ``inputs`` and print the measured table."""
    result = check(candidate, reference, inputs, expect=EXPECT)
    print(f"\n-- {name}: {'passed' if result.passed else 'FAILED'}\n{result}")
    return result


def main() -> int:
    """Every step in order; 0 where all checks pass."""
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    model = step("author: parse and type the program", author)
    with tempfile.TemporaryDirectory(prefix="minilm-") as scratch:
        folder = str(Path(scratch) / "prepared")
        step("prepare: convert the published checkpoint", lambda: model.prepare(raw_resource(), folder))
        loaded = step(
            "load: read the prepared weights", lambda: model.load(SafetensorsResource(folder, device="cpu"))
        )
        twin = step("twin: bind the hand-written kernels", lambda: load_twin(folder))
    compiled = step("jit: compile the entry for the CPU", lambda: tilefoundry.jit(model, target="cpu"))
    call = compiled.bind(loaded)
    inputs = tokenize(SENTENCES)
    reference = step("reference: transformers' BertModel", Reference)
    embeddings = step("run the compiled entry", lambda: call(*inputs))
    reports = [
        report("evaluator against transformers", loaded, reference, inputs),
        report("twin against evaluator", twin, loaded, inputs),
        report("compiled against evaluator", call, loaded, inputs),
    ]
    print(f"\n{cuda_status()}\n\n== similarity of the sentences")
    print(similarity_table(SENTENCES, embeddings))
    print(nearest_pairs(SENTENCES, embeddings, count=3))
    return 0 if all(r.passed for r in reports) else 1


if __name__ == "__main__":
    sys.exit(main())
