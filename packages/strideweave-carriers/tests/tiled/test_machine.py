"""Random actions on a tiled carrier against a dict of tiles; see ``strideweave.testing.tiled_machine``.

``TILED_STEPS`` sets the number of steps of the long run (200,000 for a release), ``TILED_SEED`` its seed.
"""

from __future__ import annotations

import os
import random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from strideweave.testing.tiled_actions import ACTIONS
from strideweave.testing.tiled_machine import Machine, soak


class Tiled(RuleBasedStateMachine):
    """Actions chosen, and shrunk, by Hypothesis; what each does with its choice is decided by its seed."""

    @initialize(seed=st.integers(0, 2**20))
    def begin(self, seed):
        self.machine = Machine(seed)

    @rule(action=st.sampled_from(sorted(set(ACTIONS))), seed=st.integers(0, 2**20))
    def act(self, action, seed):
        self.machine.rng.seed(seed)
        getattr(self.machine, action)()
        self.machine.carrier.wait_idle()
        self.machine.compare()

    def teardown(self):
        if hasattr(self, "machine"):
            self.machine.carrier.wait_idle()
            self.machine.carrier.release()


TestTiled = Tiled.TestCase
TestTiled.settings = settings(max_examples=25, stateful_step_count=25)


@pytest.mark.slow
def test_a_long_run():
    seed = int(os.environ.get("TILED_SEED", random.SystemRandom().randrange(2**31)))
    print(f"seed {seed}")
    soak(int(os.environ.get("TILED_STEPS", 2000)), seed)
