"""Random changes of DSL source inside its defs: signatures and bodies, never the Python around them."""

from __future__ import annotations

import ast
import copy
import random
from collections.abc import Callable

__all__ = ["mutate"]

_BINARY = (
    ast.Add,
    ast.Sub,
    ast.Mult,
    ast.Div,
    ast.FloorDiv,
    ast.Mod,
    ast.MatMult,
    ast.Pow,
    ast.BitAnd,
    ast.BitOr,
)
_COMPARE = (ast.Lt, ast.GtE, ast.Eq, ast.NotEq, ast.Is, ast.In)
_LITERALS = (0, 1, -1, 3, 2.5, -0.0, 1e400, True, None, "f32", "sum", "bf16", "x", 2**70, b"", ...)
_NAMES = (
    "x",
    "y",
    "N",
    "tf",
    "Tensor",
    "H",
    "layers",
    "range",
    "tile",
    "len",
    "c",
    "q",
    "math",
    "w",
    "tuple",
    "print",
    "T",
    "i",
    "acc",
)
_STATEMENTS = (
    "return x",
    "pass",
    "break",
    "x = x + 1.0",
    "x, y = y, x",
    "for k in range(3): x = x",
    "for k in tile(N, 3): x = x[k]",
    "if x: x = x",
    "while x: pass",
    "x[0] = 1.0",
    "with x as c: pass",
    "x += y",
    "import os",
    "def g(): pass",
    "x: Tensor[(N,), 'f32'] = x",
    "del x",
    "'text'",
    "global x",
)
_EXPRESSIONS = (
    "x[1:]",
    "x[-1]",
    "x[..., 0]",
    "x[::2]",
    "tf.reshape(x, (-1,))",
    "tf.exp(x)",
    "tf.reduce(x, axes=(0,), kind='max')",
    "(x, y)",
    "[x for k in (1, 2)]",
    "x if N > 1 else y",
    "-x",
    "~x",
    "not x",
    "x < y < 1",
    "lambda: x",
    "x.T",
    "f'{x}'",
    "{x @ y}",
    "N @ c.b",
    "*x",
    "x @ x",
    "x(x)",
    "tf",
    "tf.nothing(x)",
    "tf.cast(x, 'f32')",
    "tf.split(x, 0, 2)",
    "tf.zeros(Tensor[(N, 2), 'f32'])",
    "Tensor[(4,), 'i8']",
)


def mutate(source: str, rng: random.Random) -> str:
    """``source`` with one to three changes somewhere inside its function definitions."""
    tree = ast.parse(source)
    for _ in range(rng.choice((1, 1, 2, 3))):
        target = rng.choice([n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)])
        rng.choice(_CHANGES)(target, rng)
    return ast.unparse(ast.fix_missing_locations(tree))


def _parts(function: ast.FunctionDef, kind: type) -> list[ast.AST]:
    roots: list[ast.AST] = [*function.body, function.args, *([function.returns] if function.returns else [])]
    return [node for root in roots for node in ast.walk(root) if isinstance(node, kind)]


def _change_operator(function: ast.FunctionDef, rng: random.Random) -> None:
    for node in _picked(function, ast.BinOp, rng):
        node.op = rng.choice(_BINARY)()
    for node in _picked(function, ast.Compare, rng):
        node.ops = [rng.choice(_COMPARE)() for _ in node.ops]


def _change_literal(function: ast.FunctionDef, rng: random.Random) -> None:
    for node in _picked(function, ast.Constant, rng):
        node.value = rng.choice(_LITERALS)


def _change_name(function: ast.FunctionDef, rng: random.Random) -> None:
    for node in _picked(function, ast.Name, rng):
        node.id = rng.choice([*_NAMES, *(n.id for n in _parts(function, ast.Name))])


def _change_attribute(function: ast.FunctionDef, rng: random.Random) -> None:
    for node in _picked(function, ast.Attribute, rng):
        node.attr = rng.choice(
            (
                "add",
                "softmax",
                "matmul",
                "reduce",
                "extent",
                "start",
                "b",
                "slice",
                "concat",
                "copy",
                "select",
                "nothing",
            )
        )


def _change_arguments(function: ast.FunctionDef, rng: random.Random) -> None:
    for node in _picked(function, ast.Call, rng):
        change = rng.randrange(4)
        if change == 0:
            node.args = node.args[:-1]
        elif change == 1:
            node.args = [*node.args, *node.args[:1]]
        elif change == 2:
            rng.shuffle(node.args)
        else:
            node.keywords = node.keywords[:-1]


def _replace_expression(function: ast.FunctionDef, rng: random.Random) -> None:
    parents = _parts(function, (ast.BinOp, ast.Call, ast.Return, ast.Assign, ast.Subscript))  # type: ignore[arg-type]  # isinstance takes a tuple
    if not parents:
        return
    parent = rng.choice(parents)
    new = _expression(rng)
    if isinstance(parent, ast.BinOp):
        parent.left = new
    elif isinstance(parent, ast.Call) and parent.args:
        parent.args[rng.randrange(len(parent.args))] = new
    elif isinstance(parent, (ast.Return, ast.Assign, ast.Subscript)):
        parent.value = new


def _expression(rng: random.Random) -> ast.expr:
    if rng.random() < 0.3:
        return ast.Constant(rng.choice(_LITERALS))
    text = rng.choice(_EXPRESSIONS)
    return ast.parse(f"g({text})", mode="eval").body.args[0]  # type: ignore[attr-defined]  # a call


def _insert_statement(function: ast.FunctionDef, rng: random.Random) -> None:
    function.body.insert(rng.randrange(len(function.body) + 1), ast.parse(rng.choice(_STATEMENTS)).body[0])


def _drop_statement(function: ast.FunctionDef, rng: random.Random) -> None:
    if len(function.body) > 1:
        del function.body[rng.randrange(len(function.body))]


def _repeat_statement(function: ast.FunctionDef, rng: random.Random) -> None:
    stmt = copy.deepcopy(rng.choice(function.body))
    function.body.insert(rng.randrange(len(function.body) + 1), stmt)


def _wrap_statement(function: ast.FunctionDef, rng: random.Random) -> None:
    index = rng.randrange(len(function.body))
    loop = ast.parse(rng.choice(("for k in range(3): pass", "if N > 0: pass", "for k in (1, 2): pass"))).body[
        0
    ]
    loop.body = [function.body[index]]  # type: ignore[attr-defined]  # a for or an if
    function.body[index] = loop


def _picked(function: ast.FunctionDef, kind: type, rng: random.Random) -> list:
    found = _parts(function, kind)
    return [rng.choice(found)] if found else []


_CHANGES: tuple[Callable[[ast.FunctionDef, random.Random], None], ...] = (
    _change_operator,
    _change_literal,
    _change_name,
    _change_attribute,
    _change_arguments,
    _replace_expression,
    _replace_expression,
    _insert_statement,
    _drop_statement,
    _repeat_statement,
    _wrap_statement,
)
