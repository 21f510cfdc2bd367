"""Graph nodes: what an operation saved and how it turns its result's gradient into its inputs'."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ..tensor import Tensor

Vjp = Callable[[Tensor], Sequence["Tensor | None"]]


class Saved(NamedTuple):
    """A tensor needed at backward, with the value token its carrier had when it was saved."""

    tensor: Tensor
    token: tuple[int, ...]

    @classmethod
    def of(cls, tensor: Tensor) -> Saved:
        """Save ``tensor`` as it is now."""
        return cls(tensor, tensor.carrier.value_token())

    def validate(self, operation: str) -> None:
        """Raise RuntimeError if the values were released or written since."""
        carrier = self.tensor.carrier
        carrier.require_live(f"backward of {operation}")
        if carrier.value_token() != self.token:
            raise RuntimeError(
                f"backward of {operation}: a saved {self.tensor.describe()} was written after the operation "
                f"(version {self.token[0]} then, {carrier.version} now); write to a copy, or run backward first"
            )


class Node:
    """One operation in a graph. ``vjp`` runs under no_grad and gives one gradient or None per input."""

    __slots__ = ("_inputs", "_prepare", "_saved", "_vjp", "name")

    def __init__(
        self,
        name: str,
        inputs: Sequence[Tensor],
        vjp: Vjp,
        saved: Sequence[Tensor] = (),
        prepare: Callable[[], None] | None = None,
    ) -> None:
        self.name = name
        self._inputs = tuple(inputs)
        self._vjp: Vjp | None = vjp
        self._saved = tuple([Saved.of(t) for t in saved])
        self._prepare = prepare

    def inputs(self) -> tuple[Tensor, ...]:
        """The operands that the operation consumed, in order."""
        return self._inputs

    def validate(self) -> None:
        """Raise RuntimeError if backward cannot run: freed, or a saved value changed. Changes nothing."""
        if self._vjp is None:
            raise self.freed_earlier()
        for saved in self._saved:
            saved.validate(self.name)
        if self._prepare is not None:
            self._prepare()

    def apply(self, gradient: Tensor) -> Sequence[Tensor | None]:
        """The gradients of the inputs."""
        if self._vjp is None:
            raise self.freed_meanwhile()
        return self._vjp(gradient)

    def free(self) -> None:
        """Let go of everything saved."""
        self._vjp, self._saved, self._prepare = None, (), None

    def freed_earlier(self) -> RuntimeError:
        """What to raise where a backward before this one has freed the graph."""
        return RuntimeError(
            f"backward of {self.name}: its graph was freed by an earlier backward; pass retain_graph=True to that"
        )

    def freed_meanwhile(self) -> RuntimeError:
        """What to raise where another backward frees the graph under this one."""
        return RuntimeError(f"backward of {self.name}: its graph was freed meanwhile; pass retain_graph=True")

    def __repr__(self) -> str:
        return f"<{self.name} of {len(self._inputs)} input(s)>"
