"""What the carriers over torch storage share: a flat torch tensor, and the modes it must be made under.

torch is imported where a carrier first needs it, to keep the import of this package short.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import TYPE_CHECKING

from .. import seam
from ..dtypes import DType, as_dtype
from ..movement.interrupts import interrupts_deferred
from .arguments import as_count
from .base import Carrier
from .hostmemory import PAGE
from .pages import Pages

if TYPE_CHECKING:
    import torch


_AUTOCAST = ("cpu", "cuda")

WHOLE_PAGES = 1 << 20
"""From this many bytes on, host memory is allocated in whole pages of its own."""


class plain_torch:
    """No autograd, inference mode or autocast within: storage stays writable, and types are what we say.

    Enters only what is not so already: most calls come from code that runs under neither.
    """

    __slots__ = ("_autocast", "_grad", "_inference")

    def __enter__(self) -> None:
        import torch

        self._inference = torch.inference_mode(False) if torch.is_inference_mode_enabled() else None
        if self._inference is not None:
            self._inference.__enter__()
        self._autocast = [torch.autocast(d, enabled=False) for d in _AUTOCAST if torch.is_autocast_enabled(d)]
        for off in self._autocast:
            off.__enter__()
        self._grad = torch.is_grad_enabled()
        if self._grad:
            torch.set_grad_enabled(False)

    def __exit__(self, *error: object) -> None:
        import torch

        if self._grad:
            torch.set_grad_enabled(True)
        for off in reversed(self._autocast):
            off.__exit__(*error)
        if self._inference is not None:
            self._inference.__exit__(*error)


def outside_inference() -> AbstractContextManager[object]:
    """Leaves inference mode where the caller is in it. Copies of bits need no more than that."""
    import torch

    return torch.inference_mode(False) if torch.is_inference_mode_enabled() else nullcontext()


def refuse_strange(tensor: torch.Tensor, verb: str) -> None:
    """Raise TypeError for tensors without ordinary storage (fake, meta, sparse, subclass wrappers)."""
    import torch

    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"{verb}: expected a torch.Tensor, got {type(tensor).__name__}")
    kind = type(tensor).__name__
    if tensor.is_meta or kind == "FakeTensor":
        raise TypeError(
            f"{verb}: a {'meta' if tensor.is_meta else 'fake'} tensor has no values; materialise it first"
        )
    if tensor.layout != torch.strided or tensor.is_quantized:
        raise TypeError(
            f"{verb}: expected a strided tensor, got layout {tensor.layout}; call .to_dense() first"
        )


class _Late:
    """The flat tensor over a carrier's pages, made when first asked for; from then on the carrier has it itself.

    Making one takes as long as copying a hundred kilobytes, and whoever reads a file may move it on as bytes.
    """

    def __get__(self, carrier: TorchStorage, owner: type) -> torch.Tensor:
        pages, own = carrier._pages, vars(carrier)
        if pages is not None:
            with interrupts_deferred(), plain_torch():
                flat = pages.tensor(carrier._count, carrier._dtype)
            # The first of several threads decides.
            own.setdefault("_flat", flat)
            carrier._late, carrier._pages = False, None
        # Not kept: another thread may be giving the carrier room.
        return own["_flat"] if "_flat" in own else no_slots(carrier._dtype)


class TorchStorage(Carrier):
    """A carrier whose slots are the elements of one flat, contiguous torch tensor."""

    compute = True
    device_type = "cpu"
    _pages: Pages | None = None
    _late = False
    """Whether the tensor is still to be made, out of pages or, without slots, for good."""
    _seen = False
    """Whether somebody outside may have the flat tensor, or one that shares its storage."""
    if TYPE_CHECKING:
        _flat: torch.Tensor
    else:
        _flat = _Late()

    def __init__(self, dtype: DType, mutable: bool, flat: torch.Tensor, shared: bool = False) -> None:
        super().__init__(dtype, mutable)
        self._set_flat(flat)
        self._shared = shared

    def _set_flat(self, flat: torch.Tensor) -> None:
        self._flat, self._count, self._pages, self._late = flat, flat.numel(), None, False

    def _set_pages(self, pages: Pages, count: int) -> None:
        """Keep ``count`` slots in ``pages``."""
        self._pages, self._count = pages, count
        if not self._late:
            self._late = True
            del self._flat

    @classmethod
    def adopt(
        cls, flat: torch.Tensor, dtype: DType, *, mutable: bool = True, shared: bool = False
    ) -> TorchStorage:
        """A carrier over ``flat`` itself; ``shared`` says that others may write it too."""
        self = cls.__new__(cls)
        TorchStorage.__init__(self, dtype, mutable, flat, shared)
        return self

    @classmethod
    def filled(cls, flat: torch.Tensor, dtype: DType) -> TorchStorage:
        """A mutable carrier over fresh storage whose values have been written once."""
        self = cls.__new__(cls)
        Carrier.__init__(self, dtype, True)
        self._flat, self._count, self._shared, self._version = flat, flat.numel(), False, 1
        return self

    def size(self) -> int:
        return self._count

    @property
    def device(self) -> torch.device:
        """The device of the storage."""
        return self._flat.device

    def flat(self) -> torch.Tensor:
        """The slots as a flat torch tensor that shares storage. Writes through it are not seen by ``version``."""
        self._seen = True
        # Carriers without slots share one tensor, which no user may come to resize.
        return self._flat if self._count else self._flat.new_empty(0)

    def flat_bytes(self) -> torch.Tensor:
        """The slots as a flat uint8 tensor that shares storage."""
        import torch

        return self._flat if self._flat.dtype is torch.uint8 else self._flat.view(torch.uint8)

    def value_token(self) -> tuple[int, ...]:
        """The version; for storage shared with torch users also torch's own version of it."""
        if self._shared and not self.is_owned() and not self._flat.is_inference():
            return (self._version, self._flat._version)
        return (self._version,)

    def allocate_like(
        self, n: int, *, mutable: bool = True, dtype: DType | None = None, empty: bool = False
    ) -> TorchStorage:
        kind = self._dtype if dtype is None else as_dtype(dtype)
        return self.adopt(self._allocate(as_count(n, "allocate_like"), kind, empty), kind, mutable=mutable)

    def _allocate(self, n: int, dtype: DType, empty: bool) -> torch.Tensor:
        return allocate_flat(n, dtype, self._flat.device, empty)

    def grow(self, n: int) -> None:
        self._set_flat(self._allocate(n, self._dtype, True))

    def shares_storage(self, other: Carrier) -> bool:
        if not isinstance(other, TorchStorage) or self._pages is not None or other._pages is not None:
            return super().shares_storage(other)
        if self._flat.device != other._flat.device or not self._flat.numel() or not other._flat.numel():
            return False
        mine, theirs = self._flat.data_ptr(), other._flat.data_ptr()
        return mine < theirs + other.nbytes() and theirs < mine + self.nbytes()

    def free_storage(self) -> None:
        self._set_flat(self._flat.new_empty(0))


