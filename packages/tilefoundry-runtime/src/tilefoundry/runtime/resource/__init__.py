"""Checkpoints as named tensors: an in-memory mapping and a safetensors folder, both with aliases."""

from tilefoundry.ir.core.resource import RuntimeResource
from tilefoundry.runtime.resource.alias import Absolute, AliasValue, Preprocessed
from tilefoundry.runtime.resource.dict_resource import DictResource
from tilefoundry.runtime.resource.safetensors_resource import SafetensorsResource

__all__ = [
    "Absolute",
    "AliasValue",
    "DictResource",
    "Preprocessed",
    "RuntimeResource",
    "SafetensorsResource",
]
