"""One open safetensors file."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from tilefoundry.ir.errors import CheckpointError
from tilefoundry.ir.safetensors_header import Header, read_header

if TYPE_CHECKING:
    import torch

# torch and safetensors are imported where they are first needed: importing the runtime must not load them.

__all__ = ["Shard"]


class Shard:
    """A checked header, the library's handle and a descriptor of one file. Reads are thread-safe.

    Args:
        path: an existing file.

    Raises:
        CheckpointError: the file is no safetensors file, or a damaged one.
    """

    def __init__(self, path: str) -> None:
        import safetensors

        self.path = path
        self._file = open(path, "rb", buffering=0)  # noqa: SIM115  # closed with the object
        self.header: Header = read_header(path)
        try:
            self._handle: Any = safetensors.safe_open(path, framework="pt", device="cpu")
        except safetensors.SafetensorError as error:
            raise CheckpointError(f"{path} is refused by the safetensors library: {error}") from error
        if not os.path.samestat(os.fstat(self.fd), os.stat(path)):
            raise CheckpointError(f"{path} was replaced while it was opened; load again")

    @property
    def fd(self) -> int:
        """The descriptor, for positional reads."""
        return self._file.fileno()

    def load(self, key: str) -> torch.Tensor:
        """A copy of ``key``'s tensor in fresh CPU memory, with the stored element type.

        Raises:
            CheckpointError: the file has shrunk since it was opened.
        """
        import torch

        self.check_size(key)
        return self._handle.get_tensor(key).clone(memory_format=torch.contiguous_format)

    def check_size(self, key: str) -> None:
        """Raise CheckpointError where the file no longer reaches to the end of ``key``'s bytes."""
        # The mapped pages past the end of a file that was cut kill the process when touched.
        end = self.header.span(key)[1]
        size = os.fstat(self.fd).st_size
        if size < end:
            raise CheckpointError(
                f"{self.path} is truncated: it shrank to {size} bytes while open, "
                f"{key!r} ends at byte {end}; load again"
            )

    def __del__(self) -> None:
        file = getattr(self, "_file", None)
        if file is not None:
            file.close()
