"""Names of the package that no installed wheel brings. Oracle: the wheels' own names; a process that has this wheel's
files alone."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.machinery import PathFinder
from pathlib import Path

import pytest

import tilefoundry


@pytest.fixture(scope="module")
def alone(tmp_path_factory) -> Path:
    """A folder to import from that holds what this wheel ships of the package, and nothing else."""
    folder = tmp_path_factory.mktemp("alone")
    (folder / "tilefoundry").mkdir()
    for part in Path(tilefoundry.__file__).parent.iterdir():
        if part.name not in ("runtime", "codegen", "__pycache__"):
            (folder / "tilefoundry" / part.name).symlink_to(part)
    return folder


def run(alone: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A process without installed packages."""
    command = [sys.executable, "-S", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(alone)}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


IMPORTS = """
import importlib.util
import tilefoundry
assert importlib.util.find_spec("tilefoundry.runtime") is None
for line in ("import tilefoundry.runtime", "from tilefoundry.codegen.cpu import BACKEND", "import tilefoundry.other"):
    try:
        exec(line)
    except ModuleNotFoundError as error:
        print(error.name, error, sep=": ")
"""


@pytest.mark.spec("facade.other-wheels")
def test_an_import_of_an_absent_wheel_names_it(alone):
    done = run(alone, "-c", IMPORTS)
    assert done.stderr == "" and done.stdout.splitlines() == [
        "tilefoundry.runtime: No module named 'tilefoundry.runtime'; it comes with the wheel tilefoundry-runtime: "
        "pip install tilefoundry-runtime",
        "tilefoundry.codegen: No module named 'tilefoundry.codegen'; it comes with the wheel tilefoundry-cuda: "
        "pip install tilefoundry-cuda",
        "tilefoundry.other: No module named 'tilefoundry.other'",
    ]


@pytest.mark.spec("cli.other-wheels")
@pytest.mark.parametrize(
    ("line", "wheel"),
    [
        (["doctor"], "tilefoundry-cuda"),
        (["cache", "warm"], "tilefoundry-cuda"),
        (["prepare", "model.py:Net", "--out", "x"], "tilefoundry-runtime"),
        (["check"], "tilefoundry-runtime"),
    ],
)
def test_a_command_of_an_absent_wheel_names_it(alone, line, wheel):
    done = run(alone, "-m", "tilefoundry.cli", *line)
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr == f"tilefoundry {line[0]}: it comes with the wheel {wheel}: pip install {wheel}\n"


@pytest.mark.parametrize(
    ("name", "wheel"), [("runtime", "tilefoundry-runtime"), ("codegen", "tilefoundry-cuda")]
)
def test_a_part_that_another_wheel_brings_is_asked_for_by_that_wheels_name(monkeypatch, name, wheel):
    monkeypatch.delattr(tilefoundry, name, raising=False)
    monkeypatch.setattr(PathFinder, "find_spec", lambda asked, path: None)
    with pytest.raises(
        AttributeError, match=rf"'{name}'; it comes with the wheel {wheel}: pip install {wheel}"
    ):
        getattr(tilefoundry, name)
    assert not hasattr(tilefoundry, name)


def test_a_part_that_is_there_and_was_not_imported_says_how(monkeypatch):
    monkeypatch.delattr(tilefoundry, "runtime", raising=False)
    monkeypatch.setattr(PathFinder, "find_spec", lambda asked, path: asked)
    with pytest.raises(AttributeError, match=r"'runtime' before it is imported: import tilefoundry\.runtime"):
        _ = tilefoundry.runtime


def test_other_names_are_unknown():
    with pytest.raises(AttributeError, match=r"has no attribute 'nothing'$"):
        _ = tilefoundry.nothing  # type: ignore[attr-defined]  # that is the point
