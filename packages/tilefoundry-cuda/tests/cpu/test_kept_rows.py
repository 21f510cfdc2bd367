"""Values of a row that later passes need, kept where a result will lie. Oracles: the evaluator; the generated text."""

from __future__ import annotations

import torch

from tilefoundry import func, lower
from tilefoundry.codegen.cpu.emit import emit_module
from tilefoundry.dsl import DimVar, Tensor, tf

from .harness import compare

N = DimVar("N", 1, 100)


@func
def one_result(x: Tensor[(N, 70), "f32"]) -> Tensor[(N, 70), "f32"]:
    e = tf.exp(x)
    return e / tf.reduce(e, axes=(1,), keepdim=True, kind="sum")


@func
def two_results(x: Tensor[(N, 70), "f32"]) -> tuple[Tensor[(N, 70), "f32"], Tensor[(N, 70), "f32"]]:
    """Both follow from the kept value, so the first must not be written before the second is computed."""
    e = tf.exp(x)
    s = tf.reduce(e, axes=(1,), keepdim=True, kind="sum")
    return e / s, e - s


@func
def two_kept(x: Tensor[(N, 70), "f32"]) -> tuple[Tensor[(N, 70), "f32"], Tensor[(N, 70), "f32"]]:
    e, f = tf.exp(x), tf.sin(x)
    s = tf.reduce(e * f, axes=(1,), keepdim=True, kind="sum")
    return e / s, f * s + e


@func
def three_passes(x: Tensor[(N, 70), "f32"]) -> Tensor[(N, 70), "f32"]:
    """The kept value is read in two later passes."""
    e = tf.exp(x)
    s = tf.reduce(e, axes=(1,), keepdim=True, kind="sum")
    t = tf.reduce(tf.abs(e - s), axes=(1,), keepdim=True, kind="max")
    return e / t


@func
def kept_and_returned(x: Tensor[(N, 70), "f32"]) -> tuple[Tensor[(N, 70), "f32"], Tensor[(N, 70), "f32"]]:
    e = tf.exp(x)
    return e, e / tf.reduce(e, axes=(1,), keepdim=True, kind="sum")


@func
def narrow_result(x: Tensor[(N, 70), "bf16"]) -> Tensor[(N, 70), "bf16"]:
    e = tf.exp(x)
    return e / tf.reduce(e, axes=(1,), keepdim=True, kind="sum")


@func
def turned_result(x: Tensor[(N, 70), "f32"]) -> Tensor[(70, N), "f32"]:
    e = tf.exp(x)
    return tf.transpose(e / tf.reduce(e, axes=(1,), keepdim=True, kind="sum"), perm=(1, 0))


PROGRAMS = (one_result, two_results, two_kept, three_passes, kept_and_returned, narrow_result, turned_result)


def test_values_are_those_of_the_evaluator():
    compare(
        [(f, [torch.randn(9, 70).to(getattr(torch, f.params[0].type.dtype.torch_name))]) for f in PROGRAMS]
    )


def test_a_row_is_kept_in_the_result_of_its_type_and_apart_otherwise():
    def memories(function) -> int:
        return emit_module(lower(function, target="cpu")).count("_row[")

    assert "alignas" not in emit_module(lower(one_result, target="cpu"))
    assert memories(three_passes) == memories(two_results) == 0
    assert memories(narrow_result) > 0
