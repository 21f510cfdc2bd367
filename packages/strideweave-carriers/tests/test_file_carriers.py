"""FileBacked, BlockDevice and Evictable beyond the common surface. Oracle: the bytes of the files."""

from __future__ import annotations

import os
import random
import struct
import threading

import numpy as np
import pytest
from safetensors.numpy import save_file

import strideweave as sw
from strideweave.testing import Fault, fail_at, sweep

pytestmark = pytest.mark.spec("file-carriers")


def floats(path):
    data = path.read_bytes()
    return list(struct.unpack(f"<{len(data) // 4}f", data))


def test_a_named_file_holds_the_slots(tmp_path):
    path = tmp_path / "values.bin"
    carrier = sw.FileBacked(path, 3)
    carrier.set_value(1, 2.5)
    assert floats(path) == [0.0, 2.5, 0.0]
    again = sw.FileBacked(path, mutable=False)
    assert again.size() == 3 and again.get_value(1) == 2.5 and again.filename == str(path)
    with pytest.raises(RuntimeError, match="immutable"):
        again.set_value(0, 1.0)
    with pytest.raises(ValueError, match="holds 12 bytes"):
        sw.FileBacked(path, 4, mutable=False)
    assert sw.FileBacked(path, 5).size() == 5 and floats(path) == [0.0, 2.5, 0.0, 0.0, 0.0]
    (tmp_path / "odd").write_bytes(b"abc")
    with pytest.raises(ValueError, match="no whole number"):
        sw.FileBacked(tmp_path / "odd")


def test_descriptors_are_closed(tmp_path):
    def count():
        return len(os.listdir("/proc/self/fd"))

    before = count()
    kept = [sw.FileBacked(tmp_path / str(i), 2) for i in range(20)]
    assert count() == before + 20
    for carrier in kept[:10]:
        carrier.release()
    del carrier
    kept.clear()
    assert count() == before, "ten released, ten collected"
    for _ in range(5):
        with pytest.raises(ValueError):
            sw.FileBacked.from_extents([(tmp_path / "0", 0, 999)], sw.Float32)
    assert count() == before


def test_temporary_files_vanish():
    carrier = sw.FileBacked(None, 4)
    assert carrier.filename is None
    carrier.set_value(3, 1.0)
    carrier.sync()
    assert carrier.get_value(3) == 1.0
    carrier.release()
    with pytest.raises(RuntimeError):
        carrier.sync()


def test_a_shortened_file_is_noticed(tmp_path):
    path = tmp_path / "f"
    carrier = sw.FileBacked(path, 4)
    os.truncate(path, 6)
    with pytest.raises(OSError, match="shortened after it was opened"):
        sw.move(sw.Tensor(carrier, 0, sw.Layout(4)), sw.CPU(0))


def test_safetensors_tensors_as_they_lie(tmp_path):
    path = tmp_path / "m.safetensors"
    arrays = {"w": np.arange(12, dtype=np.float32).reshape(3, 4), "i": np.array([5, -6], np.int64)}
    save_file(arrays, path)
    carrier = sw.FileBacked.from_safetensors(path, "w")
    tensor = sw.Tensor(carrier, 0, sw.Layout((3, 4), (4, 1)))
    assert np.array_equal(sw.to_numpy(tensor), arrays["w"]) and not carrier.is_mutable()
    ints = sw.FileBacked.from_safetensors(path, "i")
    assert ints.dtype() is sw.Int64 and [ints.get_value(k) for k in range(2)] == [5, -6]
    with pytest.raises(KeyError, match="has no tensor 'x'; it has i, w"):
        sw.FileBacked.from_safetensors(path, "x")
    (tmp_path / "lfs").write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(ValueError, match="git lfs pull"):
        sw.FileBacked.from_safetensors(tmp_path / "lfs", "w")
    save_file({"d": np.zeros(2)}, tmp_path / "d.safetensors")
    with pytest.raises(TypeError, match="F64"):
        sw.FileBacked.from_safetensors(tmp_path / "d.safetensors", "d")


