"""The CPU surface as a loaded library: its C interface, and element types by their names."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

SOURCE = Path(__file__).resolve().parents[4] / "cpp-runtime" / "tests" / "host" / "cpu_surface.cc"
BF16 = ml_dtypes.bfloat16
NUMPY = {"f32": np.float32, "f64": np.float64, "bf16": BF16, "f16": np.float16, "i32": np.int32, "i8": np.int8,
         "i64": np.int64}  # fmt: skip


class Library:
    """A loaded library whose functions take arrays, ints and floats."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.handle = ctypes.CDLL(str(path))

    def __call__(self, name: str, *args: Any) -> int:
        function = getattr(self.handle, name)
        return function(*(self.argument(a) for a in args))

    @staticmethod
    def argument(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return ctypes.c_void_p(value.ctypes.data)
        return ctypes.c_double(value) if isinstance(value, float) else ctypes.c_int64(value)
