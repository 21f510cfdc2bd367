"""move and move_async: a tensor's slots into another carrier, as bytes, keeping its Layout."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..autograd.accumulate import in_class_of
from ..autograd.mode import is_grad_enabled
from ..autograd.node import Node
from ..carriers import hostmemory
from ..carriers.base import Carrier
from ..carriers.cpu import CPU
from ..carriers.definition import definition_of
from ..errors import UnsupportedOperationPlan, no_tensor
from ..tensor import Tensor, attach, detached, made
from .completion import AwaitMove, AwaitResult, Completion
from .straight import begin_straight, move_straight
from .transfer import Run, Transfer, transfer_for


def move(tensor: Tensor, carrier: Carrier) -> Tensor:
    """``move_async(tensor, carrier).wait()``; between host carriers the calling thread copies."""
    straight = move_straight(tensor, carrier, _result)
    if straight is not None:
        return straight
    plan = _plan(tensor, carrier)
    try:
        return plan.perform()
    except BaseException:
        plan.undo()
        raise


def move_async(tensor: Tensor, carrier: Carrier) -> AwaitMove[Tensor]:
    """Begin to copy ``tensor`` into ``carrier`` and return a handle on the Tensor that results.

    The slots from the tensor's offset to its last are copied as bytes to the front of ``carrier``, so the
    result has the tensor's Layout at offset 0. A carrier of size 0 is given room. Until the move ends, the
    source may not be written or released and ``carrier`` not be used. One graph node is recorded.

    Checked in this order, before anything begins:

    Raises:
        TypeError: ``tensor`` is no Tensor or ``carrier`` no carrier.
        RuntimeError: the tensor's carrier was released.
        UnsupportedOperationPlan: no transfer between the two exact classes.
        RuntimeError: ``carrier`` is released, owned, immutable or in use.
        TypeError: another element type.
        ValueError: ``carrier`` is the tensor's own, or too small.
        RuntimeError: the two share storage.
    """
    straight = begin_straight(tensor, carrier, _result)
    if straight is not None:
        return straight
    plan = _plan(tensor, carrier)
    try:
        return plan.begin()
    except BaseException:
        plan.undo()
        raise


@dataclass(slots=True)
class _Plan:
    """One move between its checks and its end: what is held and what must be put back on failure."""

    tensor: Tensor
    source: Carrier
    """Where the tensor's values lie now."""
    target: Carrier
    transfer: Transfer
    nbytes: int
    reads: bool = False
    writes: bool = False
    grew: bool = False
    staged: Carrier | None = None

    def begin(self) -> AwaitMove[Tensor]:
        goal = self._hold()
        result = _result(self.tensor, self.target)
        completion: Completion[Tensor] = Completion()
        part = self.transfer.submit(self.source, goal, (self._run(),))
        completion.assist(part)
        part.add_callback(lambda: self.finish(part.error, result, completion))
        return AwaitMove(completion)

    def perform(self) -> Tensor:
        goal = self._hold()
        result = _result(self.tensor, self.target)
        self.transfer.perform(self.source, goal, (self._run(),))
        self._commit()
        return result

    def _hold(self) -> Carrier:
        origin, target = self.tensor.carrier, self.target
        origin.hold_for_read()
        self.reads = True
        target.hold_for_write("move")
        self.writes = True
        if origin.dependent or target.dependent:
            # Another thread may have moved the values to the other tier since the checks; from here on they stay.
            self.source = origin.value_carrier()
            self.transfer = transfer_for(type(self.source), type(target.value_carrier()))
        return self._prepare()

    def _run(self) -> Run:
        return Run(self.tensor.offset * self.target.dtype().itemsize, 0, self.nbytes)

    def _prepare(self) -> Carrier:
        """Room in the target; a carrier beside it where a failing read would leave a half-written one."""
        goal = self.target.value_carrier()
        if goal.size() == 0:
            self.target.grow(self.nbytes // goal.dtype().itemsize)
            self.grew = True
            return self.target.value_carrier()
        if _may_stop_half_way(self.source) and goal.host_address() is not None:
            self.staged = goal.staging(self.nbytes // goal.dtype().itemsize)
            return self.staged
        return goal

    def finish(self, error: BaseException | None, result: Tensor, completion: Completion[Tensor]) -> None:
        try:
            if error is None:
                self._commit()
        except BaseException as late:
            error = late
        if error is not None:
            self.undo()
            completion.reject(error)
        else:
            completion.resolve(result)

    def _commit(self) -> None:
        if self.staged is not None:
            _adopt(self.staged, self.target.value_carrier(), self.nbytes)
        self.target.drop_write(True)
        self.tensor.carrier.drop_read()
        self.reads = self.writes = self.grew = False

    def undo(self) -> None:
        if self.grew:
            self.target.grow(0)
            self.grew = False
        if self.writes:
            self.target.drop_write(False)
            self.writes = False
        if self.reads:
            self.tensor.carrier.drop_read()
            self.reads = False


def _may_stop_half_way(source: Carrier) -> bool:
    # Reads of files can fail between two pieces; copies of memory cannot.
    return source.host and source.host_address() is None


def _adopt(staged: Carrier, goal: Carrier, nbytes: int) -> None:
    if staged.size() == goal.size() and goal.adopt_storage(staged):
        return
    from_address, to_address = staged.host_address(), goal.host_address()
    if from_address is None or to_address is None:
        raise RuntimeError("move: storage vanished during the move; this is a fault of the carrier class")
    hostmemory.copy(to_address, from_address, nbytes)


def _plan(tensor: Any, carrier: Any) -> _Plan:
    if not isinstance(tensor, Tensor) or not isinstance(carrier, Carrier):
        raise _wrong_type(tensor, carrier)
    source = tensor.carrier
    source.require_live("move")
    if definition_of(type(source)) is not None or definition_of(type(carrier)) is not None:
        party = carrier if definition_of(type(source)) is None else source
        raise UnsupportedOperationPlan(
            f"move: a {type(party).__name__} is not moved whole; use its project(tensor, selection)"
        )
    origin, goal = source.value_carrier(), carrier.value_carrier()
    transfer = transfer_for(type(origin), type(goal))
    carrier.require_live("move")
    if carrier is not source:
        carrier.require_writable("move")
    dtype, need, room = carrier.dtype(), tensor.layout.cosize(), carrier.size()
    if dtype is not source.dtype():
        raise TypeError(f"move: the carrier holds {dtype}, the tensor {source.dtype()}; cast it first")
    if carrier is source:
        raise ValueError("move: the carrier is the tensor's own; pass another one")
    if 0 < room < need:
        raise ValueError(f"move: {tensor.layout} spans {need} slots, the carrier has {room}")
    if room and goal.shares_storage(origin):
        raise RuntimeError("move: source and destination share storage; pass a carrier of its own memory")
    return _Plan(tensor, origin, carrier, transfer, need * dtype.itemsize)


def _wrong_type(tensor: object, carrier: object) -> TypeError:
    if isinstance(tensor, AwaitResult):
        return TypeError(f"move: got a pending {type(tensor).__name__}; call wait() and move its Tensor")
    if not isinstance(tensor, Tensor):
        return no_tensor("move", tensor)
    what = f"the class {carrier.__name__}" if isinstance(carrier, type) else type(carrier).__name__
    return TypeError(f"move: expected a carrier, got {what}; pass an instance such as CPU(0, dtype=...)")


def _result(tensor: Tensor, target: Carrier) -> Tensor:
    result = made(target, tensor.layout)
    if not (tensor._differentiable and is_grad_enabled()):
        return result
    return attach(result, Node("move", (tensor,), _back_to(tensor.carrier)))


def _back_to(source: Carrier) -> Callable[[Tensor], tuple[Tensor, ...]]:
    def vjp(gradient: Tensor) -> tuple[Tensor, ...]:
        if type(gradient.carrier) is type(source):
            return (gradient,)
        return (detached(in_class_of(source, gradient)),)

    return vjp


def to_cpu(tensor: Tensor) -> Tensor:
    """A copy of ``tensor`` on a fresh CPU carrier, outside any graph."""
    return move(detached(tensor), CPU(0, dtype=tensor.dtype()))
