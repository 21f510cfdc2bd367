"""Memory that files are read into: used again when nobody can reach it any more, never before."""

import gc
import threading
import weakref
from collections import deque

import pytest
import torch

import strideweave as sw
from strideweave.carriers import pages
from strideweave.carriers.pages import KEPT, LARGEST, Pages
from strideweave.testing import Fault, fail_at

MIB = 1 << 20


@pytest.fixture(autouse=True)
def no_spare(monkeypatch):
    """A store of spare blocks that starts empty; ``Pages`` gives back to the one that it was made with."""
    spare = deque(maxlen=KEPT)
    monkeypatch.setattr(pages, "_spare", spare)
    monkeypatch.setattr(Pages.__del__, "__defaults__", (spare.append,))
    return spare


def file_of(path, fill, nbytes=MIB):
    path.write_bytes(bytes([fill]) * nbytes)
    return sw.Tensor(sw.FileBacked(path, mutable=False, dtype=sw.UInt8), 0, sw.Layout(nbytes))


def read(tensor):
    return sw.move(tensor, sw.CPU(0, dtype=sw.UInt8)).carrier


def test_memory_is_used_again_once_its_carrier_is_gone(tmp_path, no_spare):
    """Oracle: addresses, and the bytes of two files."""
    one, two = file_of(tmp_path / "one", 1), file_of(tmp_path / "two", 2)
    first = read(one)
    place = first.host_address()
    second = read(two)
    assert second.host_address() != place and first.get_value(MIB - 1) == 1
    del first
    gc.collect()
    third = read(two)
    assert third.host_address() == place and {third.get_value(i) for i in (0, MIB // 2, MIB - 1)} == {2}
    third.release()
    assert len(no_spare) == 1 and third.size() == 0
    with pytest.raises(RuntimeError, match="released"):
        third.get_value(0)


def test_memory_that_a_tensor_was_made_over_is_not(tmp_path, no_spare):
    """The tensor, and what shares its storage, outlives the carrier. Oracle: its bytes after more reads."""
    kept = sw.to_torch(sw.move(file_of(tmp_path / "one", 1), sw.CPU(0, dtype=sw.UInt8)))
    gc.collect()
    assert not no_spare
    others = [read(file_of(tmp_path / "two", 2)) for _ in range(KEPT)]
    assert bool((kept == 1).all()) and kept.data_ptr() not in {c.host_address() for c in others}


@pytest.mark.parametrize("source", ["move", "new carrier"])
def test_bytes_that_are_moved_on_leave_the_memory_free(tmp_path, no_spare, source):
    carrier = read(file_of(tmp_path / "one", 3, 2 * MIB))
    place = carrier.host_address()
    flat = sw.Tensor(carrier, 0, sw.Layout(2 * MIB))
    goal = sw.CPU(2 * MIB, dtype=sw.UInt8) if source == "move" else sw.CPU(0, dtype=sw.UInt8)
    assert sw.move(flat, goal).carrier.get_value(2 * MIB - 1) == 3
    del flat, carrier
    gc.collect()
    assert [block.address for block in no_spare] == [place]


def test_few_and_small_blocks_are_kept(no_spare):
    """At most ``KEPT``, of ``LARGEST`` bytes each: what a process holds beyond what it uses."""
    several = [Pages(MIB + k * 4096) for k in range(KEPT + 3)]
    del several
    sizes = {len(block.room) for block in no_spare}
    assert len(no_spare) == len(sizes) == KEPT and sizes < {MIB + k * 4096 for k in range(KEPT + 3)}
    del no_spare[0]
    spare = list(no_spare)
    Pages(LARGEST + 1)
    assert {block.address for block in no_spare} == {block.address for block in spare}
    again = Pages(len(spare[0].room))
    assert again.address == spare[0].address and len(no_spare) == KEPT - 2
    again.room[:] = bytes(len(again.room))


def test_a_read_that_fails_gives_its_memory_back(tmp_path, no_spare):
    tensor = file_of(tmp_path / "one", 1)
    for kind in ("allocate", "submit", "copy", "read"):
        with fail_at(1, kind), pytest.raises(Fault):
            sw.move(tensor, target := sw.CPU(0, dtype=sw.UInt8))
        assert target.size() == 0 and target.flat().numel() == 0 and target.version == 0
        gc.collect()
        assert len(no_spare) == (kind != "allocate")
        assert sw.move(tensor, target).carrier.get_value(7) == 1
        target.release()


@pytest.mark.parametrize("nbytes", [MIB, 70 * MIB])
def test_a_read_over_values_that_fails_at_any_call_leaves_them(tmp_path, no_spare, nbytes):
    """Oracle: the values and the version from before, whichever call of the move fails; then those of the file."""
    source = file_of(tmp_path / "new", 2, nbytes)
    target = sw.move(file_of(tmp_path / "old", 1, nbytes), sw.CPU(0, dtype=sw.UInt8)).carrier
    version, failed = target.version, 0
    while True:
        try:
            with fail_at(failed + 1):
                sw.move(source, target)
            break
        except Fault:
            failed += 1
        assert target.version == version
        assert target.get_value(0) == target.get_value(nbytes - 1) == 1
    assert failed >= 3  # room, submission, at least one read
    assert target.version > version
    assert target.get_value(0) == target.get_value(nbytes - 1) == 2


def test_threads_never_share_a_block(tmp_path):
    """Each thread reads its own file again and again. Oracle: its byte, at every place that is looked at."""
    files = [file_of(tmp_path / str(k), k) for k in range(6)]
    wrong, start = [], threading.Barrier(6)

    def work(k):
        start.wait(10)
        for turn in range(40):
            carrier = read(files[k])
            seen = {carrier.get_value(i) for i in range(turn, MIB, 262_139)}
            if seen != {k} or (turn % 8 == 0 and not bool((carrier.flat() == k).all())):
                wrong.append((k, seen))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    [t.start() for t in threads], [t.join(60) for t in threads]
    assert not wrong and not any(t.is_alive() for t in threads)


def test_a_file_that_is_closed_replaced_or_cut(tmp_path):
    """Reads go to the file that was opened, as long as it is open. Oracle: bytes, and the errors' words."""
    path = tmp_path / "data"
    tensor = file_of(path, 1)
    assert read(tensor).get_value(0) == 1
    path.unlink()
    path.write_bytes(bytes(MIB))
    assert read(tensor).get_value(MIB - 1) == 1
    cut = file_of(tmp_path / "cut", 2)
    assert read(cut).get_value(0) == 2
    with open(tmp_path / "cut", "r+b") as file:
        file.truncate(MIB - 5)
    with pytest.raises(OSError, match="ends at byte 1048571, 5 more"):
        sw.move(cut, target := sw.CPU(0, dtype=sw.UInt8))
    assert target.size() == 0 and cut.carrier.is_released() is False
    tensor.carrier.release()
    with pytest.raises(RuntimeError, match="released"):
        read(tensor)


def test_room_comes_and_goes_beside_a_thread_that_asks_for_the_tensor(tmp_path):
    """A carrier without slots gives everybody an empty tensor, and keeps none that would hide the bytes to come."""
    tensor = file_of(tmp_path / "one", 5)
    stop = threading.Event()
    carriers = [sw.CPU(0, dtype=sw.UInt8)]

    def ask():
        while not stop.is_set():
            assert carriers[0]._flat.numel() in (0, MIB)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        for _ in range(60):
            carriers[0] = fresh = sw.CPU(0, dtype=sw.UInt8)
            moved = sw.move(tensor, fresh).carrier
            assert moved.size() == moved.flat().numel() == MIB and torch.equal(
                moved.flat()[-1:], torch.tensor([5], dtype=torch.uint8)
            )
    finally:
        stop.set()
        thread.join(10)


def test_memory_that_a_read_replaces_goes_at_once(tmp_path):
    """Oracle: a weak reference to the tensor over it."""
    carrier = sw.CPU(MIB, dtype=sw.UInt8)
    assert not carrier.is_pinned()
    before = weakref.ref(carrier._flat)
    sw.move(file_of(tmp_path / "one", 1), carrier)
    gc.collect()
    assert before() is None and carrier.get_value(MIB - 1) == 1
