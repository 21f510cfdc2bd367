"""Construction: check the tiers, claim them, and lay out the core. All or nothing."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

from ...movement.transfer import transfer_for
from ...operations.kernels import family_of
from ..base import Carrier
from .coordinates import as_component
from .core import Core
from .geometry import TileGeometry
from .plan import ResidencyPolicy
from .slots import Slab, SlotPool
from .table import Initial

OWNER = "a TiledEvictable"


def check_types(primary: object, secondary: object, overlay: object, policy: object, initial: object) -> None:
    """Raise TypeError for arguments of the wrong kind; looks at nothing else."""
    tiers = {"primary": primary, "secondary": secondary}
    if overlay is not None:
        tiers["overlay"] = overlay
    for name, tier in tiers.items():
        if not isinstance(tier, Carrier):
            raise TypeError(f"TiledEvictable {name}: expected a carrier, got {type(tier).__name__} {tier!r}")
        if tier.dependent:
            raise TypeError(
                f"TiledEvictable {name}: a {type(tier).__name__} depends on other carriers; pass a plain one"
            )
    if len({id(t) for t in tiers.values()}) < len(tiers):
        raise TypeError("TiledEvictable: one carrier was given as two tiers; pass distinct ones")
    assert isinstance(primary, Carrier)
    if not primary.compute:
        raise TypeError(
            f"TiledEvictable primary: {type(primary).__name__} computes nothing; pass CPU, CUDA or the like"
        )
    for name, tier in tiers.items():
        if isinstance(tier, Carrier) and tier.dtype() is not primary.dtype():
            other, dtype = ("primary", tier.dtype()) if tier.size() else (name, primary.dtype())
            raise TypeError(
                f"TiledEvictable {name}: holds {tier.dtype()}, the primary {primary.dtype()}; make the {other} "
                f"with dtype={dtype}"
            )
    if isinstance(policy, type):
        raise TypeError(
            f"TiledEvictable residency_policy: got the class {policy.__name__}; pass an instance of it"
        )
    if policy is not None and not (isinstance(policy, ResidencyPolicy) and callable(policy.plan)):
        raise TypeError(
            f"TiledEvictable residency_policy: {type(policy).__name__} has no plan(required, purpose)"
        )
    if initial is not None and not isinstance(initial, str):
        raise TypeError(f"TiledEvictable initial: expected 'primary' or 'secondary', got {initial!r}")


def check_free(tiers: Sequence[tuple[str, Carrier]]) -> None:
    """Raise RuntimeError for a tier that is released or owned, or cannot be written where tiles are, or for two that
    share storage; ValueError for an overlay over a secondary that can be written.
    """
    for name, tier in tiers:
        tier.require_live(f"TiledEvictable {name}")
        if tier.is_owned():
            raise RuntimeError(
                f"TiledEvictable {name}: the {type(tier).__name__} is owned by another carrier; pass a free one"
            )
        # Tiles that arrive, or are written back, are written there. An empty tier is only a prototype.
        if name != "secondary" and tier.size() and not tier.is_mutable():
            raise RuntimeError(
                f"TiledEvictable {name}: the {type(tier).__name__} is immutable and tiles are written there; pass a "
                "mutable one, or supply the values on the secondary tier"
            )
    named = dict(tiers)
    lower = named["secondary"]
    if "overlay" in named and (lower.is_mutable() or not lower.size()):
        raise ValueError(
            f"TiledEvictable overlay: the secondary {type(lower).__name__} takes dirty tiles itself, an overlay "
            "would stay empty; leave it out, or pass a secondary of mutable=False"
        )
    for (first, one), (second, other) in combinations(tiers, 2):
        if one.shares_storage(other):
            raise RuntimeError(
                f"TiledEvictable {second}: shares storage with the {first}, where a tile would overwrite its own "
                "copy; pass memory of its own"
            )


def check_sizes(
    geometry: TileGeometry, tiers: Sequence[tuple[str, Carrier]], initial: str | None, capacity: int | None
) -> Initial:
    """Where the values are at first.

    Raises:
        ValueError: a size that is neither 0 nor the full extent, a bad ``initial``, or values beyond the capacity.
    """
    full = {}
    for name, tier in tiers:
        if tier.size() not in (0, geometry.slots):
            raise ValueError(
                f"TiledEvictable {name}: has {tier.size()} slots, expected 0 (a prototype to allocate from) or "
                f"{geometry.slots}, grid {geometry.grid_shape} times tile {geometry.tile_shape}"
            )
        full[name] = tier.size() > 0
    holders = [name for name in ("primary", "secondary") if full[name]]
    if initial is not None and initial not in holders:
        raise ValueError(
            f"TiledEvictable initial: {initial!r} supplies no values; those that do: {holders or 'none'}"
        )
    where = initial or (holders[0] if holders else "invalid")
    if capacity is not None and where == "primary" and capacity < geometry.tile_count:
        raise ValueError(
            f"TiledEvictable primary_capacity: {capacity} tiles, but the primary supplies {geometry.tile_count}; "
            "supply the values on the secondary tier"
        )
    return where  # type: ignore[return-value] # one of the three


def as_capacity(capacity: object) -> int | None:
    """``primary_capacity`` as a number of tiles.

    Raises:
        TypeError: no integer.
        ValueError: below 1.
    """
    if capacity is None:
        return None
    try:
        count = as_component(capacity, "primary_capacity")
    except TypeError:
        raise TypeError(
            f"TiledEvictable primary_capacity: expected a number of tiles or None, got {type(capacity).__name__} "
            f"{capacity!r}"
        ) from None
    if count < 1:
        raise ValueError(
            f"TiledEvictable primary_capacity: {count} tiles; give at least 1, or None for no bound"
        )
    return count


def claim_all(tiers: Sequence[tuple[str, Carrier]]) -> None:
    """Claim every tier, or none."""
    claimed: list[Carrier] = []
    try:
        for _, tier in tiers:
            tier.claim(OWNER)
            claimed.append(tier)
        check_capabilities(dict(tiers))
    except BaseException:
        for tier in claimed:
            tier.unclaim()
        raise


def check_capabilities(tiers: dict[str, Carrier]) -> None:
    """Raise where values cannot get from one tier to another or nothing computes on the primary."""
    primary = tiers["primary"]
    if family_of(type(primary)) is None:
        raise TypeError(f"TiledEvictable primary: no operation has kernels for {type(primary).__name__}")
    for name, tier in tiers.items():
        if name != "primary":
            transfer_for(type(tier), type(primary))
            transfer_for(type(primary), type(tier))


def build_core(
    geometry: TileGeometry,
    primary: Carrier,
    secondary: Carrier,
    overlay: Carrier | None,
    initial: Initial,
    capacity: int | None,
) -> Core:
    """The core over claimed tiers."""
    limit = min(capacity or geometry.tile_count, geometry.tile_count)
    upper = SlotPool(primary, limit, whole=capacity is not None)
    primary_home = None
    if primary.size():
        primary_home = upper.adopt(primary, geometry.tile_count, used=initial == "primary")
    read_only = secondary.size() > 0 and not secondary._mutable
    home = Slab(secondary, geometry.tile_count) if secondary.size() else None
    lower = _lower_pool(geometry, secondary, overlay, home is not None and not read_only, read_only)
    return Core(
        geometry,
        primary.dtype(),
        upper,
        lower,
        initial,
        home,
        primary_home=primary_home,
        read_only=read_only,
        lasting=True,
    )


def _lower_pool(
    geometry: TileGeometry, secondary: Carrier, overlay: Carrier | None, home_writable: bool, read_only: bool
) -> SlotPool:
    if home_writable:
        return SlotPool(secondary, 0)
    if read_only and overlay is None:
        return SlotPool(secondary, 0)
    prototype = overlay if read_only and overlay is not None else secondary
    pool = SlotPool(prototype, geometry.tile_count)
    if prototype.size():
        pool.adopt(prototype, geometry.tile_count, used=False)
    return pool


def like(core: Core, initial: Initial) -> Core:
    """A fresh core of the same geometry, type, tier classes and capacity, without values of its own.

    Instead of a read-only secondary it has storage of its own, of the overlay's class or else of the secondary's.
    """
    upper = SlotPool(core.primary.prototype, core.primary.limit)
    lower = SlotPool(_writable_prototype(core), core.geometry.tile_count)
    return Core(core.geometry, core.dtype, upper, lower, initial, None, name=core.name)


def _writable_prototype(core: Core) -> Any:
    if not core.read_only or core.secondary.limit:
        return core.secondary.prototype
    return core.secondary.prototype.allocate_like(0)
