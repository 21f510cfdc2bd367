"""Write ``packages/<name>/tests/README.md``: which test shows which rule of the package.

A package that has rules lists them in ``tests/spec_rules.py``: ``TITLE``, ``INTRO`` and ``RULES`` (name -> sentence).
Tests name the rules that they show by ``@pytest.mark.spec("name")``. Run
``python tools/spec_table.py [package...]`` after adding or renaming tests; without a name, for every such package.
"""

from __future__ import annotations

import argparse
import ast
import runpy
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ROOT / "packages"


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of one package.

    Attributes:
        package: its folder's name.
        title: heading of the table.
        intro: a sentence below it.
        texts: rule name -> what holds.
    """

    package: str
    title: str
    intro: str
    texts: dict[str, str]

    @property
    def readme(self) -> Path:
        """The file that holds the table."""
        return PACKAGES / self.package / "tests" / "README.md"


def rules_of(package: str) -> Rules:
    """What ``package`` lists in its ``tests/spec_rules.py``."""
    names = runpy.run_path(str(PACKAGES / package / "tests" / "spec_rules.py"))
    return Rules(package, names["TITLE"], names["INTRO"], names["RULES"])


def packages_with_rules() -> list[str]:
    """Every package that has rules."""
    return sorted(path.parents[1].name for path in PACKAGES.glob("*/tests/spec_rules.py"))


@cache
def marked_tests() -> dict[str, list[str]]:
    """Rule -> ``file::test`` of every test marked with it, in the packages that have rules and across packages."""
    folders = [PACKAGES / package / "tests" for package in packages_with_rules()] + [
        ROOT / "tests-integration"
    ]
    found: dict[str, list[str]] = {}
    for path in (path for folder in folders for path in sorted(folder.rglob("test_*.py"))):
        name = str(path.relative_to(ROOT)).removeprefix("packages/")
        for rule, test in _marks(path):
            found.setdefault(rule, []).append(f"{name}::{test}")
    return found


def _marks(path: Path) -> Iterator[tuple[str, str]]:
    text = path.read_text(encoding="utf-8")
    if "pytest.mark.spec(" not in text:
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            for mark in node.decorator_list:
                if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.spec":
                    yield from ((ast.literal_eval(arg), node.name) for arg in mark.args)


def faults(rules: Rules) -> list[str]:
    """Rules that no test shows, and markers that name a rule of no package."""
    found = marked_tests()
    known = {rule for package in packages_with_rules() for rule in rules_of(package).texts}
    silent = [f"no test shows {rule}" for rule in rules.texts if rule not in found]
    return silent + [
        f"{found[rule][0]} names {rule}, which no package lists" for rule in sorted(set(found) - known)
    ]


def table(rules: Rules) -> str:
    """The README's text."""
    lines = [f"# {rules.title}", "", rules.intro, "", "| rule | what holds | shown by |", "|---|---|---|"]
    for rule, text in rules.texts.items():
        tests = "<br>".join(f"`{test}`" for test in marked_tests().get(rule, []))
        lines.append(f"| {rule} | {text} | {tests} |")
    return "\n".join(lines) + "\n"


def main(packages: list[str]) -> int:
    """Write the tables; 1 where a rule has no test or a marker no rule."""
    wrong: list[str] = []
    for package in packages or packages_with_rules():
        rules = rules_of(package)
        wrong += faults(rules)
        rules.readme.write_text(table(rules), encoding="utf-8")
    print("\n".join(dict.fromkeys(wrong)) or "every rule has a test")
    return 1 if wrong else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Write which test shows which rule of a package.")
    parser.add_argument("package", nargs="*", help="all that have rules")
    wanted, known = parser.parse_args().package, packages_with_rules()
    if unknown := [name for name in wanted if name not in known]:
        parser.error(f"no rules in {', '.join(unknown)}; packages that have rules: {', '.join(known)}")
    sys.exit(main(wanted))
