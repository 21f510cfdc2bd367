"""An EntryABI as JSON values, and back."""

from __future__ import annotations

from typing import Any

from tilefoundry.ir.types import DType, TensorType
from tilefoundry.runtime.abi import EntryABI, ParamABI
from tilefoundry.runtime.kernel_record import KernelRecord
from tilefoundry.runtime.layout_text import decode_dim, decode_layout, encode_dim, encode_layout

__all__ = ["decode_entry", "decode_kernels", "encode_entry", "encode_kernels"]

_KERNEL = ("name", "grid", "block", "registers", "shared_bytes")
_LATER = ("path", "symbol", "dynamic_shared_bytes", "local_bytes", "constant_bytes")
"""Fields that came later: readers of before leave them out, and files of before lack them."""


def encode_entry(entry: EntryABI) -> dict[str, Any]:
    """``entry`` as JSON values; TypeError for a layout that is none of the IR's records."""
    return {
        "name": entry.name,
        "params": [_encode_param(param) for param in entry.params],
        "output_count": entry.output_count,
        "constants": [list(pair) for pair in entry.constants],
        "inplace": [list(pair) for pair in entry.inplace],
    }


def decode_entry(where: str, table: dict[str, Any]) -> EntryABI:
    """What ``encode_entry`` wrote; ValueError naming ``where`` for anything else."""
    try:
        return EntryABI(
            table["name"],
            tuple(_decode_param(row) for row in table["params"]),
            table["output_count"],
            tuple((index, path) for index, path in table["constants"]),
            tuple((output, source) for output, source in table["inplace"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise ValueError(f"{where} is damaged: its entry is no ABI ({error!r})") from None


def encode_kernels(kernels: tuple[KernelRecord, ...]) -> list[dict[str, Any]]:
    """``kernels`` as JSON values."""
    return [{field: getattr(kernel, field) for field in _KERNEL + _LATER} for kernel in kernels]


def decode_kernels(where: str, rows: list[Any]) -> tuple[KernelRecord, ...]:
    """What ``encode_kernels`` wrote; ValueError naming ``where`` for anything else."""
    try:
        return tuple(_decode_kernel(row) for row in rows)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{where} is damaged: a kernel's record is none ({error!r})") from None


def _decode_kernel(row: dict[str, Any]) -> KernelRecord:
    known = {field: row[field] for field in _KERNEL}
    return KernelRecord(**known, **{field: row[field] for field in _LATER if field in row})


def _encode_param(param: ParamABI) -> dict[str, Any]:
    return {
        "name": param.name,
        "dtype": param.type.dtype.name,
        "shape": [encode_dim(dim) for dim in param.type.shape],
        "layout": encode_layout(param.type.layout),
        "storage": param.type.storage.value,
    }


def _decode_param(row: dict[str, Any]) -> ParamABI:
    shape = tuple(decode_dim(dim) for dim in row["shape"])
    layout = decode_layout(row.get("layout"))
    return ParamABI(row["name"], TensorType(shape, DType.from_name(row["dtype"]), layout, row["storage"]))
