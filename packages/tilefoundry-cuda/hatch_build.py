"""Build hook: packs the C++ runtime and the pinned CUTLASS headers into the sdist and the wheel.

Sources: an sdist carries both trees in `_vendor/`; a checkout has the runtime in `cpp-runtime/include` and
gets the pinned headers from `tools/vendor.py`. An editable install takes nothing: `include_dirs()` finds the
checkout.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKED = {"sdist": "_vendor", "wheel": "tilefoundry/codegen/_include"}


class HeaderHook(BuildHookInterface):
    """Fills `force_include` with one entry per header, in sorted order, so that builds are reproducible."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling before a target is built."""
        if version == "editable":
            return
        target = PACKED[self.target_name]
        for name, path in sorted(header_files(Path(self.root)).items()):
            build_data["force_include"][str(path)] = f"{target}/{name}"


def header_files(root: Path) -> dict[str, Path]:
    """Packed name -> file: from the sdist's `_vendor/` when there is one, else from the checkout."""
    vendor = root / "_vendor"
    if vendor.is_dir():
        return tree(vendor, "")
    checkout = root.parent.parent
    include = load_vendor_tool(checkout / "tools" / "vendor.py").materialise()
    return {
        **tree(checkout / "cpp-runtime" / "include", "runtime/"),
        **tree(include, "cutlass/"),
        "cutlass/LICENSE.txt": checkout / "third_party" / "cutlass" / "LICENSE.txt",
    }


def tree(folder: Path, prefix: str) -> dict[str, Path]:
    """Every file below `folder`, by its packed name."""
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder}: not there; build from a checkout or from an sdist")
    return {prefix + p.relative_to(folder).as_posix(): p for p in folder.rglob("*") if p.is_file()}


def load_vendor_tool(path: Path) -> Any:
    """The checkout's tools/vendor.py as a module."""
    if not path.is_file():
        raise FileNotFoundError(f"{path}: not there; build from a checkout or from an sdist")
    spec = importlib.util.spec_from_file_location("tilefoundry_vendor_tool", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Slotted dataclasses look their module up while the class is made.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
