"""Check that a wheel imports another wheel's names from doors only: folders whose ``__init__`` has ``__all__``.

Reads the sources; a door is a package folder, or a module that the design names as one.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Modules that are doors without being folders, each named by the design or by users' import lines.
MODULE_DOORS = {
    "tilefoundry.ir.safetensors_header",
    "tilefoundry.ir.errors",
    "tilefoundry.ir.core.expr",
    "tilefoundry.ir.core.kinds",
    "tilefoundry.ir.core.module",
    "tilefoundry.ir.core.op",
    "tilefoundry.ir.core.pattern",
    "tilefoundry.ir.core.resource",
    "tilefoundry.ir.hir.function",
    "tilefoundry.ir.types.dim",
    "tilefoundry.ir.types.storage",
    "tilefoundry.runtime.decorator",
    "tilefoundry.runtime.measure",
}


def module_files(source: Path) -> dict[str, Path]:
    """Dotted module name -> file, for one package's source folder."""
    found = {}
    for path in source.rglob("*.py"):
        parts = path.relative_to(source).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def project_imports(path: Path) -> Iterator[tuple[int, str]]:
    """(line, module) of every absolute project import in a file."""
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield node.lineno, node.module
        elif isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)


def main() -> int:
    """0 where every import that crosses wheels enters through a door."""
    wheels = {p.name: module_files(p / "src") for p in sorted((ROOT / "packages").iterdir()) if p.is_dir()}
    owner = {module: wheel for wheel, modules in wheels.items() for module in modules}
    files = {module: path for modules in wheels.values() for module, path in modules.items()}
    faults = []
    for wheel, modules in wheels.items():
        for path in modules.values():
            for line, name in project_imports(path):
                if owner.get(name) in (None, wheel) or name in MODULE_DOORS:
                    continue
                if files[name].name != "__init__.py":
                    faults.append(f"{path.relative_to(ROOT)}:{line}: {name} is no door of {owner[name]}")
    print("\n".join(faults) or f"every import across {len(wheels)} wheels enters through a door")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
