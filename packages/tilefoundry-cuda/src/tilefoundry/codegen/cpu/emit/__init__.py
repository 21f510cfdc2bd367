"""From TIR to C++17."""

from tilefoundry.codegen.cpu.emit.source import emit_module

__all__ = ["emit_module"]
