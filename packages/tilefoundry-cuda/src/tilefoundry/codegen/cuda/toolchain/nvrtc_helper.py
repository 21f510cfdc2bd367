"""A process of its own for NVRTC, with the addresses that a precompiled header needs.

    python -I -S nvrtc_helper.py LIBRARY SOURCE OUTPUT NAME FLAG...

NVRTC maps a precompiled header at the very addresses at which it was made, so both runs switch the randomisation of
addresses off and load nothing but NVRTC. Exit status: 0 the cubin is in OUTPUT, 1 the source was refused, 2 the header
could not be used, 3 this system does not let a process choose. Standard library only; not imported by the package.
"""

import ctypes
import os
import sys

NO_RANDOMISATION = 0x0040000


def main(library: str, source: str, output: str, name: str, *flags: str) -> int:
    """Compile; the exit status."""
    process = ctypes.CDLL(None)
    persona = process.personality(0xFFFFFFFF)
    if persona < 0:
        return 3
    if not persona & NO_RANDOMISATION:
        if process.personality(persona | NO_RANDOMISATION) < 0:
            return 3
        os.execv(sys.executable, [sys.executable, "-I", "-S", *sys.argv])
    nvrtc, program, size = ctypes.CDLL(library), ctypes.c_void_p(), ctypes.c_size_t()
    with open(source, "rb") as file:
        text = file.read()
    if nvrtc.nvrtcCreateProgram(ctypes.byref(program), text, name.encode(), 0, None, None):
        return 1
    options = (ctypes.c_char_p * len(flags))(*(flag.encode() for flag in flags))
    code = nvrtc.nvrtcCompileProgram(program, len(flags), options)
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetProgramLog(program, log)
    if code or nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size)):
        return 1
    data = ctypes.create_string_buffer(size.value)
    if nvrtc.nvrtcGetCUBIN(program, data):
        return 1
    with open(output, "wb") as file:
        file.write(data.raw)
    return 2 if b"incompatible precompiled header" in log.value else 0


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
