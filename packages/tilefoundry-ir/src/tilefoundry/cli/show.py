"""``tilefoundry show``: what a model file defines."""

from __future__ import annotations

import argparse
from pathlib import Path

from tilefoundry.cli.command import CommandError
from tilefoundry.cli.load import load_node
from tilefoundry.inspection import as_script
from tilefoundry.inspection.page import page
from tilefoundry.inspection.summary import summary

__all__ = ["help", "configure", "run"]

help = "show a module of a model file: its tree, functions, weights and ops"

EPILOG = """\
examples:
  tilefoundry show model.py                       the one module that the file defines
  tilefoundry show model.py:MiniLM                that module
  tilefoundry show model.py:MiniLM.layer0         a child; model.py:MiniLM.encode is a function
  tilefoundry show model.py:MiniLM --script       the canonical text
  tilefoundry show model.py:MiniLM --html m.html  tables and pictures, one file for a browser
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``show``."""
    parser.epilog = EPILOG
    parser.add_argument("node", metavar="FILE:MODULE", help="a model file, then a dotted name in it")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--script", action="store_true", help="print the canonical text instead of the summary")
    how.add_argument("--html", metavar="OUT", type=Path, help="write tables and pictures to OUT instead")
    parser.add_argument("--all", action="store_true", help="list equal children one by one")


def run(args: argparse.Namespace) -> int:
    """Print or write what ``args.node`` names."""
    node = load_node(args.node)
    if args.script:
        print(as_script(node), end="")
    elif args.html is not None:
        if not args.html.parent.is_dir():
            raise CommandError(f"there is no folder {args.html.parent} to write {args.html.name} to")
        args.html.write_text(page(node), encoding="utf-8")
        print(f"wrote {args.html}")
    else:
        print(summary(node, collapse=not args.all))
    return 0
