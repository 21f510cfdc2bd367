"""NVIDIA GPUs as targets, by chip or by the current device."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from tilefoundry.target.target import Target

# torch is imported where it is first needed: naming a target must not load it.

__all__ = ["CHIPS", "CudaTarget"]

CHIPS: dict[str, str] = {
    "nvidia.a100_sxm": "sm_80",
    "nvidia.a100_pcie": "sm_80",
    "nvidia.a10": "sm_86",
    "nvidia.rtx_3090": "sm_86",
    "nvidia.l4": "sm_89",
    "nvidia.l40s": "sm_89",
    "nvidia.rtx_4090": "sm_89",
    "nvidia.h100_sxm": "sm_90a",
    "nvidia.h100_pcie": "sm_90a",
    "nvidia.h200_sxm": "sm_90a",
    "nvidia.gh200": "sm_90a",
}
"""Chip name -> architecture that device code is compiled for."""


@dataclass(frozen=True, slots=True)
class CudaTarget(Target):
    """An NVIDIA GPU.

    Args:
        chip: a name of ``CHIPS`` such as ``"nvidia.h200_sxm"``, or an architecture such as ``"sm_90a"``.

    Raises:
        ValueError: an unknown chip; the message lists the names there are.
    """

    kind: ClassVar[str] = "cuda"

    chip: str

    def __post_init__(self) -> None:
        if self.chip not in CHIPS and not re.fullmatch(r"sm_\d{2,3}[af]?", str(self.chip)):
            raise ValueError(
                f"CudaTarget: unknown chip {self.chip!r}; give one of {', '.join(CHIPS)}, "
                'or an architecture like "sm_90a"'
            )

    @property
    def arch(self) -> str:
        """The architecture, such as ``"sm_90a"``."""
        return CHIPS.get(self.chip, self.chip)

    def text(self) -> str:
        """``CudaTarget("nvidia.h200_sxm")``."""
        return f'CudaTarget("{self.chip}")'

    @staticmethod
    def current() -> CudaTarget:
        """The current CUDA device's architecture as a target.

        Raises:
            RuntimeError: no usable GPU; the message says how to compile without one.
        """
        found = _current_capability()
        if isinstance(found, str):
            raise RuntimeError(
                f'the target "cuda" means the current GPU, but {found}; to compile without running give a '
                'chip: target=CudaTarget("nvidia.h200_sxm"), or compile for this machine with target="cpu"'
            )
        major, minor = found
        suffix = "a" if (major, minor) >= (9, 0) else ""
        return CudaTarget(f"sm_{major}{minor}{suffix}")


def _current_capability() -> tuple[int, int] | str:
    """Compute capability of the current device, or why there is none."""
    try:
        import torch
    except ImportError:
        return "torch is not installed"
    if not torch.backends.cuda.is_built():
        return "the installed torch is built without CUDA"
    if not torch.cuda.is_available():
        return "torch sees no usable NVIDIA GPU"
    return torch.cuda.get_device_capability()
