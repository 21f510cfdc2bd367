"""``python -m tilefoundry.cli``."""

import sys

from tilefoundry.cli.program import main

sys.exit(main())
