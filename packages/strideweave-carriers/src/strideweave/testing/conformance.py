"""What every carrier must do, as a test class. Derive from it, say how to make one, and run pytest.

    class TestMine(CarrierConformance):
        def make(self, n, dtype):
            return Mine(n, dtype=dtype)

The oracle for values is a Python list; for bytes, the list packed by the element type.
"""

from __future__ import annotations

from abc import abstractmethod
from functools import partial

import pytest

from ..carriers.base import Carrier
from ..carriers.generic import Generic
from ..dtypes import ALL, DType, Float32, Int32
from ..layout import Layout
from ..movement.move import move, move_async
from ..movement.transfer import transfer_or_none
from ..operations.elementwise import add, elementwise_mul, mul
from ..operations.matmul import matmul
from ..operations.reduce import reduce_sum
from ..operations.unary import relu
from ..tensor import Tensor
from .faults import Fault, fail_at, gated, sweep


class CarrierConformance:
    """The plain carrier surface: values, lifecycle, versions, ownership, movement."""

    dtypes: tuple[DType, ...] = ALL

    @abstractmethod
    def make(self, n: int, dtype: DType) -> Carrier:
        """A fresh, mutable, zeroed carrier of ``n`` slots."""

    def filled(self, values: list, dtype: DType = Float32) -> Carrier:
        """A fresh carrier that holds ``values``."""
        carrier = self.make(len(values), dtype)
        for i, value in enumerate(values):
            carrier.set_value(i, value)
        return carrier

    def values(self, carrier: Carrier) -> list:
        """All values, one by one."""
        return [carrier.get_value(i) for i in range(carrier.size())]

    def test_starts_zeroed_with_its_size_and_type(self) -> None:
        """A fresh carrier holds zeros of its type, is mutable, has no owner and version 0."""
        for dtype in self.dtypes:
            carrier = self.make(5, dtype)
            assert carrier.size() == 5 and carrier.dtype() is dtype
            assert self.values(carrier) == [dtype.unpack(bytes(dtype.itemsize))] * 5
            assert carrier.version == 0 and carrier.is_mutable() and not carrier.is_owned()

    def test_holds_what_is_written_rounded(self) -> None:
        """A written value comes back rounded to the type, and every write counts as a version."""
        for dtype in self.dtypes:
            wanted = [True, False, True] if dtype.kind == "bool" else [1, 0, 3]
            carrier = self.filled(wanted, dtype)
            assert self.values(carrier) == wanted and carrier.version == 3
        if Float32 in self.dtypes:
            carrier = self.filled([0.1, -0.0])
            assert carrier.get_value(0) == Float32.round(0.1) and str(carrier.get_value(1)) == "-0.0"

    def test_refuses_wrong_slots_and_values(self) -> None:
        """Slots outside, slots that are no integers and values of other kinds change nothing."""
        carrier = self.make(3, Float32)
        for slot in (-1, 3):
            with pytest.raises(IndexError):
                carrier.get_value(slot)
            with pytest.raises(IndexError):
                carrier.set_value(slot, 1.0)
        for slot in (True, 1.0, "0"):
            with pytest.raises(TypeError):
                carrier.get_value(slot)  # type: ignore[arg-type] # the point of the test
        with pytest.raises(TypeError):
            carrier.set_value(0, True)
        if Int32 in self.dtypes:
            with pytest.raises(OverflowError):
                self.make(1, Int32).set_value(0, 2**31)
        assert self.values(carrier) == [0, 0, 0] and carrier.version == 0

    def test_new_like_copies_values(self) -> None:
        """``new_like`` gives the same class with the values given, writable only where asked."""
        carrier = self.make(1, Float32)
        fresh = carrier.new_like([1.5, 2.5], mutable=False, dtype=Float32)
        assert type(fresh) is type(carrier) and self.values(fresh) == [1.5, 2.5]
        assert not fresh.is_mutable()
        with pytest.raises(RuntimeError):
            fresh.set_value(0, 0.0)

    def test_allocate_like_is_zero_and_apart(self) -> None:
        """``allocate_like`` gives zeros that share no storage; a negative size is refused."""
        carrier = self.filled([1.0, 2.0])
        fresh = carrier.allocate_like(4)
        assert type(fresh) is type(carrier) and fresh.size() == 4 and fresh.dtype() is carrier.dtype()
        assert self.values(fresh) == [0.0] * 4
        fresh.set_value(0, 9.0)
        assert self.values(carrier) == [1.0, 2.0] and not fresh.shares_storage(carrier)
        with pytest.raises(ValueError):
            carrier.allocate_like(-1)

    def test_release_is_final_and_idempotent(self) -> None:
        """Releasing twice is one release; every use of the values afterwards is refused."""
        carrier = self.filled([1.0])
        version = carrier.version
        carrier.release()
        carrier.release()
        assert carrier.is_released() and carrier.version == version
        for use in (lambda: carrier.get_value(0), lambda: carrier.set_value(0, 1.0)):
            with pytest.raises(RuntimeError, match="released"):
                use()
        with pytest.raises(RuntimeError, match="released"):
            Tensor(carrier, 0, Layout(1))

    def test_an_owned_carrier_is_written_and_released_through_its_owner_only(self) -> None:
        """Writing, releasing and claiming an owned carrier name the owner; reading goes on."""
        carrier = self.filled([1.0])
        carrier.claim("a test")
        assert carrier.is_owned() and not carrier.is_mutable()
        for use in (lambda: carrier.set_value(0, 2.0), carrier.release, lambda: carrier.claim("another")):
            with pytest.raises(RuntimeError, match="a test"):
                use()
        assert carrier.get_value(0) == 1.0
        carrier.unclaim()
        carrier.set_value(0, 2.0)
        assert carrier.get_value(0) == 2.0

    def test_cannot_be_subclassed_if_sealed(self) -> None:
        """The classes of this package refuse to be derived from."""
        cls = type(self.make(1, Float32))
        if cls.__module__.startswith("strideweave."):
            with pytest.raises(TypeError, match="cannot be subclassed"):
                type("Sub", (cls,), {})

    def test_bytes_survive_a_round_trip(self) -> None:
        """NaN payloads and the sign of zero pass bytewise reads and writes unchanged."""
        carrier = self.make(3, Float32)
        odd = bytes.fromhex("0100c07f 00000080 ffffffff")  # a NaN payload, -0.0, another NaN
        carrier.store_bytes(0, memoryview(odd))
        back = bytearray(12)
        carrier.load_bytes(0, memoryview(back))
        assert bytes(back) == odd
        carrier.load_bytes(4, memoryview(back)[:4])
        assert bytes(back[:4]) == odd[4:8]

    def test_moves_to_and_from_generic(self) -> None:
        """Part of a carrier moves to the reference and back, into an allocation and into place."""
        source = Tensor(self.filled([1.0, 2.0, 3.0]), 1, Layout(2))
        there = move(source, Generic())
        assert there.tolist() == [2.0, 3.0] and there.carrier.version == 1 and source.version == 3
        home = self.make(2, Float32)
        back = move(there, home)
        assert back.carrier is home and self.values(home) == [2.0, 3.0]

    def test_a_pending_move_protects_both_ends(self) -> None:
        """While a move is held open, neither end is written or released."""
        carrier = self.filled([1.0, 2.0])
        target = Generic([0.0, 0.0])
        with gated() as gate:
            handle = move_async(Tensor(carrier, 0, Layout(2)), target)
            if gate.reached.wait(5):
                assert not handle.done
                for use in (lambda: carrier.set_value(0, 9.0), carrier.release, lambda: target.get_value(0)):
                    with pytest.raises(RuntimeError, match="wait"):
                        use()
            gate.open()
            result = handle.wait()
        assert handle.wait() is result and result.tolist() == [1.0, 2.0]
        carrier.set_value(0, 9.0)
        target.release()

    def test_every_provider_fault_in_a_move_leaves_both_ends_as_they_were(self) -> None:
        """The n-th failing provider call, for every n, changes nothing, and a retry works."""
        source = Tensor(self.filled([1.0, 2.0]), 0, Layout(2))
        self._sweep_into(source, Generic())
        self._sweep_into(Tensor(Generic([5.0, 6.0]), 0, Layout(2)), self.make(1, Float32).allocate_like(0))

    def _sweep_into(self, source: Tensor, target: Carrier) -> None:
        wanted, version = source.tolist(), source.version

        def as_before() -> None:
            assert target.size() == 0 and target.version == 0 and not target.is_released()
            assert source.tolist() == wanted and source.version == version

        if transfer_or_none(type(source.carrier.value_carrier()), type(target.value_carrier())) is None:
            return
        faults = sweep(lambda: move(source, target), as_before)
        assert faults >= 2, "at least the submission and the copy are provider calls"
        assert Tensor(target, 0, source.layout).tolist() == wanted

    def test_a_failed_handle_fails_the_same_way_each_time(self) -> None:
        """Every wait on a failed move raises the same exception object."""
        source = Tensor(self.filled([1.0]), 0, Layout(1))
        with fail_at(1, "copy", "read"):
            handle = move_async(source, Generic())
            seen = []
            for _ in range(3):
                with pytest.raises(Fault) as caught:
                    handle.wait()
                seen.append((caught.value, len(caught.traceback)))
        assert all(error is seen[0][0] for error, _ in seen)
        assert seen[1][1] == seen[2][1], "the traceback does not grow"


