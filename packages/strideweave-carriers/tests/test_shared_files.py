"""Carriers whose slots are bytes of one file. Oracle: sets of (file, byte) spelled out."""

from __future__ import annotations

import os
import random

import pytest

import strideweave as sw
from strideweave.carriers.extents import Extent, overlap


def test_overlap_is_what_sets_of_bytes_say(tmp_path):
    """Random extents of two files, one of them opened under two names."""
    (tmp_path / "a").write_bytes(bytes(40))
    (tmp_path / "b").write_bytes(bytes(40))
    os.link(tmp_path / "a", tmp_path / "c")
    fds = {name: os.open(tmp_path / name, os.O_RDONLY) for name in "abc"}
    real = {"a": 0, "b": 1, "c": 0}
    rng, seen = random.Random(11), set()
    try:
        for _ in range(2000):
            given, sets = [], []
            for _ in range(2):
                parts, taken = [], set()
                for _ in range(rng.randrange(4)):
                    name, begin, length = rng.choice("abc"), rng.randrange(30), rng.randrange(6)
                    parts.append(Extent(fds[name], name, begin, length))
                    taken |= {(real[name], begin + k) for k in range(length)}
                given.append(tuple(parts))
                sets.append(taken)
            expected = bool(sets[0] & sets[1])
            seen.add(expected)
            assert overlap(*given) == expected, given
    finally:
        for fd in fds.values():
            os.close(fd)
    assert seen == {True, False}


def pairs(path):
    """Pairs of carriers and whether they share bytes."""
    whole = sw.FileBacked(path, mutable=False)
    link = path.with_name("link")
    link.symlink_to(path)
    front = sw.FileBacked.from_extents([(path, 0, 16)], sw.Float32)
    back = sw.FileBacked.from_extents([(link, 16, 16)], sw.Float32)
    blocks = sw.BlockDevice(path, block_size=512, direct=False).allocate(4, empty=True)
    yield whole, sw.FileBacked(link), True
    yield whole, back, True
    yield front, back, False
    yield front, blocks, True
    yield whole, sw.FileBacked(None, 8), False
    yield whole, sw.CPU(8), False


def test_carriers_of_one_file_share_storage(tmp_path):
    path = tmp_path / "values"
    path.write_bytes(bytes(32))
    for one, other, expected in pairs(path):
        assert one.shares_storage(other) == other.shares_storage(one) == expected, (one, other)


def test_tiers_of_one_file_are_refused_and_stay_free(tmp_path):
    path = tmp_path / "values"
    path.write_bytes(bytes(32))
    first, second = sw.FileBacked(path, mutable=False), sw.FileBacked(path)
    with pytest.raises(RuntimeError, match="shares storage with the secondary"):
        sw.TiledEvictable(sw.CPU(0), first, (4,), (2,), overlay=second)
    assert not first.is_owned() and not second.is_owned()
    assert path.read_bytes() == bytes(32)


def test_a_move_within_one_file_is_refused(tmp_path):
    path = tmp_path / "values"
    path.write_bytes(bytes(range(32)))
    source = sw.Tensor(sw.FileBacked(path, mutable=False), 0, sw.Layout(4))
    with pytest.raises(RuntimeError, match="share storage"):
        sw.move(source, sw.FileBacked(path))
    assert path.read_bytes() == bytes(range(32))
