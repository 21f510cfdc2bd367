"""Show what sentence embeddings say: a similarity table and the nearest pairs."""

from __future__ import annotations

from itertools import combinations

import torch


def similarity_table(sentences: list[str], embeddings: torch.Tensor) -> str:
    """Cosine similarities of unit-length ``embeddings`` [n, width] as an aligned text table."""
    scores = embeddings @ embeddings.T
    head = "      " + " ".join(f"{j + 1:>6}" for j in range(len(sentences)))
    rows = [
        f"{i + 1:>5} " + " ".join(f"{score:6.3f}" for score in row) + f"  {sentences[i]}"
        for i, row in enumerate(scores.tolist())
    ]
    return "\n".join([head, *rows])


def nearest_pairs(sentences: list[str], embeddings: torch.Tensor, *, count: int) -> str:
    """The ``count`` most similar pairs of different sentences, best first, a line each."""
    scores = embeddings @ embeddings.T
    pairs = sorted(combinations(range(len(sentences)), 2), key=lambda pair: -float(scores[pair]))
    lines = [f"{float(scores[a, b]):6.3f}  {sentences[a]}  <->  {sentences[b]}" for a, b in pairs[:count]]
    return "\n".join(["nearest pairs:", *lines])