@cache
def no_slots(dtype: DType) -> torch.Tensor:
    """The flat tensor of CPU carriers without slots: most are made to be given room by a move at once."""
    import torch

    with torch.inference_mode(False):
        return torch.empty(0, dtype=dtype.torch(), device="cpu")


def allocate_flat(n: int, dtype: DType, device: torch.device | str, empty: bool) -> torch.Tensor:
    """A fresh flat tensor, uninitialised if ``empty``, else zero."""
    import torch

    if n:
        seam.enter("allocate")
    if torch.is_inference_mode_enabled():
        # A tensor made there could not be written later.
        with torch.inference_mode(False):
            return _fresh(n, dtype, device, empty)
    return _fresh(n, dtype, device, empty)


def _fresh(n: int, dtype: DType, device: torch.device | str, empty: bool) -> torch.Tensor:
    size = dtype.itemsize
    if n * size >= WHOLE_PAGES and getattr(device, "type", device) == "cpu":
        # In whole pages, which are shared with nothing else.
        spare = _unaligned(n + 2 * PAGE // size, dtype, device, empty)
        return spare.narrow(0, -spare.data_ptr() % PAGE // size, n)
    return _unaligned(n, dtype, device, empty)


def _unaligned(n: int, dtype: DType, device: torch.device | str, empty: bool) -> torch.Tensor:
    import torch

    if empty or not n:
        return torch.empty(n, dtype=dtype.torch(), device=device)
    # Not every element type can be filled.
    return torch.zeros(n * dtype.itemsize, dtype=torch.uint8, device=device).view(dtype.torch())
