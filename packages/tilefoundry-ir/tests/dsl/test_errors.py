"""Errors point at file, line and column, and show the source line with a caret."""

# Long lines are one case each.
from __future__ import annotations

import traceback

import pytest

from tilefoundry.ir.errors import DslError


def error_of(run, text: str) -> DslError:
    with pytest.raises(DslError) as caught:
        run(text)
    return caught.value


@pytest.mark.spec("dsl.positions")
@pytest.mark.parametrize(
    ("text", "line", "pointed"),
    [
        ("@func\ndef f(x: Tensor[(4,), 'f32']):\n    return x + (x + 1)\n", 3, "x + 1"),
        ("@func\ndef f(x: Tensor[(4,), 'f32']):\n    y = q\n    return y\n", 3, "q"),
        ("@func\ndef f(x: Tensor[(4,), 'f33']):\n    return x\n", 2, "Tensor[(4,), 'f33']"),
        ("@func\ndef f(x: Tensor[(4,), 'f32']):\n    größe = x\n    return größe + q\n", 4, "q"),
        ("@func\ndef f(\n    x: Tensor[(4,), 'f32'],\n    y,\n):\n    return x\n", 4, "y"),
        (
            "@func\ndef f(x: Tensor[(4,), 'f32']):\n    return tf.softmax(x,\n                      axis=7)\n",
            3,
            "tf.softmax(x,",
        ),
        (
            "class A:\n    class B:\n        @func\n        def f(x: Tensor[(4,), 'f32']):\n            return q\n",
            5,
            "q",
        ),
        (
            "@func\ndef f(x: Tensor[(4,), 'f32']) -> 'Tensor[(q,), \"f32\"]':\n    return x\n",
            2,
            "'Tensor[(q,), \"f32\"]'",
        ),
        ("@module\nclass M:\n    def m(self): pass\n    x = 3\n", 4, "x = 3"),
    ],
)
def test_position(run, text, line, pointed):
    error = error_of(run, text)
    assert error.filename.startswith("<cell ")
    assert error.lineno == line + 2  # after the two lines of the prelude
    assert error.text[error.offset - 1 : error.end_offset - 1] == pointed
    shown = str(error).splitlines()
    assert shown[0].startswith(f"{error.filename}:{error.lineno}:{error.offset}: ")
    assert shown[1] == "    " + error.text.rstrip("\n")
    assert shown[2] == " " * (4 + error.offset - 1) + "^" * len(pointed)


def test_python_shows_the_programs_line_and_not_the_readers_frames(run):
    error = error_of(run, "@func\ndef f(x: Tensor[(4,), 'f32']):\n    return x + (x + 1)\n")
    text = "".join(traceback.format_exception(error))
    assert "return x + (x + 1)" in text and "^^^^^" in text
    assert "expressions.py" not in text and "operators.py" not in text


def test_an_error_is_a_syntax_error(run):
    assert isinstance(error_of(run, "@func\ndef f(x):\n    return x\n"), SyntaxError)


def test_deep_nesting_is_an_error_of_the_program(run):
    deep = "x" + " + x" * 40000
    with pytest.raises((DslError, RecursionError, MemoryError)) as caught:
        run(f"@func\ndef f(x: Tensor[(4,), 'f32']):\n    return {deep}\n")
    # Python's own compiler may give up first; once it has not, the reader must say what to do.
    if caught.type is DslError:
        assert "nests expressions too deeply" in str(caught.value)


def test_a_deep_but_legal_expression_that_the_reader_cannot_walk(run):
    deep = "x" + " + x" * 900
    try:
        run(f"@func\ndef f(x: Tensor[(4,), 'f32']):\n    return {deep}\n")
    except DslError as error:
        assert "nests expressions too deeply; name intermediate values" in str(error)
