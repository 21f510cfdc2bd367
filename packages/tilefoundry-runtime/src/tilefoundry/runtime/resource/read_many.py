"""Read many tensors of a checkpoint: in file order, neighbours together, by several threads."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from tilefoundry.ir.errors import CheckpointError, UnknownNameError
from tilefoundry.runtime.resource.checkpoint import Checkpoint
from tilefoundry.runtime.resource.shard import Shard

# torch and tqdm are imported where they are first needed: importing the runtime must not load them.

__all__ = ["Piece", "Span", "read_keys", "read_span"]

SPAN_BYTES = 16 << 20
_MAX_PIECES = 512
_MAX_THREADS = 8


@dataclass(frozen=True, slots=True)
class Piece:
    """Some consecutive bytes of one tensor: ``length`` bytes from its byte ``begin`` on."""

    key: str
    begin: int
    length: int


@dataclass(frozen=True, slots=True)
class Span:
    """Consecutive bytes of a shard, from ``offset`` on, and the pieces of tensors that they are."""

    shard: Shard
    offset: int
    pieces: tuple[Piece, ...]

    @property
    def length(self) -> int:
        """Bytes in all."""
        return sum(piece.length for piece in self.pieces)


def read_keys(checkpoint: Checkpoint, keys: Iterable[str], device: Any) -> dict[str, Any]:
    """Raw key -> tensor in fresh memory on ``device``.

    All shards are opened and all keys found before anything is read; each byte is read once.

    Raises:
        KeyError: keys that the checkpoint does not hold, all named.
        FileNotFoundError, CheckpointError: a missing or damaged shard.
    """
    from tilefoundry.runtime.resource.staging import StagedReader

    keys = tuple(keys)
    _refuse_absent(checkpoint, keys)
    shards = {key: checkpoint.shard_of(key) for key in keys}
    tensors = {key: _empty(shards[key], key, device) for key in keys}
    direct = [key for key in keys if tensors[key] is None]
    spans = list(plan_spans({key: shards[key] for key in keys if tensors[key] is not None}))
    reader = StagedReader(device) if device.type == "cuda" else None
    _run(spans, tensors, reader)
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


def plan_spans(shards: dict[str, Shard]) -> Iterator[Span]:
    """The reads that fetch every key of ``shards``: shard by shard, in file order, neighbours in one read."""
    by_shard: dict[str, list[str]] = {}
    for key, shard in shards.items():
        by_shard.setdefault(shard.path, []).append(key)
    for path in sorted(by_shard):
        shard = shards[by_shard[path][0]]
        yield from _shard_spans(shard, sorted(by_shard[path], key=shard.header.span))


def _shard_spans(shard: Shard, keys: list[str]) -> Iterator[Span]:
    pieces: list[Piece] = []
    start = at = filled = 0
    for key in keys:
        begin, end = shard.header.span(key)
        done = begin
        while done < end:
            if pieces and (done != at or filled == SPAN_BYTES or len(pieces) == _MAX_PIECES):
                yield Span(shard, start, tuple(pieces))
                pieces, filled = [], 0
            if not pieces:
                start = done
            length = min(end - done, SPAN_BYTES - filled)
            pieces.append(Piece(key, done - begin, length))
            done += length
            at = done
            filled += length
    if pieces:
        yield Span(shard, start, tuple(pieces))


def _run(spans: list[Span], tensors: dict[str, Any], reader: Any | None) -> None:
    from tqdm import tqdm

    views = {} if reader else {p.key: _bytes_of(tensors[p.key]) for span in spans for p in span.pieces}

    def work(span: Span) -> int:
        if reader is None:
            read_span(span, [views[p.key][p.begin : p.begin + p.length] for p in span.pieces])
        else:
            reader.read(span, tensors)
        return span.length

    total = sum(span.length for span in spans)
    threads = max(1, min(_MAX_THREADS, 2 * (os.cpu_count() or 1), len(spans)))
    bar = tqdm(total=total, desc="load", unit="B", unit_scale=True, disable=None)
    try:
        with bar, ThreadPoolExecutor(threads, thread_name_prefix="tilefoundry-load") as pool:
            for length in pool.map(work, spans):
                bar.update(length)
    finally:
        if reader is not None:
            reader.close()


def read_span(span: Span, buffers: list[memoryview]) -> None:
    """Fill ``buffers``, as long as the span together; CheckpointError where the file ends early."""
    at = span.offset
    while buffers:
        got = os.preadv(span.shard.fd, buffers, at)
        if got == 0:
            raise CheckpointError(
                f"{span.shard.path} is truncated: it ended at byte {at} while it was read "
                f"for {span.pieces[-1].key!r}; load again"
            )
        at += got
        while buffers and got >= len(buffers[0]):
            got -= len(buffers[0])
            buffers = buffers[1:]
        if got:
            buffers = [buffers[0][got:], *buffers[1:]]


def _bytes_of(tensor: Any) -> memoryview:
    import torch

    return memoryview(tensor.reshape(-1).view(torch.uint8).numpy())
