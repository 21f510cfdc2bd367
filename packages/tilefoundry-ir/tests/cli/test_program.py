"""The command line. Oracle: stated output, statuses, and what stands on which stream."""

from __future__ import annotations

import argparse
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace

import pytest

from tilefoundry.cli import CommandError, main
from tilefoundry.cli.command import Command, find_commands
from tilefoundry.cli.program import build_parser

MODEL = """
from tilefoundry.dsl import *
B = DimVar("B", 1, 65)

@module(entry="run")
class Layer:
    @func
    def run(x: Tensor[(B, 8), "f32"], w: ConstTensor[(8, 8), "f32"]) -> Tensor[(B, 8), "f32"]:
        return tf.relu(tf.matmul(x, w)) * 0.5

    @run.converter("w")
    def transposed(raw: Tensor[(8, 8), "f32"]) -> Tensor[(8, 8), "f32"]:
        return tf.transpose(raw, (1, 0))

@module(entry="step", topologies=(Topology("cta", 8),))
class Net:
    layers = tuple(Layer.renamed(f"layer{i}") for i in range(4))

    @func
    def step(x: Tensor[(B, 8), "f32"]) -> Tensor[(B, 8), "f32"]:
        for layer in layers:
            x = layer(x)
        return x

    def forward(self, x):
        return self.step(x)
"""

GOLDEN = """\
Net  [topologies cta(8)]
  > step(x: f32[B, 8]) -> f32[B, 8]
  = forward(...)  method
  layer0 … layer3 (4 alike)
    > run(x: f32[B, 8]) -> f32[B, 8]  1 weight

weights
  path      type       converter  alike  bytes
  layer0.w  f32[8, 8]  from raw       4    256
4 weights, 0.0 MB

ops
  op      uses
  call       4
  matmul     4
  relu       4
  mul        4

extents
  name  from  below
  B        1     65
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.py"
    path.write_text(MODEL)
    return path


@pytest.mark.spec("cli.show")
def test_show_prints_tree_weights_ops_and_extents(model: Path, capsys: pytest.CaptureFixture) -> None:
    assert main(["show", f"{model}:Net"]) == 0
    assert capsys.readouterr().out == GOLDEN


KERNELS = """
from tilefoundry.dsl import *
N = DimVar("N", 1, 65)

@module(entry="host")
class Kernels:
    @prim_func(topologies=(Topology("cta", 8), Topology("thread", 128)))
    def product(x: Tensor[(N, 8), "bf16"], w: Tensor[(8, 16), "bf16"], y: Tensor[(N, 16), "bf16"]):
        for i, j, total in T.contract(x, w):
            y[i, j] = T.silu(total)

    @prim_func
    def host(x: Tensor[(N, 8), "bf16"], w: Tensor[(8, 16), "bf16"], y: Tensor[(N, 16), "bf16"]):
        T.launch(product, x, w, y)
