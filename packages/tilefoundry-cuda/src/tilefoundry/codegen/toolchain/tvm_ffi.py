"""Headers and library of TVM FFI, from its wheel, without importing it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from tilefoundry.codegen.toolchain.errors import ToolNotFoundError

__all__ = ["FfiPaths", "find_ffi"]


@dataclass(frozen=True, slots=True)
class FfiPaths:
    """Where TVM FFI lies.

    Attributes:
        include: folder for ``-I``.
        library: folder of ``libtvm_ffi``.
        version: of the wheel.
    """

    include: Path
    library: Path
    version: str


@cache
def find_ffi() -> FfiPaths:
    """TVM FFI of this environment.

    Raises:
        ToolNotFoundError: the wheel is missing or incomplete.
    """
    spec = find_spec("tvm_ffi")
    if spec is None or not spec.submodule_search_locations:
        raise ToolNotFoundError("tvm_ffi is not installed; pip install apache-tvm-ffi")
    root = Path(spec.submodule_search_locations[0])
    header = root / "include" / "tvm" / "ffi" / "c_api.h"
    if not header.is_file():
        raise ToolNotFoundError(f"{header} is missing; reinstall apache-tvm-ffi")
    try:
        found = version("apache-tvm-ffi")
    except PackageNotFoundError:
        found = "unknown"
    return FfiPaths(root / "include", root / "lib", found)
