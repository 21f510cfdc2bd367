"""A loaded library behind the calling convention of runtime modules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tilefoundry.ir.errors import CheckpointError, UnknownNameError, briefly
from tilefoundry.runtime.abi import EntryABI
from tilefoundry.runtime.allocation import Allocator, explain_mismatch
from tilefoundry.runtime.arguments import obstacle
from tilefoundry.runtime.bound import BoundModule, gathered
from tilefoundry.runtime.call_path import CALL_SIGNATURE, write_call
from tilefoundry.runtime.kernel_record import KernelRecord
from tilefoundry.runtime.module import RuntimeModule
from tilefoundry.runtime.saving import save_linked
from tilefoundry.runtime.torch_op import register_op
from tilefoundry.runtime.versions import version_bumper

if TYPE_CHECKING:
    from tilefoundry.ir.core.module import LoadedModule
    from tilefoundry.ir.core.resource import RuntimeResource
    from tilefoundry.runtime.linking import LinkedModule

# torch is imported where it is first needed: importing the runtime must not load it.

__all__ = ["CompiledModule"]


class CompiledModule(RuntimeModule):
    """A compiled entry as a runtime module.

    Call it with the inputs alone and it allocates the outputs through torch; call it with inputs and outputs
    and it fills those. One output comes back bare, several as a tuple. Weights are ordinary inputs; ``bind``
    fixes them. The identical tensor may be passed as an input and as an output for the pairs that
    ``type.inplace`` lists; any other overlap of an output is refused by the library.

    Args:
        type: the entry's ABI.
        fn: the exported function over flattened inputs and outputs.
        source: host and device text that the library was built from.
        linked: the library, for ``save``.

    Work goes to the framework's current stream of the tensors' device. Calls from several threads are
    independent; calls that are given the same outputs are not.
    """

    # Each instance has a call of its own, written for its arguments; the slot keeps the class out of the way.
    __slots__ = ("__call__",)

    def __init__(
        self, type: EntryABI, fn: Callable[..., Any], *, source: str = "", linked: LinkedModule | None = None
    ) -> None:
        import torch

        super().__init__(type.name, type.name)
        self.type = type
        self.source = source
        self._fn = fn
        self._linked = linked
        self._allocate = Allocator(type)
        self._tensor = torch.Tensor
        self._bump = version_bumper()
        self.__signature__ = CALL_SIGNATURE
        self._call = write_call(type, fn, self._general, self.explain, {})
        overridden = self.__class__.forward is not CompiledModule.forward
        self.__call__: Callable[..., Any] = self.forward if overridden else self._call

    @property
    def kernels(self) -> tuple[KernelRecord, ...]:
        """What the code generator says of each kernel, in launch order; empty where it says nothing."""
        return () if self._linked is None else self._linked.kernels

    def forward(self, *args: Any) -> Any:
        """Run the entry on its inputs, or on its inputs and outputs.

        Raises:
            TypeError: another number of arguments, inputs alone that are no torch tensors, outputs whose
                shape the inputs do not tell, or a tensor whose memory does not hold its values.
            ValueError: an output that requires a gradient, or an argument that the library refuses by name.
        """
        return self._call(*args)

    def bind(self, constants: LoadedModule | RuntimeResource | Mapping[str, Any]) -> BoundModule:
        """The entry with its weights filled in: a callable on activations alone.

        Args:
            constants: a reading of the Module that was compiled; or, where the Module is not at hand, a resource over
                the checkpoint that its ``prepare`` wrote, or a mapping from dotted path to tensor.

        What else they hold is left alone, so that one reading, folder or mapping serves several entries; a misspelled
        name shows as the weight that is then missing.

        Raises:
            KeyError: weights that are not there, each with the nearest name that is.
            CheckpointError: tensors of a resource that disagree with the entry's declarations, or a damaged file.
            TypeError: a weight that is no torch tensor, or whose memory does not hold its values.
            ValueError: a weight of another dtype or shape, not dense, or on another device than the rest.
        """
        kinds = (UnknownNameError, CheckpointError)
        return BoundModule(self, briefly(kinds, lambda: gathered(self.type, constants)))

    def save(self, directory: str) -> None:
        """Write the library and its ``abi.json`` into ``directory``, for ``load_compiled``.

        Raises:
            ValueError: the module was not made from a library.
            FileNotFoundError: the library's file is gone, say from a cache that was cleared.
        """
        if self._linked is None:
            raise ValueError(f"{self.name} was not loaded from a library, so there is nothing to save")
        save_linked(self._linked, directory)

    def as_torch_op(self, name: str) -> Callable[..., Any]:
        """Register the entry as the torch operator ``name`` (``"namespace::op"``) and return the operator.

        It takes the inputs, weights included, and gives fresh outputs; a meta function derived from the ABI
        makes it usable under ``torch.compile(fullgraph=True)``, with dynamic extents as symbols. Results join
        no autograd graph. The registration lasts as long as the process; asking again under the same name
        gives the same operator. Threads and streams as for calls.

        Raises:
            ValueError: ``name`` is no ``namespace::op``, or stands for something else already.
            TypeError: an entry whose outputs cannot be allocated from its inputs.
        """
        return register_op(self, name)

    def _general(self, *args: Any) -> Any:
        """``forward`` for any arguments: of other frameworks, of tensor subclasses, too few, too many."""
        inputs = self.type.input_count
        if len(args) == len(self.type.params):
            return self.into(args, args[inputs:])
        if len(args) != inputs:
            raise TypeError(self._wrong_count(len(args)))
        self.check_torch(args)
        return self.allocating(args, args)

    def into(self, args: Sequence[Any], outputs: tuple[Any, ...]) -> Any:
        """Run on ``args``, the last of which are ``outputs``."""
        self.explain(args)
        ours = tuple(out for out in outputs if isinstance(out, self._tensor))
        if any(out.requires_grad for out in ours):
            raise ValueError(self._wants_gradient(outputs))
        self._fn(*args)
        # Written behind torch's back; a graph that saved the old value must notice.
        self._bump(ours)
        return outputs[0] if self.type.output_count == 1 else outputs

    def allocating(self, shapes: Sequence[Any], args: Sequence[Any]) -> Any:
        """Run on ``args`` into fresh outputs; ``shapes`` are the same inputs as torch tensors."""
        outputs = self._allocate(shapes)
        self._fn(*args, *outputs)
        return outputs[0] if self.type.output_count == 1 else tuple(outputs)

    def _wants_gradient(self, outputs: tuple[Any, ...]) -> str:
        pairs = zip(self.type.output_params, outputs, strict=True)
        name = next(param.name for param, out in pairs if getattr(out, "requires_grad", False))
        return f"{self.name}: {name} is to be filled and requires a gradient; pass {name}.detach()"

    def _wrong_count(self, count: int) -> str:
        constants = len(self.type.constants)
        if constants and count == self.type.input_count - constants:
            weights = ", ".join(path for _, path in self.type.constants[:3])
            weights += f" and {constants - 3} more" if constants > 3 else ""
            return (
                f"{self.name}: its weights ({weights}) are inputs too, and only its activations were given; "
                "call the result of .bind(loaded), where loaded is a reading of the Module"
            )
        given = ", ".join(p.name for p in self.type.input_params) or "none"
        taken = ", ".join(p.name for p in self.type.output_params) or "none"
        inputs = f"{self.type.input_count} input{'s' if self.type.input_count > 1 else ''}"
        return (
            f"{self.name} takes {inputs} ({given}), or those and its outputs ({taken}), got {count} arguments"
        )

    def check_torch(self, args: Sequence[Any]) -> None:
        """Raise TypeError naming the first input that is no torch tensor or cannot be used."""
        for param, value in zip(self.type.input_params, args, strict=True):
            if not isinstance(value, self._tensor):
                raise TypeError(
                    f"{self.name} allocates outputs for torch tensors only; "
                    f"{param.name} is a {type(value).__name__}; pass torch tensors, or pass the outputs as well"
                )
        self.explain(args)

    def explain(self, args: Sequence[Any], cause: Exception | None = None) -> None:
        """Raise for the first argument that cannot be used, naming it; return where all can."""
        for param, value in zip(self.type.params, args, strict=False):
            why = obstacle(value)
            if why is not None:
                raise TypeError(f"{self.name}: {param.name} {why}") from cause
        if cause is not None and len(args) == self.type.input_count:
            explain_mismatch(self.type, args)
