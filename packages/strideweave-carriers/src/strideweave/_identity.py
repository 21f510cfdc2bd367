"""Refuses to run beside another distribution that installs a package of the same name.

Works on plain paths: pathlib would cost a tenth of the whole import.
"""

from __future__ import annotations

import os

OURS = "strideweave-carriers"
METADATA = ".dist-info"


def other_distributions(root: str | os.PathLike[str]) -> list[str]:
    """Names of other distributions whose metadata beside the folder ``root`` says that they bring its package."""
    folder, package = os.path.split(os.fspath(root))
    found = []
    for entry in os.listdir(folder):
        name = entry.removesuffix(METADATA).split("-")[0].replace("_", "-").lower()
        if entry.endswith(METADATA) and name != OURS and _brings(os.path.join(folder, entry), package):
            found.append(name)
    return sorted(found)


def _brings(metadata: str, package: str) -> bool:
    # Reading every RECORD would cost more than the import; a distribution that brings the package without its
    # name being in its own is not looked for.
    if package not in os.path.basename(metadata).lower():
        return False
    record = os.path.join(metadata, "RECORD")
    if not os.path.isfile(record):
        return False
    with open(record, encoding="utf-8") as file:
        return any(line.startswith(f"{package}/__init__.py,") for line in file)


def check_only_distribution() -> None:
    """Raise ImportError if another distribution has written into this package's folder."""
    others = other_distributions(os.path.dirname(os.path.abspath(__file__)))
    if others:
        raise ImportError(
            f"strideweave: {', '.join(others)} installs a package of the same name, and its files may have replaced "
            f"some of {OURS}; uninstall one of the two, then reinstall the other"
        )
