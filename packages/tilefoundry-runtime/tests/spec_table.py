"""Write README.md beside this file: which test shows which rule. Run it after adding or renaming tests."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from spec_rules import RULES

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
FOLDERS = (HERE, ROOT / "packages/tilefoundry-ir/tests/module", ROOT / "tests-integration/downstream")


def marked_tests(folders: tuple[Path, ...] = FOLDERS) -> dict[str, list[str]]:
    """Rule -> ``file::test`` of every test in ``folders`` that is marked with it."""
    found: dict[str, list[str]] = {}
    for folder in folders:
        for path in sorted(folder.glob("test_*.py")):
            for rule, name in _marks(path):
                found.setdefault(rule, []).append(f"{path.relative_to(ROOT)}::{name}")
    return found


def _marks(path: Path) -> Iterator[tuple[str, str]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef):
            for mark in node.decorator_list:
                if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.spec":
                    yield ast.literal_eval(mark.args[0]), node.name


def table(found: dict[str, list[str]]) -> str:
    """The README's text."""
    lines = [
        "# The runtime's rules and the tests that show them",
        "",
        "Written by `spec_table.py` from the `spec` markers; `test_spec_table.py` checks that it is up to date.",
        "",
        "| rule | what holds | shown by |",
        "|---|---|---|",
    ]
    for rule, text in RULES.items():
        tests = "<br>".join(f"`{test.removeprefix('packages/')}`" for test in found.get(rule, []))
        lines.append(f"| {rule} | {text} | {tests} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    (HERE / "README.md").write_text(table(marked_tests()), encoding="utf-8")
    sys.exit(0)
