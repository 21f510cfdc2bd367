"""Run pyright over the installed packages: the namespace is whole only where nothing is editable."""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

PACKAGES = ("tilefoundry", "strideweave")


def main() -> int:
    """Pyright's exit code over both import packages as they lie in site-packages."""
    site = Path(sysconfig.get_paths()["purelib"])
    settings = {
        "include": [str(site / name) for name in PACKAGES],
        "exclude": ["**/_vendor"],
        "typeCheckingMode": "standard",
        "pythonVersion": f"{sys.version_info.major}.{sys.version_info.minor}",
        # DSL names are resolved by the parser, torch's stubs say little about its operators.
        "reportPrivateImportUsage": "none",
    }
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "pyrightconfig.json"
        config.write_text(json.dumps(settings))
        command = [sys.executable, "-m", "pyright", "-p", str(config), "--pythonpath", sys.executable]
        return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
