"""``tilefoundry check``: hold a twin, or the compiled module, against the evaluator on a checkpoint."""

from __future__ import annotations

import argparse
import ast
import inspect
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from tilefoundry.cli import CommandError, UsageError
from tilefoundry.ir.core.module import LoadedModule, Module
from tilefoundry.runtime.commands.files import load_alias, load_inputs, load_value
from tilefoundry.runtime.compiled import CompiledModule
from tilefoundry.runtime.measure import check
from tilefoundry.runtime.module import RuntimeModule
from tilefoundry.runtime.predicates import PREDICATES, Predicate
from tilefoundry.runtime.resource import SafetensorsResource
from tilefoundry.verbs import jit

__all__ = ["help", "configure", "run"]

help = "compare a twin, or the compiled module, with the reference evaluator"

EPILOG = """\
examples:
  tilefoundry check twin.py:MiniLMTwin prepared/ --inputs batch.safetensors --expect "rel_l2(1e-5), nan_inf()"
  tilefoundry check model.py:MiniLM prepared/ --target cpu --inputs inputs.py:SENTENCES --expect "rel_l2(1e-5)"
  tilefoundry check twin.py:Step prepared/ --inputs in.py:make --expect "output[0]=allclose(1e-3, 1e-3)" \\
      --expect "output[1]=equal()" --bisect

predicates: allclose(atol, rtol)  rel_l2(max)  cosine(min)  equal()  ulp(max)  max_abs(max)  max_rel(max)  nan_inf()
The exit status is 0 where everything passed and 1 where it did not.
"""

_CALL = re.compile(r"\s*(\w+)\s*(\([^()]*\))\s*(?:,|$)")


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``check``."""
    parser.epilog = EPILOG
    parser.add_argument("subject", metavar="FILE:NAME", help="a twin class, or a Module to compile")
    parser.add_argument("weights", metavar="DIR", help="the prepared checkpoint")
    parser.add_argument(
        "--inputs", required=True, metavar="FILE", help="tensors.safetensors, or FILE.py:NAME"
    )
    parser.add_argument(
        "--expect", required=True, action="append", metavar="[PATH=]PREDICATES", help="bounds"
    )
    parser.add_argument("--target", default="cpu", help="what a Module is compiled for (default: cpu)")
    parser.add_argument("--device", default="cpu", help="where weights and inputs go (default: cpu)")
    parser.add_argument("--alias", metavar="FILE", help="FILE.json, or FILE.py:NAME of a dict")
    parser.add_argument(
        "--bisect", action="store_true", help="on a failure, name the first function that differs"
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON")


def run(args: argparse.Namespace) -> int:
    """Compare and print the report."""
    expect = parse_expect(args.expect)
    subject = load_value(args.subject)
    resource = SafetensorsResource(args.weights, "", args.device, load_alias(args.alias))
    candidate, reading = _sides(args, subject, resource)
    inputs = load_inputs(args.inputs, _activation_names(reading), args.device)
    report = check(candidate, reading, inputs, expect=expect, bisect=args.bisect)
    print(json.dumps(report.to_dict(), indent=2) if args.json else report)
    return 0 if report.passed else 1


def _sides(
    args: argparse.Namespace, subject: Any, resource: SafetensorsResource
) -> tuple[Callable[..., Any], LoadedModule]:
    if isinstance(subject, Module):
        reading = subject.load(resource)
        compiled = jit(subject, target=args.target)
        if not isinstance(compiled, CompiledModule):
            raise CommandError(f"the target {args.target} gave no compiled module")
        return compiled.bind(reading), reading
    twin: Any = subject() if inspect.isclass(subject) else subject
    if not isinstance(twin, RuntimeModule):
        raise CommandError(f"{args.subject} is neither a Module nor a twin of one")
    if twin.module is None:
        raise CommandError(f"{args.subject} stands for no Module, so there is nothing to compare it with")
    twin.load(resource)
    return twin, twin.module.load(resource)


def _activation_names(reading: LoadedModule) -> tuple[str, ...]:
    if reading.entry is None:
        return ()
    return tuple(p.name for p in reading.module.entry_function().params if not p.is_const)


def parse_expect(texts: list[str]) -> Mapping[str, list[Predicate]]:
    """``["output[0]=rel_l2(1e-5), nan_inf()"]`` as what ``check`` takes; a missing path is ``output``.

    Raises:
        UsageError: text of another form, or an unknown predicate.
    """
    expect: dict[str, list[Predicate]] = {}
    for text in texts:
        path, found, calls = text.partition("=")
        path, calls = (path.strip(), calls) if found else ("output", text)
        if path in expect:
            raise UsageError(f"--expect states {path} twice; put its predicates into one list")
        expect[path] = _predicates(text, calls)
    return expect


def _predicates(text: str, calls: str) -> list[Predicate]:
    out, at = [], 0
    while at < len(calls):
        match = _CALL.match(calls, at)
        if match is None or match[1] not in PREDICATES:
            raise UsageError(f"--expect {text!r} is no list of predicates; there are {', '.join(PREDICATES)}")
        out.append(_built(text, match[1], match[2]))
        at = match.end()
    return out


def _built(text: str, name: str, arguments: str) -> Predicate:
    kind = PREDICATES[name]
    try:
        # One value in parentheses is no tuple, so a comma is added to it.
        values = ast.literal_eval(f"({arguments[1:-1]},)") if arguments[1:-1].strip() else ()
        return kind(*values)
    except (SyntaxError, TypeError, ValueError) as error:
        raise UsageError(f"--expect {text!r}: {name} takes ({', '.join(kind.bounds)}): {error}") from None