"""


@pytest.mark.spec("cli.show")
def test_show_counts_tile_level_ops_of_kernels(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    (tmp_path / "kernels.py").write_text(KERNELS)
    assert main(["show", f"{tmp_path / 'kernels.py'}:Kernels"]) == 0
    shown = capsys.readouterr().out
    rows = [line.split() for line in shown.splitlines()]
    assert ["T.contract", "1"] in rows and ["T.launch", "1"] in rows and ["N", "1", "65"] in rows


def test_show_reaches_children_and_functions(model: Path, capsys: pytest.CaptureFixture) -> None:
    assert main(["show", f"{model}:Net.layer2.run"]) == 0
    assert capsys.readouterr().out.startswith("run(x: f32[B, 8], *w: f32[8, 8]) -> f32[B, 8]\n")
    assert main(["show", f"{model}:Net", "--all"]) == 0
    assert capsys.readouterr().out.count("> run(") == 4


@pytest.mark.spec("cli.show")
def test_show_script_reads_back(model: Path, capsys: pytest.CaptureFixture) -> None:
    from programs import read_back

    assert main(["show", f"{model}:Net", "--script"]) == 0
    assert read_back(capsys.readouterr().out)["Net"] == read_back(MODEL)["Net"]


@pytest.mark.spec("cli.show")
def test_show_html_is_one_file_with_pictures(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    out = tmp_path / "net.html"
    assert main(["show", f"{model}:Net", "--html", str(out)]) == 0
    text = out.read_text()
    assert text.count("<svg") == 3  # the tree, step, and run of the four equal layers once
    assert "layer3.w" in text
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
    assert main(["show", f"{model}:Net", "--html", str(tmp_path / "no" / "net.html")]) == 1
    assert "there is no folder" in capsys.readouterr().err


@pytest.mark.spec("cli.errors")
@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("{dir}/none.py", "there is no file {dir}/none.py"),
        ("{file}:Nett", "defines no Module or Function 'Nett'; it defines Layer, Net"),
        ("{file}", "name what to show, as in {file}:NAME; {file} defines Layer, Net"),
        ("{file}:Net.layer9", "module 'Net' has neither a child nor a function 'layer9'; functions: step"),
        ("{file}:Net.step.x", "module 'Net' has no child 'step'"),
        ("no.such.module", "there is neither a file nor a module 'no.such.module'"),
        ("{dir}", "{dir} is no Python file"),
    ],
)
def test_a_wrong_argument_is_one_line_without_traceback(
    model: Path, spec: str, message: str, capsys: pytest.CaptureFixture
) -> None:
    names = {"file": str(model), "dir": str(model.parent)}
    assert main(["show", spec.format(**names)]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("tilefoundry show: ")
    assert message.format(**names) in err
    assert err.count("\n") == 1


def test_an_error_in_the_program_names_file_line_and_column(
    model: Path, capsys: pytest.CaptureFixture
) -> None:
    model.write_text(MODEL.replace("tf.relu(", "tf.rely("))
    line = (
        MODEL.replace("tf.relu(", "tf.rely(")
        .split("\n")
        .index("        return tf.rely(tf.matmul(x, w)) * 0.5")
        + 1
    )
    assert main(["show", str(model)]) == 1
    err = capsys.readouterr().err
    assert err.startswith(f"tilefoundry show: {model}:{line}:")
    assert err.count("\n") == 1
    assert main(["show", "--debug", str(model)]) == 1
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.spec("cli.help")
def test_help_is_complete_and_a_bare_call_shows_it(capsys: pytest.CaptureFixture) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    assert "show" in text
    assert "exit status" in text
    assert main([]) == 2
    assert capsys.readouterr().out == text
    assert main(["show", "--help"]) == 0
    text = capsys.readouterr().out
    for option in ("FILE:MODULE", "--script", "--html OUT", "--all", "--debug", "examples:"):
        assert option in text


@pytest.mark.parametrize("line", [["nonsense"], ["show"], ["show", "a.py", "--script", "--html", "x"]])
def test_a_wrong_command_line_ends_with_2(line: list[str], capsys: pytest.CaptureFixture) -> None:
    assert main(line) == 2
    assert "usage:" in capsys.readouterr().err


def _entry(name: str, value: str) -> EntryPoint:
    return EntryPoint(name=name, value=value, group="tilefoundry.commands")


@pytest.mark.spec("cli.other-wheels")
def test_commands_of_other_wheels_come_from_the_entry_point_group(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[argparse.Namespace] = []
    greet = SimpleNamespace(
        help="say 100% hello",
        configure=lambda parser: parser.add_argument("name"),
        run=lambda args: ran.append(args) or 7,
    )
    monkeypatch.setitem(sys.modules, "greeting_wheel", SimpleNamespace(COMMAND=greet))
    found = find_commands([_entry("greet", "greeting_wheel:COMMAND")])
    assert isinstance(found["greet"], Command)
    monkeypatch.setattr("tilefoundry.cli.program.find_commands", lambda: found)
    assert main(["greet", "you"]) == 7
    assert ran[0].name == "you"
    assert "say 100% hello" in build_parser(found).format_help()


def test_a_command_that_does_not_load_spoils_only_itself(capsys: pytest.CaptureFixture) -> None:
    found = find_commands(
        [
            _entry("broken", "no_such_wheel:COMMAND"),
            _entry("odd", "os:path"),
            _entry("dup", "a:b"),
            _entry("dup", "a:c"),
        ]
    )
    assert {"broken", "odd", "dup"} <= set(found)
    assert all(isinstance(command, CommandError) for command in found.values())
    assert "does not load (ModuleNotFoundError" in str(found["broken"])
    assert "has no help, configure and run" in str(found["odd"])
    assert "two installed packages offer the command dup" in str(found["dup"])
    assert "not available: broken" in " ".join(build_parser(found).format_help().split())


def test_an_interrupt_ends_with_130(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    def interrupted(args: argparse.Namespace) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("tilefoundry.cli.show.run", interrupted)
    assert main(["show", "x.py"]) == 130
    assert capsys.readouterr().err == "tilefoundry: interrupted\n"


def test_the_program_runs_as_a_process_and_survives_a_closed_pipe(model: Path) -> None:
    command = [sys.executable, "-m", "tilefoundry.cli", "show", f"{model}:Net", "--script"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    closed = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert closed.stdout is not None
    assert closed.stderr is not None
    closed.stdout.close()
    assert closed.stderr.read() == b""
    closed.stderr.close()
    assert closed.wait(timeout=60) == 0