def test_extents_of_several_files_form_one_carrier(tmp_path):
    rng = random.Random(4)
    pieces, expected = [], b""
    for k in range(5):
        data = rng.randbytes(64)
        (tmp_path / f"p{k % 2}").write_bytes(b"") if k < 2 else None
        with open(tmp_path / f"p{k % 2}", "ab") as file:
            start = file.tell()
            file.write(data)
        length = rng.choice([4, 16, 64])
        pieces.append((tmp_path / f"p{k % 2}", start, length))
        expected += data[:length]
    carrier = sw.FileBacked.from_extents(pieces, sw.Float32)
    assert carrier.nbytes() == len(expected)
    for _ in range(40):
        offset = rng.randrange(len(expected))
        buffer = bytearray(rng.randrange(len(expected) - offset + 1))
        carrier.load_bytes(offset, memoryview(buffer))
        assert bytes(buffer) == expected[offset : offset + len(buffer)]
    with pytest.raises(ValueError, match="no whole number"):
        sw.FileBacked.from_extents([(tmp_path / "p0", 0, 3)], sw.Float32)
    assert sw.FileBacked.from_extents([], sw.Float32).size() == 0


@pytest.mark.parametrize("direct", [False, None])
def test_block_device_random_access(tmp_path, direct):
    """Oracle: a bytearray under the same random reads and writes, across block boundaries."""
    device = sw.BlockDevice(tmp_path / "disk", block_size=4096, direct=direct)
    carriers = [device.allocate(n, dtype=sw.UInt8) for n in (10_000, 1, 4096)]
    models = [bytearray(c.size()) for c in carriers]
    rng = random.Random(1)
    for _ in range(200):
        k = rng.randrange(3)
        offset = rng.randrange(carriers[k].size())
        length = rng.randrange(carriers[k].size() - offset + 1)
        if rng.random() < 0.5:
            data = rng.randbytes(length)
            carriers[k].store_bytes(offset, memoryview(data))
            models[k][offset : offset + length] = data
        buffer = bytearray(length)
        carriers[k].load_bytes(offset, memoryview(buffer))
        assert buffer == models[k][offset : offset + length]


def test_block_device_reuses_freed_blocks(tmp_path):
    device = sw.BlockDevice(tmp_path / "disk", block_size=512)
    a, b, c = (device.allocate(128) for _ in range(3))
    size = os.path.getsize(tmp_path / "disk")
    a.release(), b.release()
    both = device.allocate(256)
    assert os.path.getsize(tmp_path / "disk") == size, "two neighbours merged"
    assert all(both.get_value(i) == 0 for i in (0, 255)), "zeroed again"
    c.set_value(0, 5.0)
    both.set_value(255, 1.0)
    assert c.get_value(0) == 5.0 and c.device is device
    with pytest.raises(TypeError, match="allocate"):
        sw.BlockDeviceCarrier()
    with pytest.raises(ValueError, match="power of two"):
        sw.BlockDevice(tmp_path / "x", block_size=1000)


def test_block_writes_from_several_threads_do_not_tear(tmp_path):
    device = sw.BlockDevice(tmp_path / "disk", block_size=512)
    carrier = device.allocate(1024, dtype=sw.UInt8)

    def write(k):
        for _ in range(50):
            carrier.store_bytes(k * 64, memoryview(bytes([k]) * 64))

    threads = [threading.Thread(target=write, args=(k,)) for k in range(16)]
    [t.start() for t in threads], [t.join() for t in threads]
    data = bytearray(1024)
    carrier.load_bytes(0, memoryview(data))
    assert data == b"".join(bytes([k]) * 64 for k in range(16)), "neighbours share blocks and both survive"


