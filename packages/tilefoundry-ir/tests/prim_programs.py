"""Random statement-level programs, as source text that types, for round trips of text.

``generate(seed)`` is deterministic. Programs are sensible to the reader, not to a user: they store what they like.
"""

from __future__ import annotations

import random

__all__ = ["generate"]

HEAD = """from tilefoundry.dsl import *

N = DimVar("N", 1, 100)
M = DimVar("M", 2, 50)


@prim_func
def f(
    x: Tensor[(N, 8), "f32"],
    h: Tensor[(N, M, 4), "bf16"],
    q: Tensor[(8, 6), "i8"],
    w: Tensor[(8, 6), "f32"],
    b: Tensor[(8,), "f32"],
    y: Tensor[(N, 8), "f32"],
    z: Tensor[(N, M, 4), "bf16"],
    o: Tensor[(N, 6), "f32"],
):
"""
UNARY = ("exp", "neg", "silu", "sqrt", "abs", "relu", "tanh", "square")
BINARY = ("add", "sub", "mul", "maximum", "minimum", "div")
SCHEDULES = ("", ", tile=(64, 64, 32)", ", stages=3, split_k=2", ", cluster=(2, 1), persistent=True")


class _Writer:
    """Writes one body; ``scalars`` are f32 names and ``rows`` indices below N that are in scope."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.lines: list[str] = []
        self.count = 0
        self.around: set[str] = set()
        self.own: set[str] = set()

    def name(self, stem: str) -> str:
        self.count += 1
        # Names come again now and then, so that reading must tell them apart; never inside a block that sees them.
        found = self.rng.choice((stem, f"{stem}{self.count}"))
        found = f"{stem}{self.count}" if found in self.around else found
        self.own.add(found)
        return found

    def value(self, scalars: list[str], rows: list[str], depth: int = 2) -> str:
        if depth == 0 or self.rng.random() < 0.3:
            return self.leaf(scalars, rows)
        a = self.value(scalars, rows, depth - 1)
        kind = self.rng.randrange(4)
        if kind == 0:
            return f"T.{self.rng.choice(UNARY)}({a})"
        if kind == 1:
            return f"T.select({a} > {self.number()}, {a}, {self.value(scalars, rows, depth - 1)})"
        if kind == 2:
            return f"({a} {self.rng.choice('+-*/')} {self.number()})"
        return f"T.{self.rng.choice(BINARY)}({a}, {self.value(scalars, rows, depth - 1)})"

    def leaf(self, scalars: list[str], rows: list[str]) -> str:
        options = [f"b[{self.rng.randrange(8)}]", f"x[0, {self.rng.randrange(8)}]", *scalars]
        options += [f"x[{row}, {self.rng.randrange(8)}]" for row in rows]
        options += [f"h[{row}, M - 1, {self.rng.randrange(4)}]" for row in rows]
        return self.rng.choice(options)

    def number(self) -> str:
        return repr(self.rng.choice((0.5, 2.0, -1.25, 1e-30, 3.0)))

    def block(self, indent: str, scalars: list[str], rows: list[str], depth: int) -> None:
        scalars, rows = list(scalars), list(rows)
        around, own = self.around, self.own
        self.around, self.own = around | own, set()
        for _ in range(self.rng.randrange(1, 4)):
            self.statement(indent, scalars, rows, depth)
        self.around, self.own = around, own

    def statement(self, indent: str, scalars: list[str], rows: list[str], depth: int) -> None:
        makers = [self.let, self.store, self.tile_op]
        makers += [self.loop, self.branch, self.reduction, self.product] if depth else []
        self.rng.choice(makers)(indent, scalars, rows, depth)

    def let(self, indent: str, scalars: list[str], rows: list[str], depth: int) -> None:
        name = self.name("v")
        self.lines.append(f"{indent}{name} = {self.value(scalars, rows)}")
        scalars.append(name)

    def store(self, indent: str, scalars: list[str], rows: list[str], depth: int) -> None:
        row = self.rng.choice([*rows, "0", "N - 1"])
        place = self.rng.choice(
            (f"y[{row}, {self.rng.randrange(8)}]", f"z[{row}, M - 2, {self.rng.randrange(4)}]")
        )
        self.lines.append(f"{indent}{place} {self.rng.choice(('=', '+='))} {self.value(scalars, rows)}")

    def tile_op(self, indent: str, scalars: list[str], rows: list[str], depth: int) -> None:
        row = self.rng.choice([*rows, "0"])
        cut = self.rng.randrange(1, 7)
        self.lines.append(
            indent
            + self.rng.choice(
                (
                    f"T.copy(x[{row}, {cut}:], y[{row}, {cut}:])",
                    f"T.fill(y[{row}], {self.number()})",
                    f"T.binary(x[{row}], b, y[{row}], '{self.rng.choice(BINARY)}')",
                    f"T.rms_norm(x[{row}], b, y[{row}], eps=1e-6)",
                    f"T.clamp(x, y, {-cut}.0, {cut}.0)",
                    f"T.reduce(x, y[:, {cut}], axes=(1,), kind='{self.rng.choice(('sum', 'max', 'absmax'))}')",
                )
            )
        )

    def loop(self, indent: str, scalars: list[str], rows: list[str], depth: int) -> None:
        index = self.name("i")
        start = self.rng.choice(("range(N)", "range(1, N, 2)", "T.vectorized(N)", "range(N - 1)"))
        self.lines.append(f"{indent}for {index} in {start}:")
        self.block(indent + "    ", scalars, [*rows, index], 0 if "vector" in start else depth - 1)

    def branch(self, indent: str, scalars: list[str], rows: list[str], depth: int) -> None:
        test = self.rng.choice(
            (f"{self.leaf(scalars, rows)} > {self.number()}", "N > 3", *(f"{r} == 2" for r in rows))
        )
        self.lines.append(f"{indent}if {test}:")
        self.block(indent + "    ", scalars, rows, depth - 1)
        if self.rng.random() < 0.5:
            self.lines.append(f"{indent}else:")
            self.block(indent + "    ", scalars, rows, depth - 1)

    def reduction(self, indent: str, scalars: list[str], rows: list[str], depth: int) -> None:
        total, k = self.name("acc"), self.name("k")
        self.lines += [
            f"{indent}{total} = T.accumulator('{self.rng.choice(('sum', 'max', 'min'))}')",
            f"{indent}for {k} in T.vectorized(8):",
            f"{indent}    {total} += x[{self.rng.choice([*rows, '0'])}, {k}]",
        ]
        scalars.append(total)

    def product(self, indent: str, scalars: list[str], rows: list[str], depth: int) -> None:
        row, column, total, pair = (self.name(stem) for stem in ("i", "j", "s", "p"))
        prologue = "(T.cast(q[k, j], 'f32') * b[k] for k, j in T.elements((8, 6), 'f32'))"
        right, sums = self.rng.choice(
            (("w", total), (prologue, total), (f"(w, {prologue})", f"{total}, {pair}"))
        )
        self.lines.append(
            f"{indent}for {row}, {column}, {sums} in T.contract(x, {right}{self.rng.choice(SCHEDULES)}):"
        )
        inner = [*scalars, *sums.split(", ")]
        value = self.value(inner, [*rows, row])
        self.lines.append(f"{indent}    o[{row}, {column}] = {value} + {total}")


def generate(seed: int) -> str:
    """The program of ``seed``; it defines ``f``."""
    writer = _Writer(seed)
    writer.block("    ", [], [], 3)
    stores = ["    y[0, 0] = 1.0", "    z[0, 0, 0] = 1.0", "    o[0, 0] = 1.0"]
    return HEAD + "\n".join([*writer.lines, *stores]) + "\n"
