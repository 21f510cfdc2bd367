"""Check the built distributions: wheels equal to those built from their sdists, one owner of the namespace.

Usage: ``python tools/check_wheels.py DIST`` with ``uv`` on PATH or named by ``UV``.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

NAMESPACE = "tilefoundry/__init__.py"


def members(wheel: Path) -> dict[str, str]:
    """Member name -> sha256 of its bytes, RECORD left out."""
    with zipfile.ZipFile(wheel) as archive:
        return {
            info.filename: hashlib.sha256(archive.read(info)).hexdigest()
            for info in archive.infolist()
            if not info.filename.endswith(".dist-info/RECORD")
        }


def rebuilt(sdist: Path, folder: str) -> dict[str, str]:
    """Members of the wheel that ``sdist`` builds."""
    uv = os.environ.get("UV", "uv")
    subprocess.run([uv, "build", "--wheel", "--out-dir", folder, str(sdist)], check=True, capture_output=True)
    (wheel,) = Path(folder).glob("*.whl")
    return members(wheel)


def differences(direct: dict[str, str], second: dict[str, str]) -> list[str]:
    """Member names that one side lacks or whose bytes differ."""
    return sorted(name for name in direct.keys() | second.keys() if direct.get(name) != second.get(name))


def main(dist: Path) -> int:
    """0 where four wheels and four sdists agree and exactly one wheel ships the namespace's ``__init__``."""
    wheels = sorted(dist.glob("*.whl"))
    sdists = sorted(dist.glob("*.tar.gz"))
    faults = (
        [] if len(wheels) == len(sdists) == 4 else [f"expected 4 wheels and 4 sdists, got {wheels + sdists}"]
    )
    owners = [wheel.name for wheel in wheels if NAMESPACE in members(wheel)]
    if len(owners) != 1 or not owners[0].startswith("tilefoundry_ir-"):
        faults.append(f"{NAMESPACE} must be in the tilefoundry-ir wheel alone, found in {owners}")
    for wheel, sdist in zip(wheels, sdists, strict=False):
        with tempfile.TemporaryDirectory() as folder:
            unequal = differences(members(wheel), rebuilt(sdist, folder))
        if unequal:
            faults.append(
                f"{wheel.name} differs from the wheel built from {sdist.name}: {', '.join(unequal[:10])}"
            )
    print(
        "\n".join(faults)
        or f"{len(wheels)} wheels equal those built from their sdists; one owns the namespace"
    )
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
