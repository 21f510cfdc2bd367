"""Bodies of random functions: statements over the values in scope, as source text."""

from __future__ import annotations

import random
from dataclasses import dataclass

FLOATS = ("f32", "f32", "f32", "bf16", "f64")
UNARY = ("tf.tanh", "tf.sigmoid", "tf.relu", "tf.neg", "tf.abs", "tf.sin", "tf.erf", "tf.silu", "-")
BINARY = ("+", "-", "*", "tf.minimum", "tf.maximum")
LITERALS = ("0.5", "-1.25", "3.0e-3", "1e-30", "0.1", "-0.0", "2.0")
NAMES = ("a", "b", "c", "h", "x", "y", "acc", "out", "t0", "t3", "tf1", "x_1", "y_2")


@dataclass(frozen=True)
class Value:
    """A value in scope: its name, its extents as text or ints, its dtype."""

    name: str
    shape: tuple[str | int, ...]
    dtype: str


@dataclass(frozen=True)
class Callee:
    """A function that a body may call: how it is spelled, what it takes and gives."""

    name: str
    params: tuple[Value, ...]
    result: Value


class FunctionText:
    """Writes one function: a growing list of statements over the values in scope."""

    def __init__(
        self, rng: random.Random, params: list[Value], callees: list[Callee], meshes: bool = True
    ) -> None:
        self.rng = rng
        self.meshes = meshes
        self.params = params
        self.values = list(params)
        self.callees = callees
        self.lines: list[str] = []
        self.indent = "    "
        self.loops = 0

    def emit(self, line: str) -> None:
        self.lines.append(self.indent + line)

    def bind(self, expression: str, shape: tuple[str | int, ...], dtype: str, fresh: bool = False) -> Value:
        """``name = expression``; outside loops the name may be one that is in use already, as authors do."""
        fresh = fresh or self.loops > 0
        name = f"v{len(self.lines)}" if fresh else self.rng.choice((*NAMES, f"v{len(self.lines)}"))
        self.emit(f"{name} = {expression}")
        value = Value(name, shape, dtype)
        self.values = [v for v in self.values if v.name != name] + [value]
        return value

    def pick(self, *, rank: int | None = None, floats: bool = True) -> Value | None:
        fits = [
            v
            for v in self.values
            if (rank is None or len(v.shape) >= rank)
            and (not floats or (v.dtype[0] in "fb" and v.dtype != "bool"))
        ]
        return self.rng.choice(fits) if fits else None

    def statement(self, depth: int = 0) -> None:
        kinds = [self.unary, self.binary, self.literal, self.reduction, self.view, self.window, self.compare]
        kinds += [self.softmax, self.cast, self.matmul, self.split, self.alias, self.unrolled]
        if self.callees:
            kinds += [self.call] * 6
        if self.loops == 0 and self.meshes:
            kinds.append(self.mesh_scope)
        if depth < 2:
            kinds += [self.range_loop, self.tile_loop] if depth == 0 else [self.range_loop]
        self.rng.choice(kinds)(depth)

    def unary(self, depth: int) -> None:
        x = self.pick()
        if x is not None:
            op = self.rng.choice(UNARY)
            self.bind(f"-{x.name}" if op == "-" else f"{op}({x.name})", x.shape, x.dtype)

    def _apply(self, op: str, lhs: str, rhs: str) -> str:
        return f"{op}({lhs}, {rhs})" if op.startswith("tf.") else f"{lhs} {op} {rhs}"

    def binary(self, depth: int) -> None:
        x = self.pick()
        if x is None:
            return
        others = [
            v for v in self.values if v.dtype == x.dtype and (v.shape == x.shape or v.shape == x.shape[1:])
        ]
        y = self.rng.choice(others)
        text = self._apply(self.rng.choice(BINARY), x.name, y.name)
        if "*" in text:
            text = f"tf.tanh({text})"
        self.bind(text, x.shape, x.dtype)

    def literal(self, depth: int) -> None:
        x = self.pick()
        if x is None:
            return
        number, op = self.rng.choice(LITERALS), self.rng.choice(BINARY)
        lhs, rhs = (x.name, number) if self.rng.random() < 0.6 else (number, x.name)
        text = self._apply(op, lhs, rhs)
        if self.rng.random() < 0.3:
            text = f"tf.clamp({text}, min_val=-{self.rng.choice(('1.0', '0.25'))}, max_val=4.0)"
        self.bind(text, x.shape, x.dtype)

    def reduction(self, depth: int) -> None:
        x = self.pick(rank=1)
        if x is None:
            return
        axis = self.rng.randrange(len(x.shape))
        keep = self.rng.random() < 0.5
        kind = self.rng.choice(("sum", "mean", "max", "min", "absmax"))
        written = axis if self.rng.random() < 0.5 else axis - len(x.shape)
        text = f'tf.reduce({x.name}, axes=({written},), keepdim={keep}, kind="{kind}")'
        if kind == "sum":
            text = f"tf.tanh({text})"
        left = [1 if i == axis else d for i, d in enumerate(x.shape) if keep or i != axis]
        self.bind(text, tuple(left), x.dtype)

    def view(self, depth: int) -> None:
        x = self.pick(rank=2, floats=False)
        if x is None:
            return
        perm = list(range(len(x.shape)))
        self.rng.shuffle(perm)
        if self.rng.random() < 0.5:
            self.bind(f"tf.transpose({x.name}, {tuple(perm)})", tuple(x.shape[i] for i in perm), x.dtype)
        else:
            shape = (*x.shape, 1)
            self.bind(f"tf.reshape({x.name}, ({', '.join(map(str, shape))}))", shape, x.dtype)

    def window(self, depth: int) -> None:
        x = self.pick(rank=1, floats=False)
        if x is None or not isinstance(x.shape[0], int) or x.shape[0] < 2:
            return
        if self.rng.random() < 0.5:
            at = self.rng.randrange(-x.shape[0], x.shape[0])
            self.bind(f"{x.name}[{at}]", x.shape[1:], x.dtype)
        else:
            start = self.rng.randrange(x.shape[0] - 1)
            self.bind(f"{x.name}[{start}:]", (x.shape[0] - start, *x.shape[1:]), x.dtype)

    def compare(self, depth: int) -> None:
        x = self.pick()
        if x is None:
            return
        mask = self.bind(f"{x.name} {self.rng.choice(('<', '>=', '!='))} 0.125", x.shape, "bool", fresh=True)
        if any(v == x for v in self.values):
            self.bind(f"tf.where({mask.name}, {x.name}, {self.rng.choice(LITERALS)})", x.shape, x.dtype)

    def softmax(self, depth: int) -> None:
        x = self.pick(rank=1)
        if x is not None:
            self.bind(f"tf.softmax({x.name}, axis={self.rng.randrange(-1, len(x.shape))})", x.shape, x.dtype)

    def cast(self, depth: int) -> None:
        x = self.pick()
        if x is not None:
            dtype = self.rng.choice(FLOATS)
            self.bind(f'tf.cast({x.name}, "{dtype}")', x.shape, dtype)

    def matmul(self, depth: int) -> None:
        x = self.pick(rank=2)
        if x is not None and len(x.shape) == 2:
            square = self.bind(
                f"tf.tanh(tf.matmul({x.name}, tf.transpose({x.name}, (1, 0))))", (x.shape[0],) * 2, x.dtype
            )
            if self.rng.random() < 0.3 and x in self.values:
                self.bind(f"tf.tanh({square.name} @ {x.name})", x.shape, x.dtype)

    def split(self, depth: int) -> None:
        x = self.pick(rank=1, floats=False)
        if x is None or not isinstance(x.shape[-1], int) or x.shape[-1] % 2 or not x.shape[-1]:
            return
        a, b = f"v{len(self.lines)}", f"w{len(self.lines)}"
        self.emit(f"{a}, {b} = tf.split({x.name}, axis=-1, num_splits=2)")
        half = (*x.shape[:-1], x.shape[-1] // 2)
        self.values += [Value(a, half, x.dtype), Value(b, half, x.dtype)]
        self.bind(f"tf.concat({b}, {a}, axis=-1)", x.shape, x.dtype)

    def alias(self, depth: int) -> None:
        x = self.pick()
        if x is not None:
            self.bind(x.name, x.shape, x.dtype)

    def unrolled(self, depth: int) -> None:
        x = self.pick()
        if x is None:
            return
        parts = f"v{len(self.lines)}"
        self.emit(f"{parts} = [{x.name} + k * 0.5 for k in (1, 2)]")
        self.bind(f"tf.stack({parts}[0], {parts}[1], axis=0)", (2, *x.shape), x.dtype)

    def call(self, depth: int) -> None:
        callee = self.rng.choice(self.callees)
        given = []
        for want in callee.params:
            fits = [v for v in self.values if v.shape == want.shape and v.dtype == want.dtype]
            if not fits:
                return
            given.append(self.rng.choice(fits).name)
        self.bind(f"{callee.name}({', '.join(given)})", callee.result.shape, callee.result.dtype)

    def range_loop(self, depth: int) -> None:
        carried = [v for v in self.values if v.dtype != "bool"][-2:]
        if not carried:
            return
        before = list(self.values)
        bounds = self.rng.choice(("3", "1, 4", "0, 6, 2", "N"))
        self.emit(f"for {self.rng.choice('ijk')}{len(self.lines)} in range({bounds}):")
        self.indent += "    "
        self.loops += 1
        for _ in range(self.rng.randrange(3)):
            self.statement(depth + 1)
        for v in carried:
            op = self.rng.choice(("tf.tanh({0})", "{0} * 0.5", "tf.minimum({0}, 0.75)"))
            self.emit(f"{v.name} = {op.format(v.name)}")
        if len(carried) == 2 and (carried[0].shape, carried[0].dtype) == (carried[1].shape, carried[1].dtype):
            self.emit(f"{carried[0].name}, {carried[1].name} = {carried[1].name}, {carried[0].name}")
        self.loops -= 1
        self.indent = self.indent[:-4]
        self.values = before

    def tile_loop(self, depth: int) -> None:
        x = self.pick(rank=2)
        if x is None or x.dtype == "bool":
            return
        out = f"v{len(self.lines)}"
        self.emit(f"{out} = {x.name}")
        self.emit(f"for r in tile({x.shape[0]}, {self.rng.choice((1, 2, 3))}):")
        rest = ", ".join(["0"] * (len(x.shape) - 1))
        self.emit(f"    piece = tf.tanh({x.name}[r])")
        self.emit(f"    {out} = tf.insert_slice({out}, piece, (r.start, {rest}))")
        self.values.append(Value(out, x.shape, x.dtype))

    def mesh_scope(self, depth: int) -> None:
        """Move a value to registers over the axes of a mesh, work on it there, and bring it back."""
        x = self.pick(rank=1)
        if x is None:
            return
        extent = x.shape[-1]
        if not isinstance(extent, int) or extent % 2:
            return
        scope, held = self.rng.choice([n for n in "cgm" if n != x.name]), f"v{len(self.lines)}"
        mesh = self.rng.choice(
            (
                'Mesh(("cta",), (1, 3, 2), ("z", "a", "b"))',
                'Mesh("cta", (3, 2), ("a", "b"))',
                'Mesh("cta", (3, 2), ("a", "b"))[0:2]',
            )
        )
        lead = "".join(f"{d}, " for d in x.shape[:-1])
        self.emit(f"with {mesh} as {scope}:")
        self.emit(f'    {held} = tf.reshard({x.name}, ({lead}{extent} @ {scope}.b,), "rmem")')
        self.emit(f"    {held}_ = tf.tanh({held}) * 0.5")
        self.emit(f'    {held}_out = tf.reshard({held}_, ({lead}{extent}{"," if not lead else ""}), "gmem")')
        # A later value may take the name of the mesh, and the mesh that of an earlier value.
        self.values = [v for v in self.values if v.name != scope]

    def finish(self, statements: int) -> Value:
        """Write ``statements`` random statements and a return; the returned value."""
        for _ in range(statements):
            self.statement()
        result = self.rng.choice([v for v in self.values if v.dtype != "bool"])
        self.emit(f"return {result.name}")
        return result


def annotation(value: Value, kind: str = "Tensor") -> str:
    """The value's type as written in a signature."""
    extents = ", ".join(map(str, value.shape)) + ("," if len(value.shape) == 1 else "")
    return f'{kind}[({extents}), "{value.dtype}"]'
