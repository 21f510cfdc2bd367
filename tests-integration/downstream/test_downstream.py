"""A serving package on the two wheels alone, in an empty environment. Oracle: the evaluator, run there and here.

The library that it serves is built here, where the compiler is.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

import tilefoundry
from tilefoundry.runtime import SafetensorsResource

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SERVING = HERE / "tiny-serving"
OWN = {"tilefoundry-ir", "tilefoundry-runtime", "tiny-serving"}
ALLOWED = OWN | {
    "apache-tvm-ffi",
    "scipy-openblas32",
    "numpy",
    "safetensors",
    "ml-dtypes",
    "tqdm",
    "typing-extensions",
}


def uv() -> str:
    found = shutil.which("uv") or str(ROOT / ".tools" / "uv" / "bin" / "uv")
    if not os.access(found, os.X_OK):
        pytest.skip("uv is not installed")
    return found


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """The prepared checkpoint and the saved library."""
    work = tmp_path_factory.mktemp("served")
    sys.path.insert(0, str(SERVING / "src"))
    try:
        from tiny_serving.model import VOCABULARY, WIDTH, TinyLM
    finally:
        sys.path.remove(str(SERVING / "src"))
    generator = torch.Generator().manual_seed(7)
    shapes = {
        "table": (VOCABULARY, WIDTH),
        "mixer.x_proj": (WIDTH, WIDTH),
        "mixer.w_c": (WIDTH, WIDTH),
        "mixer.gain": (WIDTH,),
    }
    (work / "raw").mkdir()
    raw = {key: torch.randn(shape, generator=generator) for key, shape in shapes.items()}
    save_file(raw, str(work / "raw" / "model.safetensors"))
    TinyLM.prepare(SafetensorsResource(str(work / "raw"), device="cpu"), str(work / "weights"))
    tilefoundry.jit(TinyLM, target="cpu").save(str(work / "library"))
    return work, TinyLM


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """An empty environment with the two wheels and the serving package; torch as locked, from the cache."""
    work, tool = tmp_path_factory.mktemp("environment"), uv()
    for package in ("tilefoundry-ir", "tilefoundry-runtime"):
        run(
            [tool, "build", "--quiet", "--wheel", "--package", package, "--out-dir", str(work / "dist")],
            cwd=ROOT,
        )
    run([tool, "build", "--quiet", "--wheel", "--out-dir", str(work / "dist"), str(SERVING)], cwd=work)
    run([tool, "venv", "--quiet", str(work / "env")], cwd=work)
    (work / "constraints.txt").write_text(f"torch=={torch.__version__.partition('+')[0]}\n")
    wheels = sorted(str(path) for path in (work / "dist").glob("*.whl"))
    install = [
        tool,
        "pip",
        "install",
        "--quiet",
        "--python",
        str(work / "env"),
        "--constraint",
        str(work / "constraints.txt"),
    ]
    run([*install, *wheels], cwd=work)
    return work / "env" / "bin" / "python"


def run(command: list[str], cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stderr[-3000:]}"
    return done.stdout


@pytest.mark.slow
def test_a_serving_package_needs_the_runtime_alone(served, environment, tmp_path):
    work, model = served
    text = run(
        [str(environment), "-m", "tiny_serving", str(work / "weights"), str(work / "library")], cwd=tmp_path
    )
    report = json.loads(text.splitlines()[-1])
    assert report["passed"] == {"twin": True, "library": True} and report["deterministic"]
    want = reference_tokens(model.load(SafetensorsResource(str(work / "weights"), device="cpu")))
    assert report["tokens"] == {"twin": want, "library": want}
    # No compiler, no headers, no CUDA toolkit but what torch brings.
    assert report["compiler"] is False
    assert set(report["installed"]) - set(report["torch_needs"]) <= ALLOWED
    site = environment.parents[1] / "lib"
    assert not [p for p in site.rglob("cute") if p.is_dir()] and not [
        p for p in site.rglob("cutlass") if p.is_dir()
    ]


def reference_tokens(reading) -> list[int]:
    """Greedy decoding by the evaluator, written out."""
    ids, cache = [1, 2, 3], torch.zeros(1, 16)
    for step in range(len(ids) + 8 - 1):
        logits, new = reading(torch.tensor(ids[step : step + 1]), cache)
        cache = torch.cat((cache, new))
        if step + 1 >= len(ids):
            ids.append(int(logits.argmax()))
    return ids


def test_a_compiled_twin_of_the_whole_model_runs_here(served):
    from tilefoundry.runtime import RelL2, check, compiled_twin

    work, model = served
    source = SafetensorsResource(str(work / "weights"), device="cpu")
    twin, reading = compiled_twin(model, target="cpu")(), model.load(source)
    twin.load(source)
    inputs = (torch.tensor([9]), torch.randn(5, 16))
    expect = {"output[0]": [RelL2(1e-5)], "output[1]": [RelL2(1e-5)]}
    report = check(twin, reading, inputs, expect=expect, bisect=True)
    assert report.passed, str(report)
    x, cache = torch.randn(1, 16), torch.randn(3, 16)
    mixed = check(twin.mixer.mix, reading.mixer.mix, (x, cache), expect={"output": [RelL2(1e-5)]})
    assert mixed.passed, str(mixed)
    assert twin.init_caches(device="cpu").shape == (1, 16)
