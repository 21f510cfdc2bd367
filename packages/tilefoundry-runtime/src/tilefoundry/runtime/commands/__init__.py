"""What this wheel adds to the ``tilefoundry`` program: ``prepare`` and ``check``."""

from tilefoundry.runtime.commands import check, prepare

__all__ = ["check", "prepare"]
