"""Write the stub of the op namespace from the op registry: run it after an op was added or changed."""

from __future__ import annotations

import sys
from pathlib import Path

import tilefoundry.dsl.tf as tf
from tilefoundry.dsl.stubs import tf_stub_text

STUB = Path(tf.__file__).with_suffix(".pyi")


def main() -> int:
    """Write the stub; with ``--check`` only say whether it is up to date (exit status 1 when it is not)."""
    text = tf_stub_text()
    current = STUB.read_text() if STUB.exists() else ""
    if "--check" in sys.argv[1:]:
        if current != text:
            print(f"{STUB} is out of date: run python tools/gen_tf_stubs.py")
        return int(current != text)
    STUB.write_text(text)
    print(f"{STUB}: {'unchanged' if current == text else 'written'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
