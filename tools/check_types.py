"""Run pyright over the installed packages: the namespace is whole only where nothing is editable."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

PACKAGES = ("tilefoundry", "strideweave")


def run_pyright(site: str) -> dict:
    """Pyright's report over the packages in the folder ``site``."""
    with tempfile.TemporaryDirectory() as folder:
        settings = {
            "include": [os.path.relpath(os.path.join(site, name), folder) for name in PACKAGES],
            "exclude": ["**/_vendor"],
            "typeCheckingMode": "standard",
            "pythonVersion": f"{sys.version_info.major}.{sys.version_info.minor}",
            # torch re-exports most of its names without saying so.
            "reportPrivateImportUsage": "none",
        }
        config = Path(folder) / "pyrightconfig.json"
        config.write_text(json.dumps(settings))
        command = [
            sys.executable,
            "-m",
            "pyright",
            "-p",
            str(config),
            "--pythonpath",
            sys.executable,
            "--outputjson",
        ]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        return json.loads(done.stdout)


def main() -> int:
    """1 where pyright reports an error or read no file, else 0."""
    site = sysconfig.get_paths()["purelib"]
    report = run_pyright(site)
    errors = [d for d in report["generalDiagnostics"] if d["severity"] == "error"]
    for fault in errors:
        place = f"{os.path.relpath(fault['file'], site)}:{fault['range']['start']['line'] + 1}"
        print(f"{place}: {fault['message'].splitlines()[0]} [{fault.get('rule', '')}]")
    read = report["summary"]["filesAnalyzed"]
    print(f"{read} files read, {len(errors)} errors")
    return 1 if errors or not read else 0


if __name__ == "__main__":
    sys.exit(main())
