"""Topologies, meshes, and the layouts of distributed tensors."""

from tilefoundry.ir.types.shard.attrs import B, Broadcast, Dynamic, P, Partial, S, ShardAttr, Split
from tilefoundry.ir.types.shard.axis import MeshAxis, PartialOver, SplitExtent
from tilefoundry.ir.types.shard.factors import axis_factors
from tilefoundry.ir.types.shard.instances import Instances, holds_instances
from tilefoundry.ir.types.shard.layout import ComposedLayout, Empty, Layout, c_order
from tilefoundry.ir.types.shard.levels import LevelAxes, axis_groups, level_axes, local_index, participants
from tilefoundry.ir.types.shard.mesh import Mesh, make_mesh
from tilefoundry.ir.types.shard.shard_layout import ShardLayout
from tilefoundry.ir.types.shard.strides import engine_strides, settle_plain, settle_strides, shared_strides
from tilefoundry.ir.types.shard.sugar import AnyLayout, layout_from_sugar
from tilefoundry.ir.types.shard.topology import PERSISTENT, Topology, persistent

__all__ = [
    # records
    "AnyLayout",
    "ComposedLayout",
    "Empty",
    "Instances",
    "Layout",
    "Mesh",
    "MeshAxis",
    "PERSISTENT",
    "ShardLayout",
    "Topology",
    "make_mesh",
    "persistent",
    # attributes
    "B",
    "Broadcast",
    "Dynamic",
    "P",
    "Partial",
    "S",
    "ShardAttr",
    "Split",
    # written forms
    "PartialOver",
    "SplitExtent",
    "layout_from_sugar",
    # strides
    "c_order",
    "engine_strides",
    "settle_plain",
    "settle_strides",
    "shared_strides",
    # canonical axes
    "axis_factors",
    "holds_instances",
    # levels and instances
    "LevelAxes",
    "axis_groups",
    "level_axes",
    "local_index",
    "participants",
]
