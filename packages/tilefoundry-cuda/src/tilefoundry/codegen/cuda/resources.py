"""What is known of a CUDA library's launches: geometry from the module, resources from the compiled images."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from tilefoundry.codegen.cuda.source.device import symbol_of
from tilefoundry.codegen.cuda.source.host import KernelEntry
from tilefoundry.codegen.cuda.source.matmul import shared_symbol
from tilefoundry.codegen.cuda.toolchain import Image
from tilefoundry.codegen.launch_paths import launch_records
from tilefoundry.ir.core.module import Module
from tilefoundry.ir.tir import Launch, PrimFunction, walk_tir
from tilefoundry.ir.types.shard import PERSISTENT
from tilefoundry.runtime import KernelRecord

__all__ = ["cuda_records", "image_facts", "with_facts"]

_KIB = 1024


def cuda_records(module: Module, kernels: Sequence[KernelEntry]) -> tuple[KernelRecord, ...]:
    """The launches of a lowered module with the symbols that they run.

    A grid of kernels whose blocks take tiles in turns is bounded by what the device holds, which is called
    ``persistent`` here as in programs.
    """
    entry = module.entry_function()
    assert isinstance(entry, PrimFunction)
    in_turns = {kernel.name for kernel in kernels if kernel.in_turns}
    launches = (stmt for stmt in walk_tir(entry.body) if isinstance(stmt, Launch))
    return tuple(
        replace(
            record,
            symbol=symbol_of(launch.callee),
            grid=f"min({record.grid}, {PERSISTENT.name})" if launch.callee in in_turns else record.grid,
        )
        for record, launch in zip(launch_records(module), launches, strict=True)
    )


def image_facts(images: Iterable[Image]) -> dict[str, Any]:
    """Resources by symbol as JSON values, for the cache to keep beside the library."""
    facts: dict[str, Any] = {}
    for image in images:
        for symbol, resources in image.kernels.items():
            dynamic = image.objects.get(shared_symbol(symbol), 0) * _KIB
            facts[symbol] = {**asdict(resources), "dynamic_shared_bytes": dynamic}
    return facts


def with_facts(records: Sequence[KernelRecord], facts: Mapping[str, Any]) -> tuple[KernelRecord, ...]:
    """``records`` with the resources that ``image_facts`` found."""
    return tuple(_completed(record, facts[record.symbol]) for record in records)


def _completed(record: KernelRecord, found: Mapping[str, int]) -> KernelRecord:
    return replace(
        record,
        registers=found["registers"],
        shared_bytes=found["shared_bytes"] + found["dynamic_shared_bytes"],
        dynamic_shared_bytes=found["dynamic_shared_bytes"],
        local_bytes=found["local_bytes"],
        constant_bytes=found["constant_bytes"],
    )
