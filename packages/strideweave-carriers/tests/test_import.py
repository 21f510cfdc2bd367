"""What importing costs and requires. Oracle: a fresh interpreter."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import strideweave as sw
from strideweave._identity import other_distributions

pytestmark = pytest.mark.spec("import")


def run(code, *flags):
    return subprocess.run([sys.executable, *flags, "-c", code], capture_output=True, text=True, check=True)


def test_torch_and_numpy_come_late():
    code = (
        "import sys, strideweave as sw\n"
        "x = sw.Tensor(sw.Generic([1.0, 2.0]), 0, sw.Layout((2,)))\n"
        "y = sw.relu(x * x + x); y.backward(sw.Tensor(sw.Generic([1.0, 1.0]), 0, sw.Layout((2,))))\n"
        "assert x.grad.tolist() == [3.0, 5.0]\n"
        "print(sorted({'torch', 'numpy', 'tvm_ffi'} & set(sys.modules)))"
    )
    assert run(code).stdout.strip() == "[]"


def test_import_is_quick():
    """The bound is 0.4 s of an idle core, on which a million additions take 0.05 s; a busy one is given more."""
    code = (
        "import time; t = time.process_time(); sum(i for i in range(10**6)); loop = time.process_time() - t\n"
        "t = time.process_time(); import strideweave; print((time.process_time() - t) / max(1, loop / 0.05))"
    )
    assert min(float(run(code).stdout) for _ in range(3)) < 0.4


def test_only_the_two_doors_of_the_ir_are_used():
    code = "import sys, strideweave; print(sorted(m for m in sys.modules if m.startswith('tilefoundry.')))"
    loaded = eval(run(code).stdout)
    assert all(
        re.match(r"tilefoundry\.ir($|\.layout($|\.)|\.safetensors_header$|\.errors$)", m) for m in loaded
    ), loaded


def test_another_distribution_of_the_same_name_is_named(tmp_path):
    root = tmp_path / "strideweave"
    root.mkdir()
    assert other_distributions(root) == []
    ours = tmp_path / "strideweave_carriers-0.1.0.dist-info"
    ours.mkdir()
    (ours / "RECORD").write_text("strideweave/__init__.py,,\n")
    assert other_distributions(root) == []
    other = tmp_path / "strideweave-2.0.dist-info"
    other.mkdir()
    (other / "RECORD").write_text("strideweave/__init__.py,,\n")
    unrelated = tmp_path / "numpy-2.0.dist-info"
    unrelated.mkdir()
    (unrelated / "RECORD").write_text("numpy/__init__.py,,\n")
    assert other_distributions(root) == ["strideweave"]


def test_the_package_refuses_to_start_beside_it(tmp_path):
    """A copy of the package beside foreign metadata: the import error names both."""
    source = Path(sw.__file__).parent
    (tmp_path / "strideweave").symlink_to(source)
    (tmp_path / "strideweave-2.0.dist-info").mkdir()
    (tmp_path / "strideweave-2.0.dist-info" / "RECORD").write_text("strideweave/__init__.py,,\n")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import strideweave"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert out.returncode == 1 and "ImportError: strideweave: strideweave installs a package" in out.stderr
    assert "strideweave-carriers" in out.stderr


def test_everything_promised_is_there_and_documented():
    for name in sw.__all__:
        value = getattr(sw, name)
        assert isinstance(value, sw.DType) or (value.__doc__ or "").strip(), name


def test_tiled_carriers_come_with_their_first_name():
    code = (
        "import sys, strideweave as sw\n"
        "late = 'strideweave.carriers.tiled_evictable' not in sys.modules\n"
        "assert set(sw.__all__) <= set(dir(sw))\n"
        "from strideweave import TiledEvictable, TileSet\n"
        "from strideweave.carriers.tiled_evictable import TiledEvictable as same\n"
        "print(late, same is TiledEvictable is sw.TiledEvictable, sw.definition_of(same).storage is same)"
    )
    assert run(code).stdout.strip() == "True True True"
    with pytest.raises(AttributeError, match="no attribute 'TiledEvictible'"):
        sw.TiledEvictible  # noqa: B018
