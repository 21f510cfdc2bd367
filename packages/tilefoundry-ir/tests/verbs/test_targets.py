"""Targets and options are records with one spelling. Oracle: the stated texts and limits."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from tilefoundry.target import CompilerOptions, CpuTarget, CudaTarget, Target


@pytest.mark.spec("target.text")
def test_a_target_spells_itself_and_reads_back():
    for target, text in (
        (CpuTarget(), 'CpuTarget("native")'),
        (CpuTarget("x86-64-v3"), 'CpuTarget("x86-64-v3")'),
        (CudaTarget("nvidia.h200_sxm"), 'CudaTarget("nvidia.h200_sxm")'),
    ):
        assert target.text() == str(target) == text and eval(text) == target
    with pytest.raises(NotImplementedError, match=r"Target must spell itself in text\(\)"):
        Target().text()


@pytest.mark.spec("target.refused")
def test_names_that_are_no_chip_or_architecture():
    with pytest.raises(ValueError, match=r"unknown chip 'h9000'; give one of nvidia\.a100_sxm, .*\"sm_90a\""):
        CudaTarget("h9000")
    for arch in ("", "-O3", "a b", 3):
        with pytest.raises(ValueError, match="is no architecture name"):
            CpuTarget(arch)


@pytest.mark.spec("options.canonical")
def test_options_are_frozen_and_spelled_in_one_way():
    options = CompilerOptions(opt_level=2, extra_flags=["-g"])
    assert options == CompilerOptions(opt_level=2, extra_flags=("-g",))
    assert options.text() == (
        "opt_level=2;line_info=False;keep_sources=False;extra_flags=('-g',);device_compiler='nvrtc';"
        "ranges=False"
    )
    with pytest.raises(FrozenInstanceError):
        options.opt_level = 3


@pytest.mark.spec("options.refused")
@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"opt_level": 4}, ValueError, "opt_level is 0, 1, 2 or 3, got 4"),
        ({"opt_level": True}, ValueError, "opt_level is 0, 1, 2 or 3, got True"),
        (
            {"extra_flags": "-g"},
            TypeError,
            r"extra_flags is a tuple of flags, got the string '-g'; write \('-g',\)",
        ),
        ({"extra_flags": ("",)}, TypeError, "a flag is a non-empty string, got ''"),
        ({"ranges": 1}, TypeError, "ranges is True or False, got 1"),
        ({"line_info": "yes"}, TypeError, "line_info is True or False, got 'yes'"),
        ({"device_compiler": "gcc"}, ValueError, "device_compiler is one of nvrtc, nvcc, got 'gcc'"),
    ],
)
def test_wrong_options(given, error, message):
    with pytest.raises(error, match=f"CompilerOptions: .*{message}"):
        CompilerOptions(**given)
