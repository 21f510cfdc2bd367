"""Refuses to run beside another distribution that installs a package of the same name."""

from __future__ import annotations

from pathlib import Path

OURS = "strideweave-carriers"


def other_distributions(root: Path) -> list[str]:
    """Names of other distributions whose metadata beside ``root`` says that they bring ``strideweave``."""
    found = []
    for record in root.parent.glob("*.dist-info/RECORD"):
        name = record.parent.name.split("-")[0].replace("_", "-").lower()
        if name != OURS and _brings(record, root.name):
            found.append(name)
    return sorted(found)


def _brings(record: Path, package: str) -> bool:
    top = record.with_name("top_level.txt")
    if top.is_file():
        return package in top.read_text().split()
    # The folder's own metadata is named after the distribution in most cases; reading every RECORD would
    # cost more than the import, so only those that could matter are opened.
    if "strideweave" not in record.parent.name.lower():
        return False
    return f"\n{package}/__init__.py," in "\n" + record.read_text()


def check_only_distribution() -> None:
    """Raise ImportError if another distribution has written into this package's folder."""
    others = other_distributions(Path(__file__).parent)
    if others:
        raise ImportError(
            f"strideweave: {', '.join(others)} installs a package of the same name, and its files may have replaced "
            f"some of {OURS}; uninstall one of the two, then reinstall the other"
        )
