"""An EntryABI as JSON values, and back."""

from __future__ import annotations

from typing import Any

from tilefoundry.ir.types import Dim, DimExpr, DimVar, DType, TensorType
from tilefoundry.ir.types.dim import FloorDiv, floordiv
from tilefoundry.runtime.abi import EntryABI, ParamABI

__all__ = ["decode_entry", "encode_entry"]


def encode_entry(entry: EntryABI) -> dict[str, Any]:
    """``entry`` as JSON values.

    Raises:
        ValueError: a parameter with a layout, which a saved library cannot carry.
    """
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
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"{where} is damaged: its entry is no ABI ({error!r})") from None


def _encode_param(param: ParamABI) -> dict[str, Any]:
    if param.type.layout is not None:
        raise ValueError(
            f"{param.name} has the layout {param.type.layout}; only dense parameters can be saved"
        )
    return {
        "name": param.name,
        "dtype": param.type.dtype.name,
        "shape": [_encode_dim(dim) for dim in param.type.shape],
        "storage": param.type.storage.value,
    }


def _decode_param(row: dict[str, Any]) -> ParamABI:
    shape = tuple(_decode_dim(dim) for dim in row["shape"])
    return ParamABI(row["name"], TensorType(shape, DType.from_name(row["dtype"]), None, row["storage"]))


def _encode_dim(dim: Dim) -> Any:
    if isinstance(dim, int):
        return dim
    if isinstance(dim, DimVar):
        return {"var": dim.name, "lo": dim.lo, "hi": dim.hi}
    return {"sum": [[factor, [_encode_atom(atom) for atom in monomial]] for monomial, factor in dim.terms]}


def _encode_atom(atom: DimVar | FloorDiv) -> Any:
    if isinstance(atom, DimVar):
        return _encode_dim(atom)
    return {"floordiv": [_encode_dim(atom.numerator), atom.divisor]}


def _decode_dim(value: Any) -> Dim:
    if type(value) is int:
        return value
    if "var" in value:
        return DimVar(value["var"], value["lo"], value["hi"])
    if "floordiv" in value:
        numerator, divisor = value["floordiv"]
        return floordiv(_decode_dim(numerator), divisor)
    total: Dim = 0
    for factor, atoms in value["sum"]:
        term: Dim = factor
        for atom in atoms:
            term = term * _decode_dim(atom)
        total = total + term
    assert isinstance(total, (int, DimVar, DimExpr))
    return total
