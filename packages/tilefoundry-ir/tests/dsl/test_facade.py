"""import tilefoundry: lazy names, no torch, quick."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import tilefoundry
import tilefoundry.dsl

PROBE = """
import json, sys, time
start = time.process_time()
import tilefoundry, tilefoundry.ir, tilefoundry.dsl
took = time.process_time() - start
frameworks = ("torch", "numpy", "tvm_ffi", "safetensors")
print(json.dumps({"took": took, "loaded": [m for m in frameworks if m in sys.modules]}))
"""


STAR = PROBE.replace("import tilefoundry, tilefoundry.ir, tilefoundry.dsl", "from tilefoundry.dsl import *")


def probe(text: str) -> dict:
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, check=True, timeout=60
    )
    return json.loads(done.stdout)


@pytest.mark.spec("facade.import-time")
@pytest.mark.parametrize(("text", "bound"), [(PROBE, 0.3), (STAR, 1.0)], ids=["import", "star"])
def test_import_is_quick_and_loads_no_framework(text, bound):
    runs = [probe(text) for _ in range(3)]
    assert all(run["loaded"] == [] for run in runs)
    assert min(run["took"] for run in runs) < bound


def test_the_facade_itself_loads_nothing_of_the_project():
    code = "import sys, tilefoundry; print([m for m in sys.modules if m.startswith('tilefoundry.')])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.spec("facade.names")
@pytest.mark.parametrize("name", tilefoundry.__all__)
def test_every_public_name_resolves(name):
    assert getattr(tilefoundry, name) is getattr(tilefoundry, name)
    assert name in dir(tilefoundry)


@pytest.mark.spec("facade.names")
@pytest.mark.parametrize("facade", [tilefoundry, tilefoundry.dsl])
def test_lazy_names_and_static_names_agree(facade):
    tree = ast.parse(Path(facade.__file__).read_text())
    (block,) = [n for n in tree.body if isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING"]
    static = {
        alias.name: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    lazy = {**facade._MODULE_OF, **dict.fromkeys(getattr(facade, "_SUBMODULES", ()), facade.__name__)}
    assert static == lazy
    assert sorted(static) == sorted(facade.__all__)


@pytest.mark.spec("facade.names")
@pytest.mark.parametrize("name", tilefoundry.dsl.__all__)
def test_every_name_of_the_dsl_resolves(name):
    assert getattr(tilefoundry.dsl, name) is not None and name in dir(tilefoundry.dsl)


@pytest.mark.spec("facade.no-shadow")
def test_no_submodule_hides_a_public_name():
    folder = Path(tilefoundry.__file__).parent
    assert not {p.stem for p in folder.iterdir()} & set(tilefoundry.__all__)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        tilefoundry.nothing  # noqa: B018  # the access is what is tested
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        tilefoundry.dsl.nothing  # noqa: B018  # as above


# What model files, kernels and tools are written with.
IMPORT_LINES = """
from tilefoundry import func, prim_func, module, lower, build, compile, jit, evaluate, CompilerOptions, view
from tilefoundry import DType, TensorType, TupleType, DimVar, ceildiv, StorageKind, Pattern, DimVarRangePat
from tilefoundry import Layout, ComposedLayout, Mesh, Topology, ShardLayout, Split, S, Broadcast, B, Partial, P
from tilefoundry.dsl import Tensor, ConstTensor, Mesh, Topology, DimVar, DimVarRangePat, ceildiv, S, B, P, tf, T
from tilefoundry.dsl import func, module, ReduceKind, UnaryKind, BinaryKind
from tilefoundry.dsl import *
from tilefoundry.dsl.tf import *
from tilefoundry.evaluator import evaluate
from tilefoundry.inspection import as_script
from tilefoundry.ir.core.pattern import Pattern, DimVarRangePat
from tilefoundry.ir.core.kinds import BinaryKind, ReduceKind, UnaryKind
from tilefoundry.ir.hir.function import Function
from tilefoundry.ir.core.module import LoadedModule, Module
from tilefoundry.ir.types import DType, TensorType, TupleType
from tilefoundry.ir.types.dim import DimVar, ceildiv
from tilefoundry.ir.types.shard import Layout, ComposedLayout, Mesh, Topology, ShardLayout, Split, S
from tilefoundry.ir.types.shard import Broadcast, B, Partial, P, Dynamic, make_mesh
from tilefoundry.ir.types.storage import StorageKind
from tilefoundry.target import CpuTarget, CudaTarget, Target
""".strip().split("\n")


@pytest.mark.spec("facade.import-lines")
@pytest.mark.parametrize("line", IMPORT_LINES)
def test_the_import_lines_of_model_files(line):
    names: dict = {}
    exec(line, names)
    wanted = [name.strip() for name in line.partition(" import ")[2].split(",")]
    assert all(name in names for name in wanted if name != "*")
    if line == "from tilefoundry.dsl.tf import *":
        assert {"matmul", "softmax", "reshard", "cache_update"} <= set(names)
    if line == "from tilefoundry.dsl import *":
        assert {"func", "module", "Tensor", "ConstTensor", "tf", "T", "Mesh", "S"} <= set(names)
