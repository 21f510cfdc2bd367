"""A loaded library behind the calling convention of runtime modules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tilefoundry.ir.core.module import LoadedModule
from tilefoundry.ir.errors import UnknownNameError
from tilefoundry.runtime.abi import EntryABI
from tilefoundry.runtime.allocation import Allocator, explain_mismatch
from tilefoundry.runtime.arguments import obstacle
from tilefoundry.runtime.module import RuntimeModule
from tilefoundry.runtime.saving import save_linked

if TYPE_CHECKING:
    from tilefoundry.runtime.linking import LinkedModule

# torch and tvm_ffi are imported where they are first needed: importing the runtime must not load them.

__all__ = ["BoundModule", "CompiledModule"]


class CompiledModule(RuntimeModule):
    """A compiled entry as a runtime module.

    Call it with the inputs alone and it allocates the outputs through torch; call it with inputs and outputs
    and it fills those. One output comes back bare, several as a tuple. Weights are ordinary inputs; ``bind``
    fixes them.

    Args:
        type: the entry's ABI.
        fn: the exported function over flattened inputs and outputs.
        source: host and device text that the library was built from.
        linked: the library, for ``save``.

    Work goes to the framework's current stream of the tensors' device. Calls from several threads are
    independent; calls that are given the same outputs are not.
    """

    def __init__(
        self, type: EntryABI, fn: Callable[..., Any], *, source: str = "", linked: LinkedModule | None = None
    ) -> None:
        import torch

        super().__init__(type.name, type.name)
        self.type = type
        self.source = source
        self._fn = fn
        self._linked = linked
        self._inputs = type.input_count
        self._total = len(type.params)
        self._allocate = Allocator(type)
        self._tensor = torch.Tensor
        self._bump = torch.autograd.graph.increment_version

    def forward(self, *args: Any) -> Any:
        """Run the entry on its inputs, or on its inputs and outputs.

        Raises:
            TypeError: another number of arguments, inputs alone that are no torch tensors, outputs whose
                shape the inputs do not tell, or a tensor whose memory does not hold its values.
            ValueError: an output that requires a gradient, or an argument that the library refuses by name.
        """
        count = len(args)
        if count == self._total:
            return self._into(args, args[self._inputs :])
        if count != self._inputs:
            raise TypeError(self._wrong_count(count))
        for arg in args:
            if type(arg) is not self._tensor or arg.is_neg():
                self._check_torch(args)
        return self._allocated(args, args)

    def bind(self, constants: LoadedModule | Mapping[str, Any]) -> BoundModule:
        """The entry with its weights filled in: a callable on activations alone.

        Args:
            constants: a reading of the Module that was compiled, or a mapping from dotted path to tensor.

        Raises:
            KeyError: a weight that is not there.
            TypeError: a weight that is no torch tensor, or whose memory does not hold its values.
            ValueError: a weight of another dtype or shape, not dense, or on another device than the rest.
        """
        return BoundModule(self, _gathered(self.type, constants))

    def save(self, directory: str) -> None:
        """Write the library and its ``abi.json`` into ``directory``, for ``load_compiled``.

        Raises:
            ValueError: the module was not made from a library.
        """
        if self._linked is None:
            raise ValueError(f"{self.name} was not loaded from a library, so there is nothing to save")
        save_linked(self._linked, directory)

    def _allocated(self, shapes: Sequence[Any], args: Sequence[Any]) -> Any:
        """Run on ``args`` into fresh outputs; ``shapes`` are the same inputs as torch tensors."""
        try:
            outputs = self._allocate(shapes)
            self._fn(*args, *outputs)
        except RuntimeError as error:
            self._explain(shapes, error)
            raise
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def _into(self, args: Sequence[Any], outputs: tuple[Any, ...]) -> Any:
        """Run on ``args``, the last of which are ``outputs``; weights that are bound come converted."""
        tensor = self._tensor
        for arg in args:
            if isinstance(arg, tensor) and (type(arg) is not tensor or arg.is_neg()):
                self._explain(args)
        for out in outputs:
            if isinstance(out, tensor) and out.requires_grad:
                raise ValueError(self._wants_gradient(outputs))
        try:
            self._fn(*args)
        except (RuntimeError, BufferError) as error:
            self._explain(args, error)
            raise
        for out in outputs:
            # Written behind torch's back; a graph that saved the old value must notice.
            if isinstance(out, tensor) and not out.is_inference():
                self._bump(out)
        return outputs[0] if len(outputs) == 1 else outputs

    def _wants_gradient(self, outputs: tuple[Any, ...]) -> str:
        pairs = zip(self.type.output_params, outputs, strict=True)
        name = next(param.name for param, out in pairs if getattr(out, "requires_grad", False))
        return f"{self.name}: {name} is to be filled and requires a gradient; pass {name}.detach()"

    def _wrong_count(self, count: int) -> str:
        constants = len(self.type.constants)
        if constants and count == self._inputs - constants:
            return (
                f"{self.name}: its {constants} weights are inputs too, and {count} activations alone were given; "
                "call the result of .bind(loaded), where loaded is a reading of the Module"
            )
        given = ", ".join(p.name for p in self.type.input_params) or "none"
        taken = ", ".join(p.name for p in self.type.output_params) or "none"
        return (
            f"{self.name} takes {self._inputs} inputs ({given}), or those and all "
            f"{self.type.output_count} outputs ({taken}), got {count} arguments"
        )

    def _check_torch(self, args: Sequence[Any]) -> None:
        """Raise TypeError naming the first input that is no torch tensor or cannot be used."""
        for param, value in zip(self.type.input_params, args, strict=True):
            if not isinstance(value, self._tensor):
                raise TypeError(
                    f"{self.name} allocates outputs for torch tensors only; "
                    f"{param.name} is a {type(value).__name__}; pass torch tensors, or pass the outputs as well"
                )
        self._explain(args)

    def _explain(self, args: Sequence[Any], cause: Exception | None = None) -> None:
        """Raise TypeError naming the first argument that cannot be used; return where all can."""
        for param, value in zip(self.type.params, args, strict=False):
            why = obstacle(value)
            if why is not None:
                raise TypeError(f"{self.name}: {param.name} {why}") from cause


class BoundModule:
    """A compiled entry whose weights are fixed; called with activations, or with activations and outputs.

    Made by ``CompiledModule.bind``. Keeps the weights alive. Threads and streams as for ``CompiledModule``.
    """

    def __init__(self, compiled: CompiledModule, constants: Mapping[int, Any]) -> None:
        self.compiled = compiled
        self.type = compiled.type
        self.constants = {path: constants[index] for index, path in compiled.type.constants}
        count = compiled.type.input_count
        self._shapes = [constants.get(i) for i in range(count)]
        self._args = [_converted(constants[i]) if i in constants else None for i in range(count)]
        self._slots = [i for i in range(count) if i not in constants]

    def __call__(self, *acts: Any) -> Any:
        """The entry's value.

        Raises:
            TypeError, ValueError: as ``CompiledModule.forward``.
        """
        slots, compiled = self._slots, self.compiled
        given = len(acts)
        shapes, args = self._shapes.copy(), self._args.copy()
        for slot, value in zip(slots, acts, strict=False):
            shapes[slot] = args[slot] = value
        if given == len(slots):
            for value in acts:
                if type(value) is not compiled._tensor or value.is_neg():
                    compiled._check_torch(shapes)
            return compiled._allocated(shapes, args)
        if given != len(slots) + self.type.output_count:
            raise TypeError(self._wrong_count(given))
        outputs = acts[len(slots) :]
        return compiled._into([*args, *outputs], outputs)

    def _wrong_count(self, count: int) -> str:
        names = ", ".join(p.name for p in self.type.activation_params) or "none"
        return (
            f"{self.type.name} takes its activations alone ({names}), or those and all "
            f"{self.type.output_count} outputs, got {count}; its weights are bound"
        )

    def __repr__(self) -> str:
        return f"BoundModule({self.type.name!r}; {len(self.constants)} weights)"


def _converted(tensor: Any) -> Any:
    """``tensor`` as the foreign function interface passes it, so that no call has to convert it again."""
    import tvm_ffi

    return tvm_ffi.from_dlpack(tensor.detach())


def _gathered(type: EntryABI, constants: LoadedModule | Mapping[str, Any]) -> dict[int, Any]:
    if isinstance(constants, LoadedModule):
        found = {index: constants.constant(path) for index, path in type.constants}
    elif isinstance(constants, Mapping):
        missing = [path for _, path in type.constants if path not in constants]
        if missing:
            raise UnknownNameError(
                f"{type.name}: the mapping lacks {', '.join(missing)}; give a tensor for each weight"
            )
        found = {index: constants[path] for index, path in type.constants}
    else:
        raise TypeError(
            f"{type.name}: bind takes a LoadedModule or a mapping, got {constants.__class__.__name__}"
        )
    _check_constants(type, found)
    return found


def _check_constants(type: EntryABI, found: Mapping[int, Any]) -> None:
    where: dict[Any, str] = {}
    for index, tensor in found.items():
        param = type.params[index]
        if not hasattr(tensor, "is_contiguous"):
            raise TypeError(f"{type.name}: the weight {param.name} must be a torch.Tensor, got {tensor!r}")
        why = obstacle(tensor)
        if why is not None:
            raise TypeError(f"{type.name}: the weight {param.name} {why}")
        explain_mismatch(EntryABI(type.name, (param,)), (tensor,))
        if not tensor.is_contiguous():
            raise ValueError(
                f"{type.name}: the weight {param.name} is not contiguous; bind {param.name}.contiguous()"
            )
        where.setdefault(tensor.device, param.name)
    if len(where) > 1:
        listed = ", ".join(f"{name} on {device}" for device, name in where.items())
        raise ValueError(f"{type.name}: weights must sit on one device, got {listed}")
