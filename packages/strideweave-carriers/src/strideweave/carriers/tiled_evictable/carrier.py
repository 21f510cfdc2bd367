"""TiledEvictable: one flat run of slots whose tiles move between a primary and a secondary tier."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal

from ...dtypes import Scalar
from ...layout import Layout
from ...movement.completion import AwaitMove, settled
from ...tensor import Tensor
from ..base import Carrier
from ..sealed import sealed
from . import construction, requests, sources
from .awaiting import AwaitProjection, AwaitResidency
from .compatibility import Footprint, footprint
from .core import Core
from .facet import TiledResidencyFacet
from .geometry import TileGeometry
from .observed import Observed
from .packing import Order, Packing
from .plan import ResidencyPolicy
from .projecting import project
from .scattering import Reduction, scatter, update
from .selection import TileSelection
from .single_values import read_bytes, write_bytes
from .tile_set import TileSet

if TYPE_CHECKING:
    import torch

    from .hold import Hold


@sealed
class TiledEvictable(TiledResidencyFacet, Observed, Carrier):
    """``TiledEvictable(primary, secondary, grid_shape, tile_shape)`` owns both tiers.

    Axis i has ``grid_shape[i] * tile_shape[i]`` elements; tiles are numbered first axis fastest, and tile t owns
    the slots ``[t * T, (t + 1) * T)`` with T the product of ``tile_shape``. A tier of that full extent supplies
    values, one of size 0 is a prototype that storage is allocated like, tile by tile as needed. With both full
    ``initial`` says which counts; with neither every tile is invalid until it is scattered or updated.

    ``residency_policy`` advises on every request. ``primary_capacity`` bounds the tiles on primary; requests
    that need more read the rest past it. ``overlay`` is a writable scratch tier over a read-only secondary.

    Safe for use from many threads. Requests return handles at once; see ``AwaitProjection``.

    Raises:
        TypeError: a tier is no carrier, depends on others, is given twice or is of another element type; the
            primary does not compute; ``residency_policy`` has no ``plan``.
        RuntimeError: a tier is released or owned or shares storage with another, or the slots of the primary or the
            overlay are immutable.
        ValueError: a tier of another size, bad shapes, ``initial`` or ``primary_capacity``; an ``overlay`` over a
            secondary that takes dirty tiles itself.
    """

    dependent = True

    def __init__(
        self,
        primary: Carrier,
        secondary: Carrier,
        grid_shape: Iterable[int],
        tile_shape: Iterable[int],
        *,
        residency_policy: ResidencyPolicy | None = None,
        initial: Literal["primary", "secondary"] | None = None,
        primary_capacity: int | None = None,
        overlay: Carrier | None = None,
    ) -> None:
        construction.check_types(primary, secondary, overlay, residency_policy, initial)
        geometry = TileGeometry(grid_shape, tile_shape)  # type: ignore[arg-type] # any iterable is read there
        capacity = construction.as_capacity(primary_capacity)
        tiers = [("primary", primary), ("secondary", secondary)]
        if overlay is not None:
            tiers.append(("overlay", overlay))
        construction.check_free(tiers)
        where = construction.check_sizes(geometry, tiers, initial, capacity)
        construction.claim_all(tiers)
        try:
            core = construction.build_core(geometry, primary, secondary, overlay, where, capacity)
        except BaseException:
            for _, tier in tiers:
                tier.unclaim()
            raise
        self._adopt(core, residency_policy, [tier for _, tier in tiers])

    @classmethod
    def _over(cls, core: Core, layout: Layout) -> Tensor:
        """The full Tensor, with ``layout``, over a carrier of a fresh core that nobody else knows."""
        self = cls.__new__(cls)
        self._adopt(core, None, [])
        self._own_layout = layout
        return Tensor(self, 0, layout)

    @classmethod
    def from_torch(
        cls,
        source: torch.Tensor,
        tile_shape: Iterable[int],
        *,
        primary: Carrier | None = None,
        copy: bool | None = None,
        **options: Any,
    ) -> Tensor:
        """The full Tensor over a torch tensor, detached from torch's graph and cut into tiles.

        A tensor in host memory becomes the secondary tier under ``primary`` (default: CPU), one on a device the
        primary tier. Memory is shared where tiles are runs of it; otherwise it is copied, which ``copy=False``
        refuses and ``copy=True`` asks for. ``options`` are the constructor's.

        Raises:
            TypeError: no torch tensor, a fake or meta one, or a type without a twin.
            ValueError: tiles do not divide the shape, or are no runs (``copy=False``); ``primary`` was given although
                the tensor is on a device.
        """
        return sources.from_torch(cls, source, tile_shape, primary, copy, options)

    @classmethod
    def from_safetensors(
        cls,
        path: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
        name: str | Iterable[str],
        tile_shape: Iterable[int],
        *,
        primary: Carrier | None = None,
        **options: Any,
    ) -> Tensor:
        """The full Tensor over one tensor of a safetensors file, read from where it lies, never written.

        Several names, of tensors of one type and shape, are stacked along a new first axis; ``path`` is the file
        of all, or one for each. Each tile must be one run of the (stacked) tensor, whose rank ``tile_shape`` has.
        ``primary`` defaults to CPU, ``options`` are the constructor's.

        Raises:
            KeyError: a file has no such tensor.
            TypeError: its type has no twin.
            ValueError: tiles do not divide the shape, or are no runs; the message names the axis. Tensors of a
                stack that differ, or another number of paths.
        """
        return sources.from_safetensors(cls, path, name, tile_shape, primary, options)

    def _adopt(self, core: Core, policy: ResidencyPolicy | None, tiers: list[Carrier]) -> None:
        Carrier.__init__(self, core.dtype, True)
        self._core, self._policy, self._tiers = core, policy, tiers
        self._own_layout: Layout | None = None
        self._footprints: dict[Layout, Footprint] = {}
        self._forms: dict[tuple[int, int, tuple[int, ...], str], tuple[Packing, Layout]] = {}

    # --- what it is --------------------------------------------------------------------------------------

    def size(self) -> int:
        return self._core.geometry.slots

    @property
    def geometry(self) -> TileGeometry:
        """Grid and tile shape, and the numbering of tiles."""
        return self._core.geometry

    @property
    def grid_shape(self) -> tuple[int, ...]:
        """Tiles per axis."""
        return self._core.geometry.grid_shape

    @property
    def tile_shape(self) -> tuple[int, ...]:
        """Elements of a tile per axis."""
        return self._core.geometry.tile_shape

    @property
    def logical_shape(self) -> tuple[int, ...]:
        """Elements per axis."""
        return self._core.geometry.logical_shape

    @property
    def residency_policy(self) -> ResidencyPolicy | None:
        """The policy given at construction."""
        return self._policy

    @property
    def primary_capacity(self) -> int:
        """The most tiles on primary at once."""
        return self._core.primary.limit

    @property
    def primary_class(self) -> type[Carrier]:
        """The exact class of the compute tier."""
        return type(self._core.primary.prototype)

    @property
    def secondary_class(self) -> type[Carrier]:
        """The exact class of the backing tier."""
        home = self._core.home
        return type(home.carrier if home is not None else self._core.secondary.prototype)

    def canonical_layout(self) -> Layout:
        """A Layout of the full logical tensor whose tiles are dense, first axis fastest."""
        return self._core.geometry.canonical_layout()

    def row_major_layout(self) -> Layout:
        """A Layout of the full logical tensor whose tiles lie last axis fastest, as torch has it."""
        return sources.row_major_layout(self._core.geometry)

    def full_tensor(self, layout: Layout | None = None) -> Tensor:
        """The full logical Tensor, with a Layout that is compatible with the tiles.

        Without ``layout`` it is read as it was handed out: by ``from_torch``, ``from_safetensors``, a scatter or a
        backward. A carrier that was constructed has ``canonical_layout()``.

        Raises:
            ValueError: ``layout`` is not compatible with the tiles.
        """
        chosen = self._own_layout if layout is None else layout
        if chosen is None:
            chosen = self.canonical_layout()
        self._footprint(chosen, 0, "full_tensor")
        return Tensor(self, 0, chosen)

    def _handed_out(self, layout: Layout) -> Tensor:
        """``full_tensor(layout)``, which is what ``full_tensor()`` gives from now on."""
        self._own_layout = layout
        return self.full_tensor(layout)

    def compute_class(self) -> type[Carrier]:
        return self.primary_class

    def _footprint(self, layout: Layout, offset: int, what: str) -> Footprint:
        found = self._footprints.get(layout) if offset == 0 else None
        if found is None:
            found = footprint(layout, offset, self._core.geometry, what)
            if len(self._footprints) > 64:
                self._footprints.clear()
            self._footprints[layout] = found
        return found

    def check_gradient(self, layout: Layout, offset: int) -> None:
        """Raise ValueError unless a gradient with this Layout covers the tiles exactly."""
        self._footprint(layout, offset, "backward: gradient")

    # --- residency ---------------------------------------------------------------------------------------

    def _ready(self, verb: str) -> None:
        self.require_live(verb)
        self._core.require_own_process(verb)
        requests.refuse_within_policy(self._core, verb)

    def _await(self, completion: Any) -> AwaitResidency:
        return AwaitResidency(settled(None) if completion is None else completion, self._core)

    # --- data --------------------------------------------------------------------------------------------

    def project(
        self,
        tensor: Tensor,
        selection: TileSelection,
        destination: Carrier | None = None,
        *,
        order: Order = "canonical",
    ) -> AwaitProjection:
        """Begin to gather the selected tiles of the full ``tensor`` into one compact Tensor.

        The result is an ordinary Tensor on ``destination``, or on a fresh carrier like the primary: dense, first
        axis fastest, tiles in the selection's order; with ``order="tile"`` tile after tile as they lie, which is
        cheaper. Missing tiles are promoted where there is room and read past primary where there is none. One
        gather node is recorded. A failure leaves a ``destination`` as it was: one that has slots is written once
        everything is there, an empty one or a fresh carrier as tiles arrive.

        Raises:
            TypeError: an argument of another type; a tensor on another carrier; a destination of another class
                or element type than the primary.
            RuntimeError: released; a destination that is released, owned, immutable, in use or shares storage; a
                tile without a value, or covered by a promotion or eviction that has not ended.
            ValueError: the selection does not fit the grid, the tensor not the tiles, or the destination is too
                small; ``order`` is neither of the two.
        """
        return project(self, tensor, selection, destination, order)

    def scatter(
        self, compact: Tensor, template: Tensor, selection: TileSelection, reduction: Reduction = "replace"
    ) -> AwaitMove[Tensor]:
        """Begin to write ``compact`` into the selected tiles of a fresh carrier with the form of ``template``.

        ``"replace"`` takes the compact values, ``"add"`` adds them to the template's. Neither input is changed.
        In the result the selected tiles are valid and the others invalid; where the template is a gradient the
        others are zero. One scatter node is recorded.

        Raises:
            TypeError: an argument of another type or class; another element type, or one that cannot be added.
            OverflowError: from ``wait()``, an integer sum outside the type's range.
            RuntimeError: released; a template tile without a value (``"add"``) or covered by a promotion or
                eviction that has not ended.
            ValueError: another ``reduction``; a shape, rank, range or geometry that does not fit.
        """
        return scatter(self, compact, template, selection, reduction)

    def update(
        self, selection: TileSelection, compact: Tensor, reduction: Reduction = "replace"
    ) -> AwaitMove[Tensor]:
        """Begin to write ``compact`` into this carrier's own tiles, all or none; the version advances once.

        Not differentiable. Values go where ``full_tensor()``, which the handle gives, has them. Refused while
        requests need one of the tiles. Raises as ``scatter``; also ValueError for more tiles than
        ``primary_capacity``, and RuntimeError for a ``compact`` that lies in the tiers' own memory.
        """
        return update(self, selection, compact, reduction)

    def hold(self, selection: TileSelection | TileSet) -> Hold:
        """Bring tiles onto primary and keep them there until the ``with`` block ends; see ``Hold``.

        Raises as ``promote``, at this call or as the block is entered.
        """
        from .hold import Hold

        return Hold(self, selection)

    # --- values and life ---------------------------------------------------------------------------------

    def get_value(self, i: int) -> Scalar:
        """The value of slot ``i``, from whichever tier has it. Raises as ``Carrier``; also for an invalid tile."""
        self.require_live("get_value")
        item = self._dtype.itemsize
        buffer = bytearray(item)
        read_bytes(self._core, self._slot(i) * item, memoryview(buffer))
        return self._dtype.unpack(buffer)

    def set_value(self, i: int, v: Scalar) -> None:
        """Write slot ``i``: its tile is promoted and becomes dirty. Refused while requests use this carrier."""
        self._ready("set_value")
        index = self._slot(i)
        data = self._dtype.pack(self._dtype.check(v))
        write_bytes(self, index * len(data), data)

    def load_bytes(self, offset: int, into: memoryview) -> None:
        read_bytes(self._core, offset, into)

    def store_bytes(self, offset: int, data: memoryview) -> None:
        write_bytes(self, offset, bytes(data))

    def _require_idle(self, verb: str) -> None:
        super()._require_idle(verb)
        if self._core.gathering:
            raise RuntimeError(
                f"{verb}: {self._core.gathering} projection(s) still use this {self._name()}; wait for them first"
            )

    def allocate_like(
        self, n: int, *, mutable: bool = True, dtype: Any = None, empty: bool = False
    ) -> Carrier:
        """An ordinary carrier of the primary's class: results of tiled values are not tiled again."""
        return self._core.primary.prototype.allocate_like(n, mutable=mutable, dtype=dtype, empty=empty)

    def release(self) -> None:
        """Release both tiers and every tile. Idempotent.

        Raises:
            RuntimeError: a request, or an eviction that was put off, has not ended; the message names it. After
                everything has been released, a failure of the device that came after ``on_stream()`` and that no
                ``wait()`` has raised.
        """
        core = self._core
        with self._lock:
            if self._released:
                return
            with core.lock:
                busy = core.busy()
                if busy:
                    raise RuntimeError(
                        f"release: incomplete {', '.join(busy)}; wait() for it, leave the with block of a hold, "
                        "or call wait_idle()"
                    )
                core.released = True
            self._require_idle("release")
            self._released = True
        self.free_storage()
        if core.late:
            raise core.late[0]

    def free_storage(self) -> None:
        core = self._core
        for carrier in (*core.primary.carriers(), *core.secondary.carriers()):
            if not carrier.is_owned():
                carrier.release()
        for tier in self._tiers:
            tier.free_owned()
        core.forget()
