"""What handles of every kind give, from any thread, and that they are no Tensor. Oracle: identity of what they give."""

from __future__ import annotations

import threading

import pytest
from expert_tiles import choose, tiles

import strideweave as sw
from strideweave import seam
from strideweave.carriers.tiled_evictable import Bundle
from strideweave.testing import Fault

KINDS = {
    "project": lambda made, piece: made.carrier.project(made.tensor, choose(1, 0)),
    "scatter": lambda made, piece: made.carrier.scatter(piece, made.tensor, choose(1, 0)),
    "update": lambda made, piece: made.carrier.update(choose(1, 0), piece),
    "promote": lambda made, piece: made.carrier.promote_async(tiles(1, 0)),
    "bundle": lambda made, piece: Bundle([made.carrier]).promote_async(tiles(1, 0)),
    "move": lambda made, piece: sw.move_async(piece, sw.CPU(0)),
}


def links(error):
    """How long the traceback of ``error`` is."""
    count, link = 0, error.__traceback__
    while link is not None:
        count, link = count + 1, link.tb_next
    return count


@pytest.mark.spec("A32", "A42", "PRJ.repeat")
@pytest.mark.parametrize("kind", KINDS)
def test_a_failure_is_one_exception_for_every_wait_and_thread(tiled, kind):
    """Its traceback does not grow with the number of waits."""
    made, piece = tiled.make(), sw.ones((2, 3, 2))
    begun, go_on = threading.Event(), threading.Event()

    def late(call):
        if call in ("copy", "kernel"):
            begun.set()
            assert go_on.wait(60)
            raise Fault("injected fault")

    before = seam.install(late)
    try:
        handle = KINDS[kind](made, piece)
        assert begun.wait(10) and not handle.done
        go_on.set()
        with pytest.raises(Fault) as first:
            handle.wait()
    finally:
        go_on.set()
        seam.install(before)
    length, found = links(first.value), []

    def wait():
        for _ in range(5):
            try:
                handle.wait()
            except Fault as error:
                found.append((error, links(error)))

    threads = [threading.Thread(target=wait) for _ in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert len(found) == 20 and all(error is first.value for error, _ in found)
    assert max(n for _, n in found) <= length + 2 and handle.done
    wait()
    assert found[-1][1] <= length + 2


@pytest.mark.spec("A45", "OPS.handles")
@pytest.mark.parametrize("kind", KINDS)
def test_no_handle_is_an_operand_or_an_argument(tiled, kind):
    made, piece, other = tiled.make(), sw.ones((2, 3, 2)), tiled.make()
    handle = KINDS[kind](made, piece)
    assert isinstance(handle, sw.AwaitResult) and not isinstance(handle, sw.Tensor)
    plain = sw.ones((2, 3, 2))
    for call in (
        lambda: sw.relu(handle),
        lambda: sw.mul(handle, 2),
        lambda: sw.mul(2, handle),
        *(lambda f=f: f(handle, plain) for f in (sw.add, sw.mul, sw.elementwise_mul, sw.matmul)),
        *(lambda f=f: f(plain, handle) for f in (sw.add, sw.mul, sw.elementwise_mul, sw.matmul)),
        lambda: sw.reduce_sum(handle, "a b -> a"),
        lambda: plain + handle,
        lambda: sw.move(handle, sw.CPU(0)),
        lambda: other.carrier.project(handle, choose(0)),
        lambda: other.carrier.scatter(handle, other.tensor, choose(0, 1)),
        lambda: other.carrier.scatter(plain, handle, choose(0, 1)),
        lambda: other.carrier.update(choose(0, 1), handle),
        lambda: sw.relu(plain).backward(handle),
    ):
        with pytest.raises(TypeError, match=r"wait\(\)"):
            call()
    assert not hasattr(handle, "__await__")
    handle.wait()
