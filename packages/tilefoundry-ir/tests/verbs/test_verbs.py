"""The verbs over a back end of the test's own. Oracle: what that back end recorded, and texts of programs."""

from __future__ import annotations

import threading
import traceback
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from tilefoundry import CompilerOptions, CpuTarget, CudaTarget, build, compile, func, jit, lower, module
from tilefoundry.dsl import DimVar, Mesh, Tensor, Topology, prim_func, tf
from tilefoundry.inspection import as_script
from tilefoundry.ir.core.module import Module
from tilefoundry.ir.errors import LoweringError
from tilefoundry.ir.passes import InlineCalls, RemoveDeadCode
from tilefoundry.target import Target
from tilefoundry.verbs import backends

N = DimVar("N", 1, 100)


@prim_func
def done(x: Tensor[(4,), "f32"], y: Tensor[(4,), "f32"]):
    for i in range(4):
        y[i] = x[i]


class ToPrim:
    """Stands for a back end's own passes: whatever comes becomes one prim function."""

    def run(self, module: Module) -> Module:
        return Module(module.name, (done,), "done", topologies=module.topologies)


class Recorder:
    """A back end that builds nothing and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, object]] = []
        self.gate: threading.Event | None = None
        self.known: dict[str, object] = {}

    def resolve(self, target: Target) -> Target:
        return CpuTarget("x86-64-v3") if target == CpuTarget("native") else target

    def pipeline(self, target, options):
        return (InlineCalls(), RemoveDeadCode(), ToPrim())

    def emit(self, lowered, target, options):
        if self.gate is not None:
            assert self.gate.wait(30)
        self.asked.append(("emit", target))
        return ("source", lowered, target)

    def link(self, linkable, options):
        self.asked.append(("link", options))
        return ("library", linkable)

    def recall(self, program, target, options):
        return self.known.get(program)

    def remember(self, program, linked, target, options):
        self.known[program] = linked

    def load(self, linked):
        self.asked.append(("load", linked[0]))
        return SimpleNamespace(target=linked[1][2])


@pytest.fixture(autouse=True)
def backend(monkeypatch):
    recorder = Recorder()
    point = SimpleNamespace(load=lambda: recorder)
    monkeypatch.setattr(backends, "_point", {"cpu": point}.get)
    monkeypatch.setattr(backends, "_loaded", lambda point: point.load())
    jit.cache_clear()
    yield recorder
    jit.cache_clear()


@func
def f(x: Tensor[(4,), "f32"]) -> Tensor[(4,), "f32"]:
    _ = tf.exp(x)
    return x + 1.0


@pytest.mark.spec("verbs.stages")
def test_compile_is_lower_emit_link_load(backend):
    options = CompilerOptions(opt_level=1)
    made = compile(f, target="cpu", options=options)
    assert backend.asked == [("emit", CpuTarget("x86-64-v3")), ("link", options), ("load", "library")]
    assert made.target == CpuTarget("x86-64-v3")


@pytest.mark.spec("verbs.stages")
def test_lower_gives_prim_functions_that_carry_the_resolved_target():
    lowered = lower(f, target="cpu")
    assert lowered.functions == (done,) and lowered.target == CpuTarget("x86-64-v3")
    assert build(lowered).target == CpuTarget("x86-64-v3")
    with pytest.raises(LoweringError, match=r"build takes what lower\(\) gives; .* call compile\(\)"):
        build(Module("f", (f,), "f"))


@pytest.mark.spec("verbs.print-after")
def test_every_stage_is_shown_on_request(capsys):
    lower(f, target="cpu")
    assert capsys.readouterr().out == ""
    lower(f, target="cpu", print_after=True)
    shown = capsys.readouterr().out
    parts = [part.split("\n", 1) for part in shown.split("# after ")[1:]]
    assert [name for name, _ in parts] == ["InlineCalls", "RemoveDeadCode", "ToPrim"]
    assert ["tf.exp" in text for _, text in parts] == [True, False, False]
    assert parts[2][1].strip() == as_script(Module("f", (done,), "done")).strip()
    lower(f, target="cpu", print_after="RemoveDeadCode")
    assert capsys.readouterr().out.count("# after ") == 1
    lower(f, target="cpu", print_after=("InlineCalls", "ToPrim"))
    assert capsys.readouterr().out.count("# after ") == 2


@pytest.mark.spec("verbs.print-after")
def test_a_pass_that_does_not_run_is_refused(backend):
    with pytest.raises(
        ValueError, match=r"no pass is called Fuse; this target runs InlineCalls, RemoveDeadCode"
    ):
        lower(f, target="cpu", print_after=("Fuse",))


@pytest.mark.spec("verbs.refusals")
def test_a_refusal_is_shown_without_the_frames_that_found_it(monkeypatch):
    """Oracle: the traceback as it is printed. What is no refusal keeps its frames."""
    problem: list[Exception] = [LoweringError("f: no such thing; write another")]

    def deep(depth: int) -> None:
        if depth:
            deep(depth - 1)
        try:
            raise KeyError("internal")
        except KeyError as error:
            raise problem[0] from error

    monkeypatch.setattr(ToPrim, "run", lambda self, module: deep(20))
    for verb in (lower, compile, jit):
        with pytest.raises(LoweringError) as caught:
            verb(f, target="cpu")
        lines = "".join(traceback.format_exception(caught.value)).splitlines()
        assert lines[-1].endswith("LoweringError: f: no such thing; write another")
        assert len(lines) < 20 and not any("in deep" in line or "internal" in line for line in lines)
    problem[0] = RuntimeError("a fault of a pass")
    with pytest.raises(RuntimeError) as caught:
        jit(f, target="cpu")
    assert "in deep" in "".join(traceback.format_exception(caught.value))


@pytest.mark.spec("verbs.no-compiler")
def test_without_a_compiler_the_wheel_is_named(monkeypatch):
    monkeypatch.setattr(backends, "_points", dict)
    monkeypatch.setattr(backends, "_point", lambda kind: None)
    for verb in (lower, compile, jit):
        with pytest.raises(
            LoweringError, match=r"'cpu' \(there are: none\); .* pip install tilefoundry-cuda"
        ):
            verb(f, target="cpu")


@pytest.mark.spec("jit.input")
def test_python_functions_and_other_things_are_refused():
    def raw(x):
        return x

    for verb in (lower, compile, jit):
        with pytest.raises(TypeError, match=r"raw is a Python function, .* decorate it with @func"):
            verb(raw, target="cpu")
        with pytest.raises(TypeError, match="a Function or a Module is compiled, got int"):
            verb(3, target="cpu")
        with pytest.raises(ValueError, match="module 'M' has no entry; functions: f; children: none"):
            verb(Module("M", (f,)), target="cpu")


def test_help_is_about_the_call():
    assert "fn_or_mod" in (jit.__doc__ or "") and "Raises:" in (jit.__doc__ or "")


@pytest.mark.spec("jit.input")
def test_options_of_another_kind_are_refused_by_every_verb(backend):
    lowered = lower(f, target="cpu")
    asked = len(backend.asked)
    for bad in ({"opt_level": 2}, "", 0, 3):
        for verb in (lower, compile, jit):
            with pytest.raises(TypeError, match=r"expected CompilerOptions or None, got .*; write options="):
                verb(f, target="cpu", options=bad)
        with pytest.raises(TypeError, match="expected CompilerOptions or None"):
            build(lowered, options=bad)
    assert len(backend.asked) == asked


@pytest.mark.spec("jit.target")
def test_targets_are_names_or_records_and_agree_with_the_declared_one(monkeypatch):
    assert jit(f, target=CpuTarget("x86-64-v2")).target == CpuTarget("x86-64-v2")
    declared = Module("M", (f,), "f", target=CpuTarget("x86-64-v2"))
    for target in ("cpu", CpuTarget("x86-64-v2")):
        assert jit(declared, target=target).target == CpuTarget("x86-64-v2")
    assert jit(declared).target == CpuTarget("x86-64-v2")
    for target, shown in (("cuda", "cuda"), (CpuTarget("x86-64-v4"), r"CpuTarget\(\"x86-64-v4\"\)")):
        with pytest.raises(
            ValueError, match=rf"'M' declares the target CpuTarget\(\"x86-64-v2\"\), but {shown} was"
        ):
            jit(declared, target=target)
    with pytest.raises(ValueError, match='unknown target \'tpu\'; give "cpu", "cuda" or a Target'):
        jit(f, target="tpu")
    with pytest.raises(TypeError, match='target is "cpu", "cuda" or a Target, got int'):
        jit(f, target=3)


@pytest.mark.spec("jit.cuda-without-gpu")
def test_without_a_gpu_the_default_names_a_chip_to_compile_for(monkeypatch):
    monkeypatch.setattr(
        "tilefoundry.target.cuda._current_capability", lambda: "torch sees no usable NVIDIA GPU"
    )
    for call in (lambda: jit(f), lambda: lower(f), lambda: jit(f, target="cuda")):
        with pytest.raises(RuntimeError, match=r"torch sees no .* target=CudaTarget\(\"nvidia.h200_sxm\"\)"):
            call()


@pytest.mark.spec("jit.cuda-current")
def test_cuda_means_the_architecture_of_the_current_device(monkeypatch):
    for capability, arch in (((9, 0), "sm_90a"), ((8, 6), "sm_86"), ((10, 0), "sm_100a")):
        monkeypatch.setattr("tilefoundry.target.cuda._current_capability", lambda c=capability: c)
        assert CudaTarget.current().arch == arch
    assert CudaTarget("nvidia.h200_sxm").arch == CudaTarget("sm_90a").arch == "sm_90a"


def program(factor: float, *, inner: float = 1.0, mesh: int = 4, levels=(Topology("cta", 8),)):
    @module(entry="run", topologies=levels)
    class M:
        @module(entry="g")
        class child:
            @func
            def g(x: Tensor[(8,), "f32"]) -> Tensor[(8,), "f32"]:
                return x * inner

        @func
        def helper(x: Tensor[(8,), "f32"]) -> Tensor[(8,), "f32"]:
            return x * factor

        @func
        def run(x: Tensor[(8,), "f32"]) -> Tensor[(8,), "f32"]:
            with Mesh(("cta",), (mesh, 8 // mesh), ("a", "b")) as c:
                y = tf.reshard(helper(x), (8 @ c.a,), "gmem")
            return child(y)

    return M


@pytest.mark.spec("jit.cache")
def test_equal_programs_share_one_build_and_everything_reachable_counts():
    first = jit(program(2.0), target="cpu")
    assert jit(program(2.0), target="cpu") is first and jit.cache_info() == {"size": 1}
    others = [
        jit(program(3.0), target="cpu"),
        jit(program(2.0, inner=5.0), target="cpu"),
        jit(program(2.0, mesh=8), target="cpu"),
        jit(program(2.0, levels=(Topology("cta", 8), Topology("thread", 32))), target="cpu"),
        jit(program(2.0), target=CpuTarget("x86-64-v2")),
        jit(program(2.0), target="cpu", options=CompilerOptions(opt_level=0)),
    ]
    assert len({id(made) for made in (first, *others)}) == 7 and jit.cache_info() == {"size": 7}
    jit.cache_clear()
    assert jit.cache_info() == {"size": 0}
    assert jit(program(2.0), target="cpu") is not first


@pytest.mark.spec("jit.cache-effective-levels")
def test_one_child_under_two_owners_has_two_keys():
    child = Module("c", (f,), "f")
    under = [Module("M", modules=(child,), topologies=(Topology("cta", n),)).c for n in (4, 8)]
    assert under[0] == under[1]
    assert jit(under[0], target="cpu") is not jit(under[1], target="cpu")


@pytest.mark.spec("jit.single-flight")
def test_threads_that_ask_for_one_program_wait_for_one_build(backend):
    backend.gate = threading.Event()
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(jit, program(2.0), target="cpu") for _ in range(8)]
        backend.gate.set()
        made = [one.result(30) for one in asked]
    assert all(one is made[0] for one in made)
    assert [what for what, _ in backend.asked].count("emit") == 1


@pytest.mark.spec("jit.failure-is-not-kept")
def test_a_failed_build_is_tried_again(backend, monkeypatch):
    monkeypatch.setattr(backend, "link", lambda linkable, options: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        jit(f, target="cpu")
    monkeypatch.undo()
    assert jit.cache_info() == {"size": 0}
