"""Metal: torch storage on Apple's GPU."""

from __future__ import annotations

from ..dtypes import DType
from ..movement.interrupts import interrupts_deferred
from .arguments import as_count, default_dtype
from .sealed import sealed
from .torch_storage import TorchStorage, allocate_flat, plain_torch


@sealed
class Metal(TorchStorage):
    """``Metal(size)`` on the MPS device.

    Raises:
        RuntimeError: torch has no MPS device on this machine.
    """

    device_type = "mps"
    host = False

    def __init__(
        self, size: int = 0, *, mutable: bool = True, dtype: DType | None = None, empty: bool = False
    ) -> None:
        import torch

        if not torch.backends.mps.is_available():
            raise RuntimeError("Metal: torch finds no MPS device on this machine; use CPU or CUDA")
        kind = default_dtype(dtype)
        super().__init__(kind, mutable, allocate_flat(as_count(size, "Metal size"), kind, "mps", empty))

    def load_bytes(self, offset: int, into: memoryview) -> None:
        with interrupts_deferred(), plain_torch():
            into[:] = self.flat_bytes()[offset : offset + len(into)].cpu().numpy().tobytes()

    def store_bytes(self, offset: int, data: memoryview) -> None:
        import torch

        with interrupts_deferred(), plain_torch():
            piece = torch.frombuffer(bytearray(data), dtype=torch.uint8)
            self.flat_bytes()[offset : offset + len(data)].copy_(piece)
