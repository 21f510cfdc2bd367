"""Outputs that are an input with one window replaced. Oracles: the evaluator, and memory that must not be written."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest
import torch

from tilefoundry import CudaTarget, func, jit, lower
from tilefoundry.codegen.cpu.inplace import INPLACE
from tilefoundry.dsl import DimVar, DimVarRangePat, Tensor, tf
from tilefoundry.evaluator import evaluate
from tilefoundry.ir.errors import EvaluationError
from tilefoundry.target import CpuTarget

TARGETS = [CpuTarget(), CudaTarget("nvidia.h200_sxm")]
L = DimVar("L", 1, 1000)


@func
def insert(
    x: Tensor[(L, 6), "f32"], u: Tensor[(2, 3), "f32"], at: Tensor[(), "i32"]
) -> tuple[Tensor[(L, 6), "f32"], Tensor[(L,), "f32"]]:
    total = tf.reduce(x, axes=(1,), keepdim=False, kind="sum")
    return tf.insert_slice(x, u, (at, 2)), total


@func
def update(
    cache: Tensor[(2, L, 3, 4), "bf16"],
    pos: Tensor[(), "i32"],
    s: Tensor[(), "i32"],
    new: Tensor[(2, 2, 3, 4), "bf16"],
) -> Tensor[(2, L, 3, 4), "bf16"]:
    return tf.cache_update(cache, pos, s, new + new)


@func
def rows(x: Tensor[(L, 5), "i32"], i: Tensor[(3,), "i64"], u: Tensor[(3, 5), "i32"]) -> Tensor[(L, 5), "i32"]:
    return tf.index_copy(x, i, u, dim=0)


CASES = [
    (insert, (torch.randn(9, 6), torch.randn(2, 3), torch.tensor(4, dtype=torch.int32))),
    (
        update,
        (
            torch.randn(2, 8, 3, 4).bfloat16(),
            torch.tensor(5, dtype=torch.int32),
            torch.tensor(1, dtype=torch.int32),
            torch.randn(2, 2, 3, 4).bfloat16(),
        ),
    ),
    (
        rows,
        (
            torch.arange(45, dtype=torch.int32).reshape(9, 5),
            torch.tensor([7, 0, 7]),
            torch.arange(15, dtype=torch.int32).reshape(3, 5) - 100,
        ),
    ),
]


@pytest.mark.parametrize("program,inputs", CASES, ids=lambda value: getattr(value, "name", ""))
@pytest.mark.spec("inplace.window")
def test_the_identical_tensor_is_updated_and_a_fresh_output_leaves_it_alone(program, inputs):
    compiled = jit(program, target="cpu")
    assert compiled.type.inplace == ((0, 0),)
    wanted = evaluate(program, *inputs)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    before = inputs[0].clone()
    fresh = compiled(*inputs)
    assert torch.equal(inputs[0], before)
    state = before.clone()
    outputs = (state, *(torch.empty_like(w) for w in wanted[1:]))
    compiled(state, *inputs[1:], *outputs)
    for got in (fresh if isinstance(fresh, tuple) else (fresh,), outputs):
        for one, want in zip(got, wanted, strict=True):
            torch.testing.assert_close(one, want)
    assert torch.equal(outputs[0], wanted[0])


@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize("program", [insert, update, rows], ids=lambda f: f.name)
@pytest.mark.spec("inplace.recorded")
def test_both_targets_record_the_pair(program, target):
    assert lower(program, target=target).metadata[INPLACE] == ((0, 0),)


@pytest.mark.spec("inplace.otherwise")
def test_other_overlap_is_refused_before_anything_is_written():
    compiled = jit(rows, target="cpu")
    memory = torch.arange(60, dtype=torch.int32)
    x, shifted = memory[:45].view(9, 5), memory[5:50].view(9, 5)
    index, u = torch.tensor([1, 2, 3]), torch.zeros(3, 5, dtype=torch.int32)
    with pytest.raises(ValueError, match="rows: output overlaps the memory of x"):
        compiled(x, index, u, shifted)
    # The update must not lie in the output either, identical or not.
    with pytest.raises(ValueError, match="rows: output overlaps the memory of u"):
        compiled(x, index, memory[15:30].view(3, 5), x)
    assert torch.equal(memory, torch.arange(60, dtype=torch.int32))


@func
def read_after(
    x: Tensor[(8, 4), "f32"], u: Tensor[(1, 4), "f32"]
) -> tuple[Tensor[(8, 4), "f32"], Tensor[(8, 4), "f32"]]:
    changed = tf.insert_slice(x, u, (3, 0))
    return changed, tf.softmax(changed) + x


@func
def shifted(x: Tensor[(8, 4), "f32"]) -> Tensor[(8, 4), "f32"]:
    return tf.insert_slice(x, x[2:4, :], (3, 0))


@func
def twice(x: Tensor[(8, 4), "f32"], u: Tensor[(1, 4), "f32"]) -> Tensor[(8, 4), "f32"]:
    return tf.insert_slice(tf.insert_slice(x, u, (3, 0)), u, (5, 0))


@func
def computed(x: Tensor[(8, 4), "f32"], u: Tensor[(1, 4), "f32"]) -> Tensor[(8, 4), "f32"]:
    return tf.insert_slice(x * 2.0, u, (3, 0))


@func
def turned(x: Tensor[(4, 8), "f32"], u: Tensor[(1, 4), "f32"]) -> Tensor[(8, 4), "f32"]:
    return tf.insert_slice(tf.transpose(x, (1, 0)), u, (3, 0))


@func
def part(x: Tensor[(9, 4), "f32"], u: Tensor[(1, 4), "f32"]) -> Tensor[(8, 4), "f32"]:
    return tf.insert_slice(x[0:8, :], u, (3, 0))


@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize(
    "program", [read_after, shifted, twice, computed, turned, part], ids=lambda f: f.name
)
@pytest.mark.spec("inplace.recorded")
def test_what_reads_the_input_otherwise_is_no_pair(program, target):
    assert lower(program, target=target).metadata[INPLACE] == ()


@pytest.mark.spec("inplace.otherwise")
def test_without_a_pair_the_identical_tensor_is_refused():
    x = torch.randn(8, 4)
    with pytest.raises(ValueError, match="shifted: output overlaps the memory of x"):
        jit(shifted, target="cpu")(x, x)


@func
def chosen(x: Tensor[(L, 4), "f32"], u: Tensor[(1, 4), "f32"]) -> Tensor[(L, 4), "f32"]:
    pass


@chosen.specialize(DimVarRangePat("L", 1, 8))
def short(x: Tensor[(L, 4), "f32"], u: Tensor[(1, 4), "f32"]) -> Tensor[(L, 4), "f32"]:
    return x + u


@chosen.specialize(DimVarRangePat("L", 8, 1000))
def long(x: Tensor[(L, 4), "f32"], u: Tensor[(1, 4), "f32"]) -> Tensor[(L, 4), "f32"]:
    return tf.insert_slice(x, u, (3, 0))


@pytest.mark.spec("inplace.recorded")
def test_a_pair_holds_in_every_variant_or_not_at_all():
    assert lower(chosen, target="cpu").metadata[INPLACE] == ()
    x, u = torch.randn(9, 4), torch.randn(1, 4)
    torch.testing.assert_close(jit(chosen, target="cpu")(x, u), evaluate(chosen, x, u))


@pytest.mark.spec("inplace.window")
def test_only_the_window_is_written():
    # Oracle: every page of the cache outside the window is write-protected while the call runs.
    script = """
        import ctypes, mmap
        import torch
        from tilefoundry import func, jit
        from tilefoundry.dsl import Tensor, tf

        @func
        def step(cache: Tensor[(1, 16, 8, 128), "f32"], pos: Tensor[(), "i32"], s: Tensor[(), "i32"],
                 new: Tensor[(1, 1, 8, 128), "f32"]) -> Tensor[(1, 16, 8, 128), "f32"]:
            return tf.cache_update(cache, pos, s, new)

        compiled = jit(step, target="cpu")
        memory = mmap.mmap(-1, 16 * 4096)
        cache = torch.frombuffer(memory, dtype=torch.float32).view(1, 16, 8, 128)
        cache.fill_(1.0)
        libc = ctypes.CDLL(None, use_errno=True)
        protect = lambda page, count, mode: libc.mprotect(
            ctypes.c_void_p(cache.data_ptr() + 4096 * page), ctypes.c_size_t(4096 * count), mode)
        assert protect(0, 5, mmap.PROT_READ) == 0 and protect(6, 10, mmap.PROT_READ) == 0
        new = torch.full((1, 1, 8, 128), 7.0)
        pos, s = torch.tensor(5, dtype=torch.int32), torch.tensor(1, dtype=torch.int32)
        compiled(cache, pos, s, new, cache)
        assert (cache[:, 5] == 7).all() and (cache[:, :5] == 1).all() and (cache[:, 6:] == 1).all()
        print("done")
    """
    done = subprocess.run(
        [sys.executable, "-c", _as_file(script)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and done.stdout.strip() == "done", (done.returncode, done.stderr[-2000:])


def _as_file(script: str) -> str:
    """A program that writes ``script`` to a file and runs it from there: the DSL reads source text."""
    text = textwrap.dedent(script)
    return (
        "import runpy, tempfile, pathlib\n"
        f"path = pathlib.Path(tempfile.mkdtemp()) / 'script.py'\npath.write_text({text!r})\n"
        "runpy.run_path(str(path), run_name='__main__')\n"
    )


FAR = [2**63 - 1, 2**63 - 2, -(2**63), -1, 10]


@func
def put(x: Tensor[(L, 6), "f32"], u: Tensor[(2, 3), "f32"], at: Tensor[(), "i64"]) -> Tensor[(L, 6), "f32"]:
    return tf.insert_slice(x, u, (at, 2))


@func
def keep(
    cache: Tensor[(2, L, 3, 4), "f32"],
    pos: Tensor[(), "i64"],
    s: Tensor[(), "i64"],
    new: Tensor[(2, 2, 3, 4), "f32"],
) -> Tensor[(2, L, 3, 4), "f32"]:
    return tf.cache_update(cache, pos, s, new)


@func
def cut(x: Tensor[(L, 6), "f32"], at: Tensor[(), "i64"]) -> Tensor[(2, 6), "f32"]:
    return tf.slice(x, at, starts=(None, 0), sizes=(2, 6))


@pytest.mark.parametrize("start", FAR)
@pytest.mark.spec("inplace.otherwise")
def test_a_start_whose_window_wraps_is_refused_and_writes_nothing(start):
    at, rows_of_six = torch.tensor(start), torch.randn(9, 6)
    for program, x, rest in (
        (put, rows_of_six, (torch.zeros(2, 3),)),
        (keep, torch.randn(2, 9, 3, 4), (torch.tensor(2), torch.zeros(2, 2, 3, 4))),
        (cut, rows_of_six, ()),
    ):
        before = x.clone()
        args = (x, *rest, at) if program is put else (x, at, *rest)
        with pytest.raises(EvaluationError):
            evaluate(program, *args)
        compiled = jit(program, target="cpu")
        with pytest.raises(ValueError, match="leaves its"):
            compiled(*args, *((x,) if compiled.type.inplace else ()))
        assert torch.equal(x, before)
