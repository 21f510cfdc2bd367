"""What generated device code calls of the runtime.

Oracle: every word of a barrier, and every call of a product or a reduction, in the texts of programs that have them.
"""

from __future__ import annotations

import re

import pytest

from tilefoundry import CompilerOptions, lower
from tilefoundry.codegen.cuda import BACKEND
from tilefoundry.ir.tir import Launch, PrimFunction, walk_tir
from tilefoundry.target import CudaTarget

from . import hand_placed_loops, hand_placed_modules, hand_placed_programs, hand_placed_statements
from .test_golden_sources import PROGRAMS as PLAIN
from .test_golden_sources import linear_gated as _dynamic

H200 = CudaTarget("nvidia.h200_sxm")
HAND_PLACED = (hand_placed_loops, hand_placed_modules, hand_placed_programs, hand_placed_statements)
BARRIERS = re.compile(
    r"[\w:]*sync[\w:]*<ops::SyncKind::\w+|\w*(?:__sync|__bar|bar_sync|mbarrier|cooperative)\w*|asm\b"
)


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    """Name -> device text."""
    programs = {name: p for module in HAND_PLACED for name, p in module.PROGRAMS.items()}
    programs |= {make.__name__: make() for make in PLAIN}
    found = {}
    for name, program in programs.items():
        parts = BACKEND.emit(lower(program, target=H200), H200, CompilerOptions()).parts
        found[name] = "\n".join(parts.devices)
    return found


@pytest.mark.spec("pipeline.sync")
def test_instances_meet_through_the_one_entry_alone(texts):
    met = {word for text in texts.values() for word in BARRIERS.findall(text)}
    assert met == {"ops::sync<ops::SyncKind::cta", "ops::sync<ops::SyncKind::grid"}


@pytest.mark.spec("pipeline.one-entry")
def test_implementations_behind_an_entry_are_not_named(texts):
    """Which of them runs is the runtime's to decide."""
    assert [name for name, text in texts.items() if re.search(r"\w_impl::|\w_tier", text)] == []
    words = {word for text in texts.values() for word in re.findall(r"ops::(\w*(?:matmul|reduce)\w*)", text)}
    assert {word for word in words if not word.endswith("_bytes")} == {"matmul", "reduce"}


@pytest.mark.spec("pipeline.extents")
def test_the_threads_of_a_block_are_a_constant_and_a_grid_that_the_call_decides_is_none(texts):
    """For the grid the header's own answer, the launch's extent, is left in force."""
    host = lower(_dynamic(), target=H200).entry_function()
    assert isinstance(host, PrimFunction)
    (launch,) = (stmt for stmt in walk_tir(host.body) if isinstance(stmt, Launch))
    assert not isinstance(launch.grid[0], int)
    assert "program_shape<TopologyScope::thread>() noexcept {" in texts[_dynamic.__name__]
    assert "program_shape<TopologyScope::cta>() noexcept" not in texts[_dynamic.__name__]
