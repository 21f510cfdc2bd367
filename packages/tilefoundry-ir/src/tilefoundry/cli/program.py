"""The ``tilefoundry`` program: parse, run a command, turn errors into one line and a status."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version

from tilefoundry.cli import show
from tilefoundry.cli.command import Command, CommandError, UsageError, find_commands
from tilefoundry.ir.errors import DslError, TileFoundryError

__all__ = ["build_parser", "main"]

OK, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130

EPILOG = """\
exit status:
  0  done
  1  the command failed; one line on standard error says why
  2  the command line is wrong
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line ``argv`` (by default the process's own) and return its exit status.

    Errors of a program, a file or a command are one line on standard error; ``--debug`` adds the traceback.
    """
    commands = {"show": show, **find_commands()}
    parser = build_parser(commands)
    try:
        args, others = parser.parse_known_args(argv)
        # What an absent command would have taken is not known; that it is absent is what there is to say.
        if others and not isinstance(commands.get(args.command), CommandError):
            parser.error(f"unrecognized arguments: {' '.join(others)}")
    except SystemExit as stop:  # argparse ends the process itself
        return stop.code if isinstance(stop.code, int) else USAGE
    if args.command is None:
        parser.print_help()
        return USAGE
    return _run(commands[args.command], args)


def _run(command: Command | CommandError, args: argparse.Namespace) -> int:
    try:
        if isinstance(command, CommandError):
            raise command
        status = command.run(args)
        sys.stdout.flush()
        return OK if status is None else status
    except KeyboardInterrupt:
        print("tilefoundry: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of a pipe left, as `| head` does: nothing is wrong, but Python would complain at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except Exception as error:
        if args.debug:
            traceback.print_exc()
        print(f"tilefoundry {args.command}: {_one_line(error)}", file=sys.stderr)
        return USAGE if isinstance(error, UsageError) else FAILED


def _one_line(error: Exception) -> str:
    if isinstance(error, DslError) and error.filename:
        return f"{error.filename}:{error.lineno}:{error.offset}: {_squeezed(error.msg)}"
    if isinstance(error, (CommandError, TileFoundryError, ValueError, TypeError)):
        return _squeezed(str(error))
    if isinstance(error, KeyError):
        return _squeezed(str(error.args[0]) if error.args else "a key is missing")
    if isinstance(error, OSError):
        return _squeezed(
            f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error)
        )
    return _squeezed(f"{type(error).__name__}: {error}; --debug shows where")


def _squeezed(text: str) -> str:
    return " ".join(text.split())


def build_parser(commands: Mapping[str, Command | CommandError]) -> argparse.ArgumentParser:
    """The parser over ``commands``; those that did not load are listed with the reason."""
    parser = argparse.ArgumentParser(
        prog="tilefoundry",
        description="Typed tensor programs: look at them; further wheels add commands to prepare and check them.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=_versions())
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--debug", action="store_true", help="on an error, show the traceback")
    parser.set_defaults(command=None, debug=False)
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for name, command in commands.items():
        text = f"not available: {command}" if isinstance(command, CommandError) else command.help
        one = subparsers.add_parser(
            name,
            help=_squeezed(text).replace("%", "%%"),
            description=text.replace("%", "%%"),
            parents=[shared],
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        if not isinstance(command, CommandError):
            command.configure(one)
    return parser


def _versions() -> str:
    lines = []
    for wheel in ("tilefoundry-ir", "tilefoundry-runtime", "tilefoundry-cuda"):
        try:
            lines.append(f"{wheel} {version(wheel)}")
        except PackageNotFoundError:
            continue
    return "\n".join(lines) or "tilefoundry-ir, not installed"
