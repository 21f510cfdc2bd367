"""What a tiled carrier owns, and what construction refuses. Oracle: the stated rule, on hand-made cases."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

import strideweave as sw
from strideweave.carriers import tiled_evictable
from strideweave.carriers.tiled_evictable import TiledEvictable, TileSelection, TileState, construction


@pytest.mark.spec("A1", "OWN.keeps", "OWN.selection_no_layout", "TRN.no_autograd")
def test_promoting_one_expert_changes_only_its_residency(experts):
    tensor, carrier = experts.tensor, experts.carrier
    before = (
        tensor.carrier,
        tensor.layout,
        tensor.dtype(),
        tensor.version,
        tensor.shape,
        tensor.offset,
        carrier.size(),
    )
    carrier.promote(TileSelection([[2], [0], [0]]))
    assert (
        tensor.carrier,
        tensor.layout,
        tensor.dtype(),
        tensor.version,
        tensor.shape,
        tensor.offset,
        carrier.size(),
    ) == before
    states = [carrier.tile_state((e, 0, 0)) for e in range(4)]
    assert states[2] == TileState("both", True, False)
    assert {s for k, s in enumerate(states) if k != 2} == {TileState("secondary", True, False)}


@pytest.mark.spec("A2", "OWN.import", "SEL.import", "PRJ.import", "SET.import", "TRN.import", "POL.import")
def test_both_import_paths_give_the_same_objects():
    for name in (
        *("TiledEvictable", "TileSelection", "TileSet", "ResidencyPlan", "ResidencyPolicy"),
        *("AwaitProjection", "AwaitResidency", "TiledResidencyFacet"),
    ):
        assert getattr(sw, name) is getattr(tiled_evictable, name)
    for method in ("project", "scatter", "promote", "evict", "promote_async", "evict_async"):
        assert callable(getattr(tiled_evictable.TiledEvictable, method))
    assert sw.definition_of(sw.TiledEvictable).facets == (sw.TiledResidencyFacet,)


@pytest.mark.spec("A3")
def test_the_class_cannot_be_subclassed():
    with pytest.raises(TypeError, match="subclass"):

        class Mine(TiledEvictable):
            pass


@pytest.mark.spec("A4", "OWN.surface")
def test_tiers_of_different_types_are_refused_and_stay_free():
    primary, secondary = sw.CPU(0), sw.CPU(4, dtype=sw.Int32)
    with pytest.raises(TypeError, match=r"Int32.*Float32"):
        TiledEvictable(primary, secondary, (2,), (2,))
    assert not primary.is_owned() and not secondary.is_owned()


@pytest.mark.spec("A5", "OWN.surface")
@pytest.mark.parametrize("sizes", [(3, 0), (0, 5), (4, 3)])
def test_a_tier_is_full_or_empty(sizes):
    primary, secondary = sw.CPU(sizes[0]), sw.CPU(sizes[1])
    with pytest.raises(ValueError, match=r"expected 0 .* or 4"):
        TiledEvictable(primary, secondary, (2,), (2,))
    assert not primary.is_owned() and not secondary.is_owned()


@pytest.mark.parametrize("shift", [0, 2])
@pytest.mark.parametrize("make", [lambda a, b: TiledEvictable(a, b, (2,), (2,)), sw.Evictable])
def test_tiers_that_share_storage_are_refused_and_stay_free(make, shift):
    memory = torch.arange(6.0)
    primary, secondary = sw.from_torch(memory[:4]).carrier, sw.from_torch(memory[shift : shift + 4]).carrier
    with pytest.raises(RuntimeError, match=r"share.* storage"):
        make(primary, secondary)
    assert not primary.is_owned() and not secondary.is_owned()
    assert memory.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


@pytest.mark.spec("A6")
def test_an_owned_tier_is_not_written_directly(tiled):
    made = tiled.make(where="primary")
    for tier in made.tiers.values():
        assert tier.is_owned() and not tier.is_mutable()
    with pytest.raises(RuntimeError, match="owned by a TiledEvictable"):
        made.tiers["primary"].set_value(0, 1.0)
    with pytest.raises(RuntimeError, match="owned"):
        made.tiers["secondary"].release()


@pytest.mark.spec("A7", "OWN.only_definition", "OWN.leaves_others")
def test_no_other_class_has_a_definition_and_none_changes_its_operations():
    for cls in (sw.Generic, sw.CPU, sw.CUDA, sw.Metal, sw.FileBacked, sw.BlockDeviceCarrier, sw.Evictable):
        assert sw.definition_of(cls) is None
    assert sw.definition_of(TiledEvictable) is not None
    program = """
import sys
import strideweave as sw
from strideweave.movement.transfer import transfer_for
from strideweave.operations.kernels import family_of
CLASSES = (sw.Generic, sw.CPU, sw.CUDA, sw.Metal, sw.FileBacked, sw.BlockDeviceCarrier, sw.Evictable)
def transfer(source, target):
    try:
        return repr(type(transfer_for(source, target)))
    except Exception as error:
        return repr(error)
def behaviour():
    return [(c.__name__, sorted(sw.operation_capabilities(c)), getattr(family_of(c), "__qualname__", None),
        [transfer(c, d) for d in CLASSES], sorted(vars(c))) for c in CLASSES]
