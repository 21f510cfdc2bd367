"""The import namespace over the wheels. Oracle: the repository's own rule, read off its files."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_exactly_one_package_ships_the_namespace_init():
    owners = [p.parents[2].name for p in ROOT.glob("packages/*/src/tilefoundry/__init__.py")]
    assert owners == ["tilefoundry-ir"]


def test_every_leaf_package_is_marked_typed():
    doors = [p for p in ROOT.glob("packages/*/src/tilefoundry/*") if (p / "__init__.py").is_file()]
    doors += list(ROOT.glob("packages/*/src/strideweave"))
    assert doors
    assert [str(p) for p in doors if not (p / "py.typed").is_file()] == []
