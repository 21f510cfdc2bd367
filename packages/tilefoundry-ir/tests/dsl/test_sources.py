"""Where the DSL finds its source: files, factories, notebook cells, doctests; and where it cannot."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import textwrap

import pytest

from tilefoundry.ir.errors import DslError

MODEL = """
from tilefoundry.dsl import *
N = DimVar("N", 1, 100)

@module(entry="f")
class M:
    @func
    def f(x: Tensor[(N,), "f32"]) -> Tensor[(N,), "f32"]:
        return x + 1.0
"""


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.spec("dsl.sources")
def test_a_file_is_an_ordinary_importable_module(tmp_path):
    path = tmp_path / "model.py"
    path.write_text(MODEL)
    assert load(path).M.entry == "f"


def test_a_file_with_other_letters_and_tabs(tmp_path):
    path = tmp_path / "mödel.py"
    path.write_text(
        MODEL.replace("    ", "\t").replace("return x + 1.0", "größe = x  # ©\n\t\treturn größe + 1.0")
    )
    assert load(path).M.entry == "f"


@pytest.mark.spec("dsl.sources")
def test_a_notebook_cell_through_linecache(run):
    assert run(MODEL)["M"].entry == "f"


def test_two_cells_with_one_name_do_not_mix(run):
    first = run(MODEL)["M"]
    second = run(MODEL.replace("1.0", "2.0"))["M"]
    assert first != second


def test_a_changed_file_is_read_again(tmp_path):
    path = tmp_path / "model.py"
    path.write_text(MODEL)
    first = load(path).M
    path.write_text("# one line more\n" + MODEL.replace("1.0", "2.0"))
    second = load(path).M
    assert first != second and second.lookup("f").stmts()[0].value.args[1].value == 2.0


@pytest.mark.spec("dsl.sources")
def test_source_that_python_does_not_keep_is_an_error_that_says_so():
    with pytest.raises(
        DslError, match="Python keeps no source for f, and the DSL reads source text; put the definition"
    ):
        exec(textwrap.dedent(MODEL), {"__name__": "nowhere"})


@pytest.mark.spec("dsl.sources")
def test_the_prompt_reads_programs_where_python_keeps_their_source_and_says_so_elsewhere():
    done = prompt(MODEL + "\nprint(M.entry * 3)\n")
    if sys.version_info >= (3, 13):
        assert "fff" in done.stdout and "Error" not in done.stderr
    else:
        assert "Python keeps no source for f, and the DSL reads source text" in done.stderr
        assert "put the definition into a file or a notebook cell" in done.stderr


def prompt(text: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-q", "-i"], input=text, capture_output=True, text=True, timeout=60, check=False
    )


def test_lambdas_and_other_objects_are_refused():
    from tilefoundry.dsl import func

    with pytest.raises(TypeError, match="@func decorates a def, got int"):
        func(3)
    with pytest.raises(TypeError, match="@func decorates a def, got type"):
        func(int)
    with pytest.raises(DslError, match="the source does not define <lambda>"):
        func(lambda x: x)


def test_async_functions_are_refused(run):
    with pytest.raises(DslError, match="f must be a plain def"):
        run("@func\nasync def f(x: Tensor[(4,), 'f32']):\n    return x\n")


def test_annotations_that_python_evaluates_first_are_reported_by_the_reader(tmp_path):
    path = tmp_path / "wrong.py"
    path.write_text(MODEL.replace('x: Tensor[(N,), "f32"]', 'x: Tensor[(N,), "f33", None]'))
    with pytest.raises(DslError, match="unknown dtype 'f33'") as caught:
        load(path)
    assert (caught.value.filename, caught.value.lineno) == (str(path), 8)
