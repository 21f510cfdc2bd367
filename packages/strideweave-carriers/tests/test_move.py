"""move and move_async: the order of refusals, protection, values. Oracle: the bytes written at the source."""

from __future__ import annotations

import time

import pytest

import strideweave as sw
from strideweave.testing import Fault, fail_at, gated

pytestmark = pytest.mark.spec("movement")


def source(values=(1.0, 2.0, 3.0)):
    return sw.tensor(list(values))


def released(dtype=sw.Float32):
    carrier = sw.CPU(3, dtype=dtype)
    carrier.release()
    return carrier


class Stranger(sw.Generic.__base__):
    """A carrier class that no transfer knows."""

    def __init__(self):
        super().__init__(sw.Float32, True)

    def size(self):
        return 0

    def allocate_like(self, n, *, mutable=True, dtype=None, empty=False):
        return Stranger()

    def load_bytes(self, offset, into):
        raise AssertionError("never read")

    def store_bytes(self, offset, data):
        raise AssertionError("never written")

    def free_storage(self):
        return None


def test_refusals_come_in_the_documented_order():
    gone = source()
    gone.carrier.release()
    owned = sw.CPU(3, dtype=sw.Int32)
    owned.claim("a test")
    frozen_ints = sw.CPU(2, mutable=False, dtype=sw.Int32)
    cases = [
        ((None, None), TypeError, "expected a Tensor"),
        ((gone, None), TypeError, "expected a carrier"),
        ((source(), sw.CPU), TypeError, "the class CPU; pass an instance"),
        ((gone, Stranger()), RuntimeError, "released"),
        ((source(), Stranger()), sw.UnsupportedOperationPlan, "CPU to Stranger"),
        ((source(), released(sw.Int32)), RuntimeError, "released"),
        ((source(), owned), RuntimeError, "owned"),
        ((source(), frozen_ints), RuntimeError, "immutable"),
        ((source(), sw.CPU(2, dtype=sw.Int32)), TypeError, "Int32"),
        ((source(), sw.CPU(2)), ValueError, "spans 3 slots"),
    ]
    for args, error, words in cases:
        with pytest.raises(error, match=words):
            sw.move_async(*args)
    same = source()
    with pytest.raises(ValueError, match="own"):
        sw.move(same, same.carrier)
    import torch

    memory = torch.zeros(6)
    with pytest.raises(RuntimeError, match="share storage"):
        sw.move(sw.from_torch(memory[:3]), sw.from_torch(memory[2:]).carrier)


def test_layout_is_kept_and_gaps_move_along():
    carrier = sw.tensor(range(10)).carrier
    view = sw.Tensor(carrier, 2, sw.Layout((2, 3), (1, 3)))
    there = sw.move(view, sw.Generic())
    assert there.layout == view.layout and there.offset == 0 and there.tolist() == view.tolist()
    assert there.carrier.size() == 8


def test_an_existing_carrier_is_filled_from_its_front():
    target = sw.CPU(5)
    there = sw.move(source(), target)
    assert there.carrier is target and sw.Tensor(target, 0, sw.Layout(5)).tolist() == [1, 2, 3, 0, 0]
    assert target.version == 1


def test_the_handle_returns_before_the_copy_ends():
    with gated() as gate:
        started = time.perf_counter()
        handle = sw.move_async(source(), sw.CPU(0))
        assert time.perf_counter() - started < 5 and not handle.done
        other = source() * 2
        assert other.tolist() == [2.0, 4.0, 6.0], "unrelated work goes on"
        gate.open()
        assert handle.wait().tolist() == [1.0, 2.0, 3.0]
    assert handle.done


def test_inputs_of_a_pending_move_are_protected_and_freed_after():
    tensor, target = source(), sw.CPU(0)
    with gated() as gate:
        handle = sw.move_async(tensor, target)
        for use in (
            lambda: tensor.carrier.set_value(0, 5.0),
            tensor.carrier.release,
            target.release,
            lambda: sw.move_async(source(), target),
            lambda: target.claim("another"),
        ):
            with pytest.raises(RuntimeError, match="wait"):
                use()
        assert sw.add(tensor, tensor).tolist() == [2.0, 4.0, 6.0], "reading the source is fine"
        gate.open()
        handle.wait()
    tensor.carrier.set_value(0, 5.0)
    target.set_value(0, 6.0)
    tensor.carrier.release()


def test_a_dropped_handle_still_completes():
    target = sw.CPU(0)
    sw.move_async(source(), target)
    deadline = time.monotonic() + 10
    while target.version == 0 and time.monotonic() < deadline:
        time.sleep(0.001)
    assert sw.Tensor(target, 0, sw.Layout(3)).tolist() == [1.0, 2.0, 3.0]


