"""Read many tensors of a checkpoint: in file order, neighbours together, by several threads."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any

from tilefoundry.ir.errors import UnknownNameError
from tilefoundry.runtime.resource.checkpoint import Checkpoint
from tilefoundry.runtime.resource.shard import Shard
from tilefoundry.runtime.resource.spans import Span, plan_spans, read_span
from tilefoundry.runtime.resource.staging import StagedReader, bytes_of

# torch and tqdm are imported where they are first needed: importing the runtime must not load them.

__all__ = ["read_keys"]

_MAX_THREADS = 16


def read_keys(checkpoint: Checkpoint, keys: Iterable[str], device: Any) -> dict[str, Any]:
    """Raw key -> tensor in fresh memory on ``device``.

    All shards are opened and all keys found before anything is read; each byte is read once.

    Raises:
        KeyError: keys that the checkpoint does not hold, all named.
        FileNotFoundError, CheckpointError: a missing or damaged shard.
    """
    keys = tuple(keys)
    _refuse_absent(checkpoint, keys)
    shards = {key: checkpoint.shard_of(key) for key in keys}
    tensors = {key: _empty(shards[key], key, device) for key in keys}
    direct = [key for key in keys if tensors[key] is None]
    spans = list(plan_spans({key: shards[key] for key in keys if tensors[key] is not None}))
    _run(spans, tensors, device)
    for key in direct:
        tensors[key] = shards[key].load(key).to(device)
    return tensors


def _refuse_absent(checkpoint: Checkpoint, keys: tuple[str, ...]) -> None:
    missing = [key for key in keys if key not in checkpoint.weight_map]
    if len(missing) == 1:
        checkpoint.shard_of(missing[0])
    if missing:
        shown = ", ".join(missing[:8]) + (f" and {len(missing) - 8} more" if len(missing) > 8 else "")
        raise UnknownNameError(
            f"{checkpoint.source} does not hold {len(missing)} of {len(keys)} tensors: {shown}; "
            "name them with alias={...}"
        )


def _empty(shard: Shard, key: str, device: Any) -> Any:
    """Memory for ``key``, or None where torch stores its element type otherwise than one per slot."""
    import torch

    entry = shard.header.tensors[key]
    name = _TORCH_DTYPES.get(entry.dtype)
    return None if name is None else torch.empty(entry.shape, dtype=getattr(torch, name), device=device)


_TORCH_DTYPES = {
    "BOOL": "bool",
    "U8": "uint8",
    "I8": "int8",
    "U16": "uint16",
    "I16": "int16",
    "U32": "uint32",
    "I32": "int32",
    "U64": "uint64",
    "I64": "int64",
    "F8_E5M2": "float8_e5m2",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E8M0": "float8_e8m0fnu",
    "F16": "float16",
    "BF16": "bfloat16",
    "F32": "float32",
    "F64": "float64",
    "C64": "complex64",
}


def _run(spans: list[Span], tensors: dict[str, Any], device: Any) -> None:
    from tqdm import tqdm

    total = sum(span.length for span in spans)
    threads = max(1, min(_MAX_THREADS, _processors(), len(spans)))
    bar = tqdm(total=total, desc="load", unit="B", unit_scale=True, disable=None)
    with bar, ThreadPoolExecutor(threads, thread_name_prefix="tilefoundry-load") as pool:
        if _on_gpu(device):
            StagedReader(device, pool, threads).run(spans, tensors, bar.update)
        else:
            _fill(spans, tensors, pool, bar.update)


def _on_gpu(device: Any) -> bool:
    return device.type == "cuda"


def _processors() -> int:
    """How many this process may use, and two for the waiting that a cold file means."""
    have = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(2, have)


def _fill(spans: list[Span], tensors: dict[str, Any], pool: Executor, done: Callable[[int], object]) -> None:
    """Read straight into the tensors' memory."""
    views = {p.key: memoryview(bytes_of(tensors[p.key]).numpy()) for span in spans for p in span.pieces}

    def work(span: Span) -> int:
        read_span(span, [views[p.key][p.begin : p.begin + p.length] for p in span.pieces])
        return span.length

    for length in pool.map(work, spans):
        done(length)
