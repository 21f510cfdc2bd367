"""Which bytes of a checkpoint are read together, and reading them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

from tilefoundry.ir.errors import CheckpointError
from tilefoundry.runtime.resource.shard import Shard

__all__ = ["Piece", "Span", "plan_spans", "read_span"]

SPAN_BYTES = 8 << 20
_MAX_PIECES = 512


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