def test_a_read_that_fails_half_way_leaves_an_existing_destination(tmp_path):
    for name, data in (("a", b"\x00\x00\x80?"), ("b", b"\x00\x00\x00@")):
        (tmp_path / name).write_bytes(data)
    both = sw.FileBacked.from_extents([(tmp_path / "a", 0, 4), (tmp_path / "b", 0, 4)], sw.Float32)
    target = sw.tensor([7.0, 8.0]).carrier
    tensor = sw.Tensor(both, 0, sw.Layout(2))
    with fail_at(2, "read"), pytest.raises(Fault):
        sw.move(tensor, target)
    assert sw.Tensor(target, 0, sw.Layout(2)).tolist() == [7.0, 8.0] and target.version == 0
    assert sw.move(tensor, target).tolist() == [1.0, 2.0]


def test_move_is_differentiable_once():
    x = source()
    y = sw.move(x, sw.Generic())
    assert y.autograd_ctx.inputs() == (x,) and y.autograd_ctx.name == "move"
    y.backward(sw.Tensor(sw.Generic([1.0, 2.0, 3.0]), 0, sw.Layout(3)))
    assert type(x.grad.carrier) is sw.CPU and x.grad.tolist() == [1.0, 2.0, 3.0]
    with sw.no_grad():
        assert sw.move(source(), sw.CPU(0)).autograd_ctx is None


def test_keyboard_interrupt_in_a_provider_leaves_the_carriers_usable():
    tensor, target = source(), sw.CPU(0)
    with fail_at(1, "copy", error=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        sw.move(tensor, target)
    assert sw.move(tensor, target).tolist() == [1.0, 2.0, 3.0]


def test_exact_pairs_can_be_registered_once():
    with pytest.raises(ValueError, match="already"):
        sw.register_transfer(sw.CPU, sw.Generic, None)


def test_a_file_is_read_into_whole_pages_of_the_carriers_own(tmp_path):
    """Oracle: the file's bytes, through every door to them, before and after a tensor over the pages was asked for."""
    import torch

    count = 300_001
    values = torch.arange(count, dtype=torch.int32)
    (tmp_path / "data").write_bytes(values.numpy().tobytes())
    tensor = sw.Tensor(sw.FileBacked(tmp_path / "data", mutable=False, dtype=sw.Int32), 0, sw.Layout(count))
    with torch.inference_mode():
        there = sw.move(tensor, sw.CPU(0, dtype=sw.Int32)).carrier
    assert there.get_value(count - 1) == count - 1 and there.host_address() % 4096 == 0
    there.set_value(0, 7)
    address = there.host_address()
    assert torch.equal(there.flat()[1:], values[1:]) and there.flat()[0] == 7
    assert there.flat().data_ptr() == address == there.host_address() and there.size() == count
    there.flat()[1] = 9
    assert there.get_value(1) == 9 and not there.flat().is_inference()
    again = sw.move(sw.Tensor(there, 1, sw.Layout(2)), sw.CPU(0, dtype=sw.Int32))
    assert again.tolist() == [9, 2]
    there.release()
    assert there.size() == 0 and there.flat().numel() == 0
    with fail_at(1, "read"), pytest.raises(Fault):
        sw.move(tensor, target := sw.CPU(0, dtype=sw.Int32))
    assert target.size() == 0 and target.version == 0 and target.flat().numel() == 0


def test_threads_that_ask_for_the_tensor_first_get_one(tmp_path):
    """Oracle: identity, and the bytes read."""
    import threading

    import torch

    (tmp_path / "data").write_bytes(bytes(range(256)) * 8192)
    source = sw.FileBacked(tmp_path / "data", mutable=False, dtype=sw.UInt8)
    for _ in range(20):
        carrier = sw.move(sw.Tensor(source, 0, sw.Layout(2 << 20)), sw.CPU(0, dtype=sw.UInt8)).carrier
        seen, start = [], threading.Barrier(4)
        threads = [
            threading.Thread(target=lambda c=carrier, b=start, s=seen: (b.wait(), s.append(c.flat())))
            for _ in range(4)
        ]
        [t.start() for t in threads], [t.join(10) for t in threads]
        assert len(seen) == 4 and all(flat is seen[0] for flat in seen)
        assert torch.equal(seen[0][:256], torch.arange(256, dtype=torch.uint8))


def test_a_carrier_without_slots_shares_nothing_that_a_user_can_reach():
    first, second = sw.CPU(0), sw.CPU(0)
    first.flat().resize_(3)
    assert second.flat().numel() == 0 and first.size() == 0 and sw.CPU(0).flat().numel() == 0
    assert sw.move(source(), first).tolist() == [1.0, 2.0, 3.0]
