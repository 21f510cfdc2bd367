"""CUDA: torch storage on a device."""

from __future__ import annotations

from .. import forks
from ..dtypes import DType
from ..errors import ForkedProcessError
from ..movement.interrupts import interrupts_deferred
from .arguments import as_count, default_dtype
from .sealed import sealed
from .torch_storage import TorchStorage, allocate_flat, plain_torch


@sealed
class CUDA(TorchStorage):
    """``CUDA(size)`` on the current device, or on ``device`` (an index).

    Kernels run on the caller's current stream; copies run on streams of their own. Not usable in a process
    that was forked after the device was used.

    Raises:
        RuntimeError: no CUDA device is there.
    """

    device_type = "cuda"
    host = False

    def __init__(
        self,
        size: int = 0,
        *,
        mutable: bool = True,
        dtype: DType | None = None,
        empty: bool = False,
        device: int | None = None,
    ) -> None:
        import torch

        if not torch.cuda.is_available():
            raise RuntimeError(
                "CUDA: no CUDA device is available to torch; use CPU, or run where there is a GPU"
            )
        index = torch.cuda.current_device() if device is None else as_count(device, "CUDA device")
        kind = default_dtype(dtype)
        flat = allocate_flat(as_count(size, "CUDA size"), kind, f"cuda:{index}", empty)
        super().__init__(kind, mutable, flat)

    def require_live(self, verb: str) -> None:
        super().require_live(verb)
        if self._born != forks.generation:
            raise ForkedProcessError(
                f"{verb}: a CUDA carrier does not survive fork; start workers with spawn"
            )

    def load_bytes(self, offset: int, into: memoryview) -> None:
        import torch

        with interrupts_deferred(), plain_torch():
            piece = self.flat_bytes()[offset : offset + len(into)].cpu()
            torch.frombuffer(into, dtype=torch.uint8).copy_(piece)

    def store_bytes(self, offset: int, data: memoryview) -> None:
        import torch

        with interrupts_deferred(), plain_torch():
            piece = torch.frombuffer(bytearray(data), dtype=torch.uint8)
            self.flat_bytes()[offset : offset + len(data)].copy_(piece)