def test_evictable_moves_whole_and_frees_the_tier_it_left():
    primary, secondary = sw.tensor([1.0, 2.0, 3.0]).carrier, sw.FileBacked(None, 0)
    carrier = sw.Evictable(primary, secondary)
    tensor = sw.Tensor(carrier, 0, sw.Layout(3))
    version = carrier.version
    assert not carrier.is_evicted() and primary.is_owned() and secondary.is_owned()
    for _ in range(2):
        carrier.evict()
        assert carrier.is_evicted() and primary.size() == 0 and secondary.size() == 3
    assert tensor.tolist() == [1.0, 2.0, 3.0]
    carrier.set_value(0, 9.0)
    for _ in range(2):
        carrier.promote()
        assert not carrier.is_evicted() and primary.size() == 3 and secondary.size() == 0
    assert tensor.tolist() == [9.0, 2.0, 3.0] and carrier.version == version + 1
    carrier.release()
    assert primary.is_released() and secondary.is_released()
    for use in (carrier.evict, carrier.promote):
        with pytest.raises(RuntimeError, match="released"):
            use()


def test_every_fault_in_a_transition_leaves_the_evictable_as_it_was():
    carrier = sw.Evictable(sw.tensor([1.0, 2.0]).carrier, sw.FileBacked(None, 0))
    tensor = sw.Tensor(carrier, 0, sw.Layout(2))
    for transition, evicted in ((carrier.evict, False), (carrier.promote, True)):

        def as_before(evicted=evicted):
            assert carrier.is_evicted() is evicted and tensor.tolist() == [1.0, 2.0] and carrier.version == 0

        assert sweep(transition, as_before) >= 3
    with fail_at(1, "copy", error=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        carrier.evict()
    carrier.evict()
    assert tensor.tolist() == [1.0, 2.0]


def test_evictable_refuses_bad_tiers():
    def cpu(n=2, **kw):
        return sw.CPU(n, **kw)

    one = cpu()
    gone = cpu()
    gone.release()
    cases = [
        (("x", cpu(0)), TypeError),
        ((one, one), TypeError),
        ((sw.FileBacked(None, 2), cpu(0)), TypeError),
        ((cpu(), cpu(0, dtype=sw.Int32)), TypeError),
        ((cpu(), sw.Evictable(cpu(), cpu(0))), TypeError),
        ((gone, cpu(0)), RuntimeError),
        ((cpu(mutable=False), cpu(0)), RuntimeError),
        ((cpu(0), cpu(0)), ValueError),
        ((cpu(2), cpu(3)), ValueError),
    ]
    for tiers, error in cases:
        with pytest.raises(error):
            sw.Evictable(*tiers)
        assert not any(isinstance(t, sw.Carrier) and t.is_owned() for t in tiers)
    owned = cpu(0)
    sw.Evictable(cpu(), owned)
    mine = cpu()
    with pytest.raises(RuntimeError, match="owned"):
        sw.Evictable(mine, owned)
    assert not mine.is_owned()


def test_eviction_waits_for_nobody_but_refuses_while_a_move_reads():
    from strideweave.testing import gated

    carrier = sw.Evictable(sw.tensor([1.0, 2.0]).carrier, sw.Generic())
    with gated() as gate:
        handle = sw.move_async(sw.Tensor(carrier, 0, sw.Layout(2)), sw.CPU(0))
        with pytest.raises(RuntimeError, match="wait"):
            carrier.evict()
        gate.open()
        assert handle.wait().tolist() == [1.0, 2.0]
    carrier.evict()
    assert carrier.is_evicted()


def test_a_missing_disk_is_a_clean_fault(tmp_path):
    carrier = sw.FileBacked(tmp_path / "f", 2)
    with fail_at(1, "write"), pytest.raises(Fault):
        carrier.set_value(0, 1.0)
    assert carrier.version == 0 and carrier.get_value(0) == 0.0
    carrier.set_value(0, 1.0)
    assert carrier.version == 1
