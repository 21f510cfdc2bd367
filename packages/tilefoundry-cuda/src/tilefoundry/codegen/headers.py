"""Where the C++ runtime's headers are: packed beside this module, or in the checkout around it."""

from __future__ import annotations

from pathlib import Path

PACKED = Path(__file__).resolve().parent / "_include"


def checkout_root() -> Path | None:
    """The repository that an editable install points into, if this module lies in one."""
    for parent in Path(__file__).resolve().parents:
        if (parent / "cpp-runtime" / "include" / "tilefoundry" / "runtime.h").is_file():
            return parent
    return None


def include_dirs(*, cute: bool = True) -> tuple[Path, ...]:
    """Folders to pass with `-I`, in order: the runtime's, then (with `cute`) the pinned CUTLASS tree.

    The CPU target needs no CuTe and passes `cute=False`. CUDA's own headers are not in here.
    Raises FileNotFoundError when a tree is in neither place, saying how to get it.
    """
    packed = (PACKED / "runtime", PACKED / "cutlass")
    if packed[0].is_dir():
        found = packed
    elif root := checkout_root():
        found = (root / "cpp-runtime" / "include", root / "third_party" / "cutlass" / "include")
    else:
        raise FileNotFoundError(
            f"the C++ runtime headers are neither in {packed[0]} nor in a checkout around it; "
            "reinstall tilefoundry-cuda"
        )
    if cute and not (found[1] / "cute").is_dir():
        raise FileNotFoundError(f"{found[1]}: no CUTLASS headers there; run tools/vendor.py in the checkout")
    return found if cute else found[:1]
