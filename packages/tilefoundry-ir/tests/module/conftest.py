"""Makes the resource beside this file importable for the tests below."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
