"""What a command of the ``tilefoundry`` program is, and where commands come from."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from importlib.metadata import EntryPoint, entry_points
from typing import Protocol, runtime_checkable

__all__ = ["GROUP", "Command", "CommandError", "UsageError", "find_commands"]

GROUP = "tilefoundry.commands"

_WHEEL_OF = {
    "cache": "tilefoundry-cuda",
    "check": "tilefoundry-runtime",
    "doctor": "tilefoundry-cuda",
    "prepare": "tilefoundry-runtime",
}
"""Commands of this project's other wheels: named where they are not installed."""


class CommandError(Exception):
    """What a command cannot do, as one line for the user; ends the program with status 1."""


class UsageError(CommandError):
    """What a command cannot read of its own arguments; ends the program with status 2."""


@runtime_checkable
class Command(Protocol):
    """One command. A wheel offers it under the entry-point group ``tilefoundry.commands``.

    The entry point's name is the command's name; its value is an object (or a module) with these members.

    Attributes:
        help: one line for the list of commands.
    """

    help: str

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Declare arguments, and set ``parser.description`` and ``parser.epilog`` where they help."""

    def run(self, args: argparse.Namespace) -> int | None:
        """Do it; the exit status, None for 0. Errors of this project and of the system end as one line."""


def find_commands(found: Iterable[EntryPoint] | None = None) -> dict[str, Command | CommandError]:
    """Command name -> command, or the error that kept it from loading, so that one bad wheel spoils only its own.

    Two wheels that offer one name make that name an error; so is one whose wheel is not installed.
    """
    commands: dict[str, Command | CommandError] = {}
    for entry in sorted(
        entry_points(group=GROUP) if found is None else found, key=lambda e: (e.name, e.value)
    ):
        if entry.name in commands:
            commands[entry.name] = CommandError(f"two installed packages offer the command {entry.name}")
        else:
            commands[entry.name] = _load(entry)
    for name, wheel in _WHEEL_OF.items():
        commands.setdefault(name, CommandError(f"it comes with the wheel {wheel}: pip install {wheel}"))
    return commands


def _load(entry: EntryPoint) -> Command | CommandError:
    try:
        command = entry.load()
    except Exception as error:
        return CommandError(f"{entry.name}: {entry.value} does not load ({type(error).__name__}: {error})")
    if not isinstance(command, Command):
        return CommandError(f"{entry.name}: {entry.value} has no help, configure and run")
    return command
