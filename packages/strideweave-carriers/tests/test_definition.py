"""CarrierDefinition: immutable, sealed at first use, shipped for one class only. Oracle: the rules restated."""

from __future__ import annotations

import dataclasses

import pytest

import strideweave as sw
from strideweave import CarrierDefinition
from strideweave.carriers.definition import definition_of, install_definition

pytestmark = pytest.mark.spec("carrier-definition")


def fresh_class():
    body = {
        "size": lambda self: 2,
        "allocate_like": lambda self, n, **kw: self,
        "load_bytes": lambda self, offset, into: None,
        "store_bytes": lambda self, offset, data: None,
        "free_storage": lambda self: None,
        "__init__": lambda self: sw.Carrier.__init__(self, sw.Float32, True),
    }
    return type("Fresh", (sw.Carrier,), body)


def test_a_definition_is_a_frozen_value():
    cls = fresh_class()
    kernels = {"relu": lambda operation, operands, attributes: "ran"}
    definition = CarrierDefinition(cls, kernels, (sw.CPU,), None, ())
    kernels.clear()
    assert set(definition.kernels) == {"relu"} and definition.transfers == (sw.CPU,)
    with pytest.raises(dataclasses.FrozenInstanceError):
        definition.storage = sw.CPU
    with pytest.raises(TypeError):
        definition.kernels["exp"] = None
    with pytest.raises(TypeError, match="carrier class"):
        CarrierDefinition("CPU")


def test_it_is_sealed_at_first_use_and_decides_operations():
    cls = fresh_class()
    install_definition(CarrierDefinition(cls))
    install_definition(
        CarrierDefinition(cls, {"relu": lambda operation, operands, attributes: operation.name})
    )
    x = sw.Tensor(cls(), 0, sw.Layout((2,)))
    assert sw.relu(x) == "relu" and sw.operation_capabilities(cls) == {"relu"}
    with pytest.raises(RuntimeError, match="sealed"):
        install_definition(CarrierDefinition(cls))
    for use in (
        lambda: sw.exp(x),
        lambda: sw.reshape(x, (1, 2)),
        lambda: x[0:1],
        lambda: sw.move(x, sw.CPU(0)),
    ):
        with pytest.raises(sw.UnsupportedOperationPlan, match="project"):
            use()
    assert not sw.supports_operation_plan("exp", x) and sw.supports_operation_plan("relu", x)


def test_only_the_tiled_carrier_ships_with_one():
    plain = (sw.Generic, sw.CPU, sw.CUDA, sw.Metal, sw.FileBacked, sw.BlockDeviceCarrier, sw.Evictable)
    assert all(definition_of(cls) is None for cls in plain)
