"""Commands of the ``tilefoundry`` program that this wheel adds: ``doctor`` and ``cache``."""
