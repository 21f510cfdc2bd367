"""Run TileFoundry programs: twins, checkpoints, built libraries and numerical checks.

Names load on first use, so that importing the package costs neither torch nor a compiled library.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tilefoundry.runtime.abi import EntryABI, ParamABI, entry_abi_of, param_abi_of
    from tilefoundry.runtime.bound import BoundModule
    from tilefoundry.runtime.compiled import CompiledModule
    from tilefoundry.runtime.compiled_functions import compiled_twin
    from tilefoundry.runtime.decorator import runtime_func, runtime_module
    from tilefoundry.runtime.function import RuntimeFunction
    from tilefoundry.runtime.graph import graphed
    from tilefoundry.runtime.kernel_record import KernelRecord
    from tilefoundry.runtime.measure import check
    from tilefoundry.runtime.module import RuntimeModule
    from tilefoundry.runtime.predicates import (
        PREDICATES,
        AllClose,
        Cosine,
        Equal,
        MaxAbs,
        MaxRel,
        NanInf,
        Predicate,
        RelL2,
        Ulp,
    )
    from tilefoundry.runtime.report import OutputCheck, PredicateResult, Report
    from tilefoundry.runtime.resource import (
        Absolute,
        AliasValue,
        DictResource,
        Preprocessed,
        RuntimeResource,
        SafetensorsResource,
    )
    from tilefoundry.runtime.saved import load_compiled

__all__ = [
    "RuntimeModule",
    "RuntimeFunction",
    "runtime_module",
    "runtime_func",
    "CompiledModule",
    "BoundModule",
    "KernelRecord",
    "load_compiled",
    "compiled_twin",
    "graphed",
    "ParamABI",
    "EntryABI",
    "param_abi_of",
    "entry_abi_of",
    "RuntimeResource",
    "DictResource",
    "SafetensorsResource",
    "AliasValue",
    "Absolute",
    "Preprocessed",
    "check",
    "PREDICATES",
    "Predicate",
    "AllClose",
    "RelL2",
    "Cosine",
    "Equal",
    "Ulp",
    "MaxAbs",
    "MaxRel",
    "NanInf",
    "Report",
    "OutputCheck",
    "PredicateResult",
]

_HOMES = {
    "abi": ("EntryABI", "ParamABI", "entry_abi_of", "param_abi_of"),
    "bound": ("BoundModule",),
    "compiled": ("CompiledModule",),
    "decorator": ("runtime_func", "runtime_module"),
    "function": ("RuntimeFunction",),
    "graph": ("graphed",),
    "kernel_record": ("KernelRecord",),
    "measure": ("check",),
    "module": ("RuntimeModule",),
    "predicates": (
        "PREDICATES",
        "AllClose",
        "Cosine",
        "Equal",
        "MaxAbs",
        "MaxRel",
        "NanInf",
        "Predicate",
        "RelL2",
        "Ulp",
    ),
    "report": ("OutputCheck", "PredicateResult", "Report"),
    "resource": (
        "Absolute",
        "AliasValue",
        "DictResource",
        "Preprocessed",
        "RuntimeResource",
        "SafetensorsResource",
    ),
    "saved": ("load_compiled",),
    "compiled_functions": ("compiled_twin",),
}
_MODULE_OF = {name: f"{__name__}.{home}" for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
