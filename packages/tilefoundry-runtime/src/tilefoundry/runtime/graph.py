"""Replay a step as one CUDA graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# torch is imported where it is first needed: importing the runtime must not load it.

__all__ = ["GraphedStep", "graphed"]

_WARM_UPS = 3


class GraphedStep:
    """A captured step; made by ``graphed``. One call at a time, on one stream at a time.

    Arguments are copied into the captured ones, so they must have the same shapes and dtypes. The result is
    memory of the graph: the next call overwrites it.
    """

    def __init__(self, step: Callable[..., Any], example: tuple[Any, ...]) -> None:
        import torch

        self._inputs = tuple(tensor.detach().clone() for tensor in _checked(example))
        self._device = self._inputs[0].device
        with torch.cuda.device(self._device), torch.no_grad():
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(_WARM_UPS):
                    step(*self._inputs)
            torch.cuda.current_stream().wait_stream(side)
            self._graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self._graph):
                self._result = step(*self._inputs)

    def __call__(self, *args: Any) -> Any:
        """Replay on ``args``; ValueError for another count, shape, dtype or device."""
        if len(args) != len(self._inputs):
            raise ValueError(f"the graph was captured with {len(self._inputs)} arguments, got {len(args)}")
        for i, (kept, given) in enumerate(zip(self._inputs, args, strict=True)):
            if given is kept:
                continue
            if given.shape != kept.shape or given.dtype is not kept.dtype or given.device != kept.device:
                raise ValueError(
                    f"argument {i} is {given.dtype}{list(given.shape)} on {given.device}, the graph was captured with "
                    f"{kept.dtype}{list(kept.shape)} on {kept.device}; capture another graph for other shapes"
                )
            kept.copy_(given)
        self._graph.replay()
        return self._result

    @property
    def inputs(self) -> tuple[Any, ...]:
        """The captured arguments; write into them and pass them back to save the copy."""
        return self._inputs


def graphed(twin: Callable[..., Any], example: tuple[Any, ...]) -> GraphedStep:
    """Capture ``twin(*example)`` once and give a callable that replays it.

    Captured on a stream of its own; no other thread may use the device meanwhile. Replays go to the current
    stream, one at a time.

    Args:
        twin: a loaded twin, a bound compiled module or any step whose work is legal to capture.
        example: CUDA tensors of the shapes that later calls will have.

    Raises:
        TypeError: an argument that is no CUDA tensor.
        RuntimeError: the step does something that a capture forbids.
    """
    return GraphedStep(twin, example)


def _checked(example: tuple[Any, ...]) -> tuple[Any, ...]:
    import torch

    if not isinstance(example, tuple) or not example:
        raise TypeError(f"example must be a non-empty tuple of CUDA tensors, got {example!r}")
    for i, tensor in enumerate(example):
        if not isinstance(tensor, torch.Tensor) or tensor.device.type != "cuda":
            where = tensor.device if isinstance(tensor, torch.Tensor) else type(tensor).__name__
            raise TypeError(f"example[{i}] must be a CUDA tensor, got {where}; a graph replays GPU work only")
    return example
