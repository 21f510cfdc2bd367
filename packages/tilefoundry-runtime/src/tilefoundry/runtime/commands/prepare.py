"""``tilefoundry prepare``: convert a published checkpoint for a model file."""

from __future__ import annotations

import argparse

from tilefoundry.cli import CommandError
from tilefoundry.ir.core.module import Module
from tilefoundry.runtime.commands.files import load_alias, load_value
from tilefoundry.runtime.resource import SafetensorsResource

__all__ = ["help", "configure", "run"]

help = "convert a published checkpoint to the folder that a model and its twins load"

EPILOG = """\
examples:
  tilefoundry prepare model.py:MiniLM published/ prepared/
  tilefoundry prepare model.py:MiniLM published/ prepared/ --alias checkpoint.py:ALIAS
  tilefoundry prepare model.py:MiniLM published/ prepared/ --alias names.json --device cuda

An alias table maps the model's names to the checkpoint's: a Python dict, or a JSON object of strings, lists
(stacked) and {"absolute": "key"}.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``prepare``."""
    parser.epilog = EPILOG
    parser.add_argument("module", metavar="FILE:MODULE", help="a model file and a Module in it")
    parser.add_argument("raw", metavar="RAW", help="the published checkpoint's folder")
    parser.add_argument("out", metavar="OUT", help="a new folder, or one that an earlier run wrote")
    parser.add_argument("--alias", metavar="FILE", help="FILE.json, or FILE.py:NAME of a dict")
    parser.add_argument("--prefix", default="", help="joined before every raw name, dot included")
    parser.add_argument("--device", default="cpu", help="where converters run (default: cpu)")


def run(args: argparse.Namespace) -> int:
    """Write the prepared folder."""
    module = load_value(args.module)
    if not isinstance(module, Module):
        raise CommandError(f"{args.module} is no Module but a {type(module).__name__}")
    raw = SafetensorsResource(args.raw, args.prefix, "cpu", load_alias(args.alias))
    module.prepare(raw, args.out, device=args.device)
    print(f"wrote {args.out}")
    return 0
