"""Output tensors of a compiled entry, shaped by its ABI and the inputs at hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilefoundry.evaluator import torch_dtype
from tilefoundry.ir.types import Dim, DimVar, TensorType, dim_vars
from tilefoundry.ir.types.shard import Layout
from tilefoundry.runtime.abi import EntryABI
from tilefoundry.runtime.extents import Extent, extent_of, extent_sources

# torch is imported where it is first needed: importing the runtime must not load it.

__all__ = ["Allocator", "explain_mismatch"]


@dataclass(frozen=True, slots=True)
class Maker:
    """How one output is made.

    Attributes:
        make: from the inputs.
        like: index of an input that ``torch.empty_like`` of makes the same; None where there is none.
    """

    make: Callable[[Sequence[Any]], Any]
    like: int | None = None


class Allocator:
    """Allocates an entry's outputs through torch, on the device of the first input.

    Args:
        type: the ABI; its output parameters give dtypes and shapes, dynamic extents are read off the inputs.

    Immutable, so safe for threads.

    Raises:
        TypeError: when called, where there is no input or an extent cannot be told from the inputs.
    """

    def __init__(self, type: EntryABI) -> None:
        self._type = type
        sources = extent_sources(type)
        self.makers = tuple(_maker(type, p.type, sources) for p in type.output_params)
        self._refusal = _refusal(type, sources)

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        """Fresh outputs that require no gradient, in order."""
        if self._refusal is not None:
            raise TypeError(self._refusal)
        try:
            return [maker.make(inputs) for maker in self.makers]
        except (IndexError, RuntimeError):
            explain_mismatch(self._type, inputs)
            raise

    def refusal(self) -> str | None:
        """Why no call can allocate, and what to pass instead; None where calls can."""
        return self._refusal


def _refusal(type: EntryABI, sources: Mapping[str, Extent]) -> str | None:
    odd = next((p for p in type.output_params if not _allocatable(p.type)), None)
    if not type.input_params:
        why = "it has no tensor input to follow"
    elif unknown := _unknown_vars(type, sources):
        why = f"no input gives {', '.join(unknown)}"
    elif odd is not None:
        why = f"{odd.name} has the layout {odd.type.layout}, which torch cannot allocate"
    else:
        return None
    names = ", ".join(p.name for p in type.output_params)
    return f"{type.name} cannot allocate its outputs: {why}; pass {names} as well"


def explain_mismatch(type: EntryABI, inputs: Sequence[Any]) -> None:
    """Raise ValueError naming the first input whose rank, extent or dtype is not the declared one."""
    env: dict[str, int] = {}
    for param, value in zip(type.input_params, inputs, strict=False):
        declared, shape = param.type, tuple(value.shape)
        if len(shape) != declared.rank:
            raise ValueError(
                f"{type.name}: {param.name} has shape {shape}, declared {declared}: ranks differ"
            )
        for axis, (dim, extent) in enumerate(zip(declared.shape, shape, strict=True)):
            expected = (
                env.setdefault(dim.name, extent) if isinstance(dim, DimVar) else _known(dim, env, extent)
            )
            inside = not isinstance(dim, DimVar) or dim.lo <= extent < dim.hi
            if expected != extent or not inside:
                want = (
                    f"{dim.name} in [{dim.lo}, {dim.hi})"
                    if isinstance(dim, DimVar) and not inside
                    else expected
                )
                raise ValueError(
                    f"{type.name}: {param.name} has shape {shape}, declared {declared}: "
                    f"axis {axis} is {extent}, expected {want}"
                )
        if value.dtype is not torch_dtype(declared.dtype):
            raise ValueError(
                f"{type.name}: {param.name} is {value.dtype}, declared {declared}; convert it with .to()"
            )


def _known(dim: Dim, env: Mapping[str, int], extent: int) -> int:
    try:
        return extent_of(dim, env)
    except KeyError:
        return extent


def _maker(type: EntryABI, output: TensorType, sources: Mapping[str, Extent]) -> Maker:
    """How to make one output; the forms that torch parses in the least time, of which ``torch.empty`` is none."""
    import torch

    for index, param in enumerate(type.input_params):
        if param.type.same_value_type(output) and param.type.layout is output.layout is None:
            return Maker(lambda inputs, index=index: torch.empty_like(inputs[index]), index)
    given = {} if output.dtype is type.params[0].type.dtype else {"dtype": torch_dtype(output.dtype)}
    read = _shape_reader(output.shape, sources)
    if output.layout is not None and _allocatable(output):
        steps = _shape_reader(output.layout.settled, sources)
    elif all(isinstance(dim, int) for dim in output.shape):
        steps = _shape_reader(_dense(read(())), sources)
    else:
        return Maker(lambda inputs: inputs[0].new_empty_strided(s := read(inputs), _dense(s), **given))
    return Maker(lambda inputs: inputs[0].new_empty_strided(read(inputs), steps(inputs), **given))


def _dense(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides that torch itself gives a fresh tensor of ``shape``."""
    steps, step = [], 1
    for extent in reversed(shape):
        steps.append(step)
        step *= extent or 1
    return tuple(reversed(steps))


def _allocatable(type: TensorType) -> bool:
    """Whether the type's layout is plain strides over its own shape."""
    layout = type.layout
    return layout is None or (isinstance(layout, Layout) and layout.shape == type.shape)


def _shape_reader(
    dims: tuple[Dim, ...], sources: Mapping[str, Extent]
) -> Callable[[Sequence[Any]], tuple[int, ...]]:
    if all(isinstance(dim, int) for dim in dims):
        return lambda inputs: dims  # type: ignore[return-value]  # integers all
    readers = tuple(_dim_reader(dim, sources) for dim in dims)
    return lambda inputs: tuple([read(inputs) for read in readers])


def _dim_reader(dim: Dim, sources: Mapping[str, Extent]) -> Extent:
    if isinstance(dim, int):
        return lambda inputs: dim
    if isinstance(dim, DimVar) and dim.name in sources:
        return sources[dim.name]
    needed = {var.name: sources[var.name] for var in dim_vars(dim) if var.name in sources}
    return lambda inputs: extent_of(dim, {name: read(inputs) for name, read in needed.items()})


def _unknown_vars(type: EntryABI, sources: Mapping[str, Extent]) -> list[str]:
    needed = [var.name for p in type.output_params for dim in p.type.shape for var in dim_vars(dim)]
    return [name for name in dict.fromkeys(needed) if name not in sources]
