"""The compiler behind the verbs: back ends for CPU and CUDA, toolchains, the cache of built libraries.

Use it through ``tilefoundry.lower``, ``build``, ``compile`` and ``jit``; ``include_dirs()`` is for builds of your own
against the C++ runtime.
"""

from tilefoundry.codegen.headers import include_dirs

__all__ = ["include_dirs"]
