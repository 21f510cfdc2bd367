"""The ``tilefoundry`` command line. Other wheels add commands under the entry-point group ``tilefoundry.commands``."""

from tilefoundry.cli.command import Command, CommandError, UsageError
from tilefoundry.cli.program import main

__all__ = ["Command", "CommandError", "UsageError", "main"]
