"""How to compile: optimisation, debug information, what to keep."""

from __future__ import annotations

from dataclasses import dataclass, fields

__all__ = ["CompilerOptions", "checked_options"]

_DEVICE_COMPILERS = ("nvrtc", "nvcc")


@dataclass(frozen=True, slots=True)
class CompilerOptions:
    """Options of one compilation; frozen, equal options give equal libraries.

    Args:
        opt_level: 0 to 3, the native compiler's ``-O``.
        line_info: keep line tables, so that profilers and debuggers show the generated source.
        keep_sources: leave the generated source beside the library in the cache.
        extra_flags: further flags for the native compiler, after the project's own. Where one may name a file or a
            folder, as ``-include`` and ``-I`` do, the library is compiled anew instead of found on disk: no key can
            tell what those hold. ``jit`` still keeps what it compiled in this process until ``cache_clear()``.
        device_compiler: ``"nvrtc"`` or ``"nvcc"``; only the CUDA target looks at it.
        ranges: push NVTX ranges around each call and each launch, named by their path in the program, for
            profilers to show; needs NVTX's headers.

    Raises:
        ValueError, TypeError: a value outside of these.
    """

    opt_level: int = 3
    line_info: bool = False
    keep_sources: bool = False
    extra_flags: tuple[str, ...] = ()
    device_compiler: str = "nvrtc"
    ranges: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.opt_level, bool) or self.opt_level not in (0, 1, 2, 3):
            raise ValueError(f"CompilerOptions: opt_level is 0, 1, 2 or 3, got {self.opt_level!r}")
        if isinstance(self.extra_flags, str):
            raise TypeError(
                f"CompilerOptions: extra_flags is a tuple of flags, got the string {self.extra_flags!r}; "
                f"write ({self.extra_flags!r},)"
            )
        for name in ("line_info", "keep_sources", "ranges"):
            if not isinstance(getattr(self, name), bool):
                raise TypeError(f"CompilerOptions: {name} is True or False, got {getattr(self, name)!r}")
        object.__setattr__(self, "extra_flags", tuple(self.extra_flags))
        for flag in self.extra_flags:
            if not isinstance(flag, str) or not flag or "\0" in flag:
                raise TypeError(f"CompilerOptions: a flag is a non-empty string, got {flag!r}")
        if self.device_compiler not in _DEVICE_COMPILERS:
            raise ValueError(
                f"CompilerOptions: device_compiler is one of {', '.join(_DEVICE_COMPILERS)}, "
                f"got {self.device_compiler!r}"
            )

    def text(self) -> str:
        """The canonical spelling, part of every cache key."""
        return ";".join(f"{field.name}={getattr(self, field.name)!r}" for field in fields(self))


_DEFAULT = CompilerOptions()


def checked_options(options: CompilerOptions | None) -> CompilerOptions:
    """The options that a verb was given; the defaults for None.

    Raises:
        TypeError: anything else, such as a dict.
    """
    if options is None:
        return _DEFAULT
    if isinstance(options, CompilerOptions):
        return options
    raise TypeError(
        f"options: expected CompilerOptions or None, got {type(options).__name__} {options!r}; "
        "write options=CompilerOptions(opt_level=2) or the like"
    )