class ComputeConformance:
    """The six central operations and their gradients. Oracle: the same on ``Generic``, exact on small integers."""

    @abstractmethod
    def make(self, n: int, dtype: DType) -> Carrier:
        """A fresh, mutable, zeroed carrier of ``n`` slots."""

    def pair(self, values: list, layout: Layout, dtype: DType = Float32) -> tuple[Tensor, Tensor]:
        """The same tensor on this class and on Generic."""
        prototype = self.make(1, dtype)
        return tuple(  # type: ignore[return-value] # two of them
            Tensor(p.new_like(values, mutable=True, dtype=dtype), 0, layout)
            for p in (prototype, Generic(dtype=dtype))
        )

    def agree(self, operation, *operands: tuple[Tensor, Tensor]) -> None:
        """Results and gradients are equal on both, and the result lies on the class's compute carrier."""
        mine, reference = (operation(*side) for side in zip(*operands, strict=True))
        assert type(mine.carrier) is operands[0][0].carrier.compute_class()
        assert mine.tolist() == reference.tolist() and mine.layout.is_dense()
        if not mine.is_differentiable():
            return
        for result in (mine, reference):
            seed = result.carrier.new_like([k % 3 + 1.0 for k in range(result.size())], dtype=result.dtype())
            result.backward(Tensor(seed, 0, Layout(result.shape)))
        for ours, theirs in operands:
            assert type(ours.grad.carrier) is type(ours.carrier)  # type: ignore[union-attr] # backward ran
            assert ours.grad.tolist() == theirs.grad.tolist()  # type: ignore[union-attr]

    def test_central_operations_agree_with_the_reference(self) -> None:
        """The six central operations give what the pure Python carrier gives."""
        rows, columns = Layout((2, 3), (3, 1)), Layout((2, 3))
        for dtype in (Float32, Int32):
            left = partial(self.pair, [1, -2, 3, 4, 0, 6], rows, dtype)
            right = partial(self.pair, [2, 5, -1, 7, 8, 3], columns, dtype)
            for operation in (add, elementwise_mul, mul):
                self.agree(operation, left(), right())
                row, column = (
                    self.pair([1, 2, 3], Layout((1, 3)), dtype),
                    self.pair([4, 5], Layout((2, 1)), dtype),
                )
                self.agree(operation, row, column)
            self.agree(relu, left())
            self.agree(lambda t: mul(t, 3), left())
            self.agree(lambda t: mul(True, t), left())
            self.agree(lambda t: reduce_sum(t, "a b -> a"), left())
            self.agree(matmul, left(), right())

    def test_checked_integers(self) -> None:
        """Int32 sums that leave the type are refused."""
        x = self.pair([2**31 - 1], Layout((1,)), Int32)[0]
        for use in (lambda: add(x, x), lambda: mul(x, 2), lambda: mul(x, x)):
            with pytest.raises(OverflowError):
                use()

    def test_every_fault_in_an_operation_changes_nothing(self) -> None:
        """The n-th failing provider call of an operation leaves its operands as they were."""
        x = self.pair([1.0, 2.0], Layout((2,)))[0]
        x.carrier.compute_carrier()
        relu(x)

        def as_before() -> None:
            assert x.tolist() == [1.0, 2.0] and x.version == 0 and x.grad is None

        assert sweep(lambda: relu(add(x, x)), as_before, "kernel", "allocate") >= 2
        assert relu(add(x, x)).tolist() == [2.0, 4.0]
