"""Plans: values die at their last use, literals round once, errors say where, threads do not meet."""

from __future__ import annotations

import gc
import threading
import weakref

import pytest
import torch

from tilefoundry import evaluate
from tilefoundry.evaluator.plan import plan_of
from tilefoundry.ir.core.expr import Bind, Block, Carry, Constant, For, Var
from tilefoundry.ir.core.op import Op
from tilefoundry.ir.errors import EvaluationError
from tilefoundry.ir.hir import HIR_OPS
from tilefoundry.ir.hir.function import Function
from tilefoundry.ir.types import TensorType, scalar

F32 = TensorType((4,), "f32")


class Census:
    """Counts the results of its op that are alive at once."""

    def __init__(self) -> None:
        self.alive: list[weakref.ref] = []
        self.peak = 0

    def op(self, arity: int) -> Op:
        def evaluate_counted(ctx, values, attrs):
            out = sum(values) + 1.0
            self.alive = [ref for ref in self.alive if ref() is not None] + [weakref.ref(out)]
            self.peak = max(self.peak, len(self.alive))
            return out

        return Op("counted", ("x",) * arity, lambda types, attrs: types[0], evaluate_counted)


def chain(census: Census, length: int) -> tuple[list[Bind], Var, Var]:
    x = Var(F32, "x")
    binds, last, op = [], x, census.op(1)
    for i in range(length):
        target = Var(F32, f"v{i}")
        binds.append(Bind(target, op.call((last,))))
        last = target
    return binds, x, last


def test_a_chain_keeps_two_values_alive():
    gc.disable()
    try:
        census = Census()
        binds, x, last = chain(census, 40)
        assert (
            evaluate(Function("f", (x,), F32, Block(tuple(binds), (last,))), torch.zeros(4)).tolist()
            == [40] * 4
        )
        assert census.peak == 2
    finally:
        gc.enable()


def test_dead_values_and_values_read_late():
    census = Census()
    x, a, unused, b, out = (Var(F32, n) for n in ("x", "a", "unused", "b", "out"))
    one, two = census.op(1), census.op(2)
    body = (
        Bind(a, one.call((x,))),
        Bind(unused, one.call((x,))),
        Bind(b, one.call((a,))),
        Bind(out, two.call((a, b))),
    )
    assert evaluate(Function("f", (x,), F32, Block(body, (out,))), torch.zeros(4)).tolist() == [4.0] * 4
    assert census.peak == 3


def test_loop_bodies_drop_their_values():
    census = Census()
    x, result, inner = Var(F32, "x"), Var(F32, "result"), Var(F32, "inner")
    last, binds = inner, []
    for i in range(10):
        target = Var(F32, f"v{i}")
        binds.append(Bind(target, census.op(2).call((last, x))))
        last = target
    loop = For(
        "range", Var(scalar("i64"), "i"), 0, 6, 1, (Carry(x, inner, result),), Block(tuple(binds), (last,))
    )
    got = evaluate(Function("f", (x,), F32, Block((loop,), (result,))), torch.zeros(4))
    assert got.tolist() == [60.0] * 4 and census.peak <= 3


def test_the_plan_is_made_once_per_body():
    binds, x, last = chain(Census(), 2)
    function = Function("f", (x,), F32, Block(tuple(binds), (last,)))
    first = plan_of(function, function.body)
    evaluate(function, torch.zeros(4))
    assert plan_of(function, function.body) is first
    function.body = Block(tuple(binds), (binds[0].target,))
    assert evaluate(function, torch.zeros(4)).tolist() == [1.0] * 4
    twin = Function("f", (x,), F32, Block(tuple(binds), (binds[0].target,)))
    assert function == twin and twin.plan is None


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (0.1, "f32", 0.10000000149011612),
        (0.1, "f64", 0.1),
        (0.1, "bf16", 0.10009765625),
        (1 + 2.0**-11 + 2.0**-40, "f16", 1 + 2.0**-10),
        (0.3, "fp8e4m3", 0.3125),
        (float("inf"), "f32", float("inf")),
    ],
)
def test_literals_round_once(value, dtype, expected):
    x, out = Var(scalar(dtype), "x"), Var(scalar(dtype), "out")
    call = HIR_OPS["add"].call((x, Constant(scalar(dtype), value)))
    function = Function("f", (x,), scalar(dtype), Block((Bind(out, call),), (out,)))
    zero = torch.zeros((), dtype=torch.float32).to(getattr(torch, x.type.dtype.torch_name))
    assert float(evaluate(function, zero)) == expected


def test_errors_carry_the_statement():
    x, i, out = Var(F32, "x"), Var(scalar("i64"), "i"), Var(TensorType((2,), "f32"), "window")
    call = HIR_OPS["slice"].call((x, i), {"starts": (None,), "sizes": (2,)})
    function = Function("f", (x, i), call.type, Block((Bind(out, call),), (out,)))
    with pytest.raises(EvaluationError, match="leaves the extent 4") as caught:
        evaluate(function, torch.zeros(4), torch.tensor(3))
    assert caught.value.__notes__ == ["in f, evaluating window"]


def test_a_loop_without_progress_is_refused():
    x, result, inner = Var(F32, "x"), Var(F32, "result"), Var(F32, "inner")
    loop = For("range", Var(scalar("i64"), "i"), 0, 6, 0, (Carry(x, inner, result),), Block((), (inner,)))
    with pytest.raises(EvaluationError, match="the loop over i has the step 0; 1 or more is needed"):
        evaluate(Function("f", (x,), F32, Block((loop,), (result,))), torch.zeros(4))


def test_a_base_without_bodies_is_refused():
    with pytest.raises(EvaluationError, match=r"f has no body and no variant; add one with @f.specialize"):
        evaluate(Function("f", (Var(F32, "x"),), F32, None), torch.zeros(4))


def test_threads_share_a_function():
    binds, x, last = [], Var(F32, "x"), Var(F32, "x")
    for k in range(30):
        target = Var(F32, f"v{k}")
        binds.append(Bind(target, HIR_OPS["add"].call((last, Constant(scalar("f32"), 1.0)))))
        last = target
    function = Function("f", (x,), F32, Block(tuple(binds), (last,)))
    wrong = []

    def work(seed: int) -> None:
        for _ in range(20):
            if evaluate(function, torch.full((4,), float(seed))).tolist() != [seed + 30.0] * 4:
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_function_without_tensors_runs_where_it_is_told():
    call = HIR_OPS["arange"].call((), {"end": 3})
    out = Var(call.type, "out")
    function = Function("f", (), call.type, Block((Bind(out, call),), (out,)))
    assert evaluate(function).device.type == "cpu"
    assert evaluate(function, device="meta").device.type == "meta"
