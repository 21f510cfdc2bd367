"""The Python of one entry's calls, written for its number of arguments.

A loop over the arguments, a slice of them, a frame more: each costs as much as a small kernel. So the common
calls, plain torch tensors in the right number, get a function without them, and everything else is handed to
the general one. ``python benchmarks/runtime_overheads.py`` shows what is left.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, Signature
from typing import Any

from tilefoundry.runtime.abi import EntryABI
from tilefoundry.runtime.allocation import Allocator
from tilefoundry.runtime.versions import version_bumper

# torch is imported where it is first needed: importing the runtime must not load it.

__all__ = ["CALL_SIGNATURE", "write_call"]

CALL_SIGNATURE = Signature([Parameter("args", Parameter.VAR_POSITIONAL)])
"""What ``inspect`` shows of an instance with a call of its own."""

_MOST = 16
"""With more arguments than this the work on each outweighs what is saved once."""

_HEAD = """def call({parameters}, /, *rest):
"""
_FILL = """    if {last} is not absent and not rest:
        if {plain} and not ({graded}):
            try:
                fn({passed})
            except errors as error:
                explain(({arguments},), error)
                raise
            bump(({outputs},))
            return {result}
"""
_ALLOCATE = """    elif {first} is absent and {last_input} is not absent:
        if {plain_inputs}:
            try:
                {allocations}
                fn({passed})
            except errors as error:
                explain(({inputs},), error)
                raise
            return {result}
"""
_TAIL = """    return general(*[value for value in ({arguments},) if value is not absent], *rest)
"""


def write_call(
    type: EntryABI,
    fn: Callable[..., Any],
    general: Callable[..., Any],
    explain: Callable[[Sequence[Any], Exception], None],
    fixed: Mapping[int, Any],
) -> Callable[..., Any]:
    """A function over the inputs that are not fixed, or over those and the outputs.

    Args:
        type: the entry's ABI.
        fn: the exported function over all inputs and outputs.
        general: takes the same arguments; called for whatever is not common.
        explain: called with the arguments when ``fn`` failed; raises where it knows better.
        fixed: input index -> what is passed there.

    The result is as safe for threads as ``fn``.
    """
    slots = [index for index in range(type.input_count) if index not in fixed]
    if not slots or not type.output_count or len(slots) + type.output_count > _MOST:
        return general
    import torch

    names: dict[str, Any] = {
        "absent": object(),
        "errors": (RuntimeError, BufferError, IndexError),
        "tensor": torch.Tensor,
        "like": torch.empty_like,
        "bump": version_bumper(),
        "fn": fn,
        "general": general,
        "explain": explain,
        **{f"fixed{index}": value for index, value in fixed.items()},
    }
    exec(_text(type, slots, names), names)
    # Python's own messages, such as that on keywords, begin with it.
    names["call"].__qualname__ = type.name
    return names["call"]


def _text(type: EntryABI, slots: list[int], names: dict[str, Any]) -> str:
    inputs, outputs = [f"input{i}" for i in slots], [f"output{i}" for i in range(type.output_count)]
    both = inputs + outputs
    every = [f"input{i}" if i in slots else f"fixed{i}" for i in range(type.input_count)]
    parts = {
        "parameters": ", ".join(f"{name}=absent" for name in both),
        "arguments": ", ".join(both),
        "inputs": ", ".join(inputs),
        "outputs": ", ".join(outputs),
        "passed": ", ".join(every + outputs),
        "first": outputs[0],
        "last": outputs[-1],
        "last_input": inputs[-1],
        "plain": _plain(both),
        "plain_inputs": _plain(inputs),
        "graded": " or ".join(f"{name}.requires_grad" for name in outputs),
        "result": outputs[0] if len(outputs) == 1 else f"({', '.join(outputs)})",
    }
    allocate = Allocator(type.without_inputs(set(range(type.input_count)) - set(slots)))
    if allocate.refusal() is not None:
        return (_HEAD + _FILL + _TAIL).format(**parts)
    lines = []
    for output, maker in zip(outputs, allocate.makers, strict=True):
        if maker.like is not None:
            lines.append(f"{output} = like({inputs[maker.like]})")
        else:
            names[f"make_{output}"] = maker.make
            lines.append(f"{output} = make_{output}(({parts['inputs']},))")
    parts["allocations"] = ("\n" + " " * 16).join(lines)
    return (_HEAD + _FILL + _ALLOCATE + _TAIL).format(**parts)


def _plain(names: list[str]) -> str:
    """A test that all are torch tensors whose memory holds their values, none of a subclass."""
    types = " and ".join(f"type({name}) is tensor" for name in names)
    return f"{types} and not ({' or '.join(f'{name}.is_neg()' for name in names)})"
