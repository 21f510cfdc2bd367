"""Every op of the language on both back ends. Oracle: the registry, against what the op tests' programs hold.

The values of these programs are compared with the evaluator's in the op tests; here nothing may be left out.
"""

from __future__ import annotations

from typing import Any

import pytest

from tilefoundry import CompilerOptions, lower
from tilefoundry.codegen.cpu import BACKEND as CPU
from tilefoundry.codegen.cuda import BACKEND as CUDA
from tilefoundry.ir.core.expr import Bind, Call
from tilefoundry.ir.errors import UnsupportedError
from tilefoundry.ir.hir import HIR_OPS
from tilefoundry.target import CpuTarget

from .cuda import hand_placed_modules, hand_placed_programs
from .cuda.runners import computing_with
from .cuda.test_ops_compile import TESTS
from .placed_text import H200

BACKENDS = {"cpu": (CPU, CpuTarget()), "cuda": (CUDA, H200)}


REFUSED = {("local", "cpu"): r"tf\.local.*compile for cuda, or write the computation on"}
"""(op, target) -> the refusal at ``lower``, which names the op and the way out."""


@pytest.fixture(scope="module")
def programs() -> dict[str, Any]:
    """For each op the first program of the op tests that calls it."""
    found = {"reshard": hand_placed_programs.two_phases, "local": hand_placed_modules.local_parts}

    def collect(module, tensors, options):
        for function in module.functions:
            for name in _ops(function):
                found.setdefault(name, function)

    with computing_with(collect):
        for test, args in TESTS:
            test(*args)
    return found


def _ops(function):
    return [s.value.op.name for s in function.stmts() if isinstance(s, Bind) and isinstance(s.value, Call)]


@pytest.mark.parametrize("target", BACKENDS)
@pytest.mark.parametrize("name", sorted(HIR_OPS))
@pytest.mark.spec("ops.registry")
def test_every_op_of_the_registry(programs, name, target):
    assert name in programs, f"tf.{name}: no op test calls it"
    backend, chosen = BACKENDS[target]
    refusal = REFUSED.get((name, target))
    if refusal is not None:
        with pytest.raises(UnsupportedError, match=refusal):
            lower(programs[name], target=chosen)
        return
    lowered = lower(programs[name], target=chosen)
    assert backend.emit(lowered, lowered.resolve_target(), CompilerOptions()).source