before = behaviour()
assert not any("tiled_evictable" in name for name in sys.modules)
from strideweave.carriers import tiled_evictable
assert sw.definition_of(tiled_evictable.TiledEvictable) is not None
assert behaviour() == before and "matmul" in before[1][1] and len({str(b) for b in before}) == len(CLASSES)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.spec("A8")
def test_a_capability_that_raises_frees_both_tiers(monkeypatch):
    def broken(source, target):
        raise OSError("no such link")

    monkeypatch.setattr(construction, "transfer_for", broken)
    primary, secondary = sw.CPU(0), sw.CPU(4)
    with pytest.raises(OSError, match="no such link"):
        TiledEvictable(primary, secondary, (2,), (2,))
    assert not primary.is_owned() and not secondary.is_owned()
    monkeypatch.undo()
    TiledEvictable(primary, secondary, (2,), (2,))


@pytest.mark.parametrize(
    ("make", "kind", "says"),
    [
        (lambda: (None, sw.CPU(4)), TypeError, "expected a carrier"),
        (lambda: (sw.CPU(0), 4), TypeError, "expected a carrier"),
        (lambda: (sw.FileBacked(None, 0), sw.CPU(4)), TypeError, "computes nothing"),
        (lambda: (sw.CPU(0), sw.Evictable(sw.CPU(4), sw.CPU(0))), TypeError, "depends on"),
        (lambda: (lambda c: (c, c))(sw.CPU(4)), TypeError, "two tiers"),
    ],
)
def test_what_is_no_tier_is_a_type_error(make, kind, says):
    with pytest.raises(kind, match=says):
        TiledEvictable(*make(), (2,), (2,))


def test_released_and_owned_tiers_are_refused():
    gone = sw.CPU(4)
    gone.release()
    with pytest.raises(RuntimeError, match="released"):
        TiledEvictable(sw.CPU(0), gone, (2,), (2,))
    taken = sw.CPU(4)
    TiledEvictable(sw.CPU(0), taken, (2,), (2,))
    with pytest.raises(RuntimeError, match="owned"):
        TiledEvictable(sw.CPU(0), taken, (2,), (2,))


@pytest.mark.parametrize("initial", ["primary", "secondary"])
@pytest.mark.parametrize("name", ["primary", "overlay"])
def test_tiers_that_tiles_are_written_to_must_be_mutable(name, initial, tmp_path):
    path = tmp_path / "values"
    path.write_bytes(bytes(16))
    tiers = {"primary": sw.CPU(0), "secondary": sw.FileBacked(path, mutable=False), "overlay": sw.CPU(0)}
    tiers[name] = sw.CPU(4, mutable=False)
    options = {"initial": initial if name == "primary" else None, "overlay": tiers["overlay"]}
    with pytest.raises(RuntimeError, match=f"TiledEvictable {name}: the CPU is immutable"):
        TiledEvictable(tiers["primary"], tiers["secondary"], (2,), (2,), **options)
    assert not any(tier.is_owned() for tier in tiers.values())
    # A prototype is never written itself.
    tiers[name] = sw.CPU(0, mutable=False)
    carrier = TiledEvictable(
        tiers["primary"], tiers["secondary"], (2,), (2,), overlay=tiers["overlay"], primary_capacity=1
    )
    carrier.set_value(0, 5.0)
    carrier.set_value(3, 6.0)
    assert [carrier.get_value(i) for i in range(4)] == [5.0, 0.0, 0.0, 6.0] and path.read_bytes() == bytes(16)


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({"initial": "both"}, ValueError),
        ({"initial": "primary"}, ValueError),
        ({"initial": 1}, TypeError),
        ({"primary_capacity": 0}, ValueError),
        ({"primary_capacity": True}, TypeError),
        ({"residency_policy": object()}, TypeError),
        ({"overlay": 3}, TypeError),
    ],
)
@pytest.mark.spec("A83", "POL.construct")
def test_bad_options_leave_the_tiers_free(options, kind):
    primary, secondary = sw.CPU(0), sw.CPU(4)
    with pytest.raises(kind):
        TiledEvictable(primary, secondary, (2,), (2,), **options)
    assert not primary.is_owned() and not secondary.is_owned()


def test_values_on_both_tiers_need_a_word_and_start_as_said():
    def build(**options):
        primary, secondary = sw.CPU(4), sw.CPU(4)
        primary.set_value(0, 1.0), secondary.set_value(0, 2.0)
        return TiledEvictable(primary, secondary, (2,), (2,), **options)

    assert build().get_value(0) == 1.0 and build().tile_state((0,)) == TileState("primary", True, True)
    other = build(initial="secondary")
    assert other.get_value(0) == 2.0 and other.tile_state((0,)) == TileState("secondary", True, False)
    with pytest.raises(ValueError, match="primary_capacity"):
        build(primary_capacity=1)


def test_without_values_every_tile_is_invalid():
    carrier = TiledEvictable(sw.CPU(0), sw.CPU(0), (2,), (2,))
    assert carrier.tile_state((1,)) == TileState("none", False, False)
    assert len(carrier.valid_tiles) == 0
    with pytest.raises(RuntimeError, match="no value yet"):
        carrier.get_value(0)


@pytest.mark.spec("OWN.surface", "OWN.compat")
def test_the_surface_of_geometry(experts):
    carrier = experts.carrier
    assert (carrier.grid_shape, carrier.tile_shape, carrier.logical_shape) == (
        (4, 1, 1),
        (1, 3, 2),
        (4, 3, 2),
    )
    assert carrier.dtype() is sw.Float32 and carrier.size() == 24
    assert carrier.primary_class is carrier.secondary_class is sw.CPU
    with pytest.raises(ValueError):
        carrier.full_tensor(sw.Layout((4, 3, 2)))


@pytest.mark.spec("A83", "POL.construct")
def test_the_policy_is_fixed_at_construction(tiled):
    policy = tiled.Recorder()
    carrier = tiled.make(residency_policy=policy).carrier
    assert carrier.residency_policy is policy
    with pytest.raises(AttributeError):
        carrier.residency_policy = None
