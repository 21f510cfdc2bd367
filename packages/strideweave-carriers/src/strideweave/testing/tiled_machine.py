"""A tiled carrier against a plain dict of tiles: random actions, everything visible compared after each.

The model knows values, validity, dirtiness, residency (with the order in which tiles are replaced), version and what
storage exists. Actions run one at a time, so the model can say exactly what must hold. Run it long with

    python -m strideweave.testing.tiled_machine --steps 200000 --seed 1
"""

from __future__ import annotations

import argparse
import random

import numpy

from ..autograd.mode import no_grad
from .tiled_actions import ACTIONS, Actions


class Machine(Actions):
    """The actions, drawn at random, with everything visible compared after each."""

    def step(self) -> str:
        """One random action, then the comparison; the action's name."""
        name = self.rng.choice(ACTIONS)
        if name in ("project", "scatter", "operate") and self.rng.random() < 0.3:
            with no_grad():
                getattr(self, name)()
        else:
            getattr(self, name)()
        self.carrier.wait_idle()
        self.compare()
        return name

    def compare(self) -> None:
        """Everything visible equals the model."""
        grid, model = self.model.grid[0], self.model
        slots = model.tile[0] * model.tile[1]
        for code, tile in model.tiles.items():
            state = self.carrier.tile_state((code % grid, code // grid))
            location = {(1, 1): "both", (1, 0): "primary", (0, 1): "secondary", (0, 0): "none"}[
                tile.primary, tile.secondary
            ]
            expected = (location, tile.value is not None, tile.dirty)
            assert (state.location, state.valid, state.dirty) == expected, (code, state, expected)
        assert self.carrier.version == model.version
        assert len(self.carrier.primary_tiles) <= model.capacity
        core = self.carrier._core
        assert core.primary.used == len(model.recent) == len(self.carrier.primary_tiles)
        assert not any(r.needed() or r.transit or r.claim for r in core.table.touched())
        stored = sum(t.secondary for t in model.tiles.values())
        assert core.home_writable or core.secondary.used == stored
        code = self.rng.choice(list(model.tiles))
        value = model.tiles[code].value
        if value is None:
            self.refused(lambda: self.carrier.get_value(code * slots), RuntimeError)
        else:
            found = [self.carrier.get_value(code * slots + i) for i in range(slots)]
            assert numpy.array_equal(numpy.array(found, numpy.float32), value)


def soak(steps: int, seed: int, per_machine: int = 100) -> int:
    """Run ``steps`` steps over machines of ``per_machine`` steps each; the number of machines.

    Raises:
        AssertionError: a divergence; the note says which seed and step.
    """
    done = machines = 0
    while done < steps:
        machine = Machine(seed + machines)
        for k in range(min(per_machine, steps - done)):
            try:
                machine.step()
            except BaseException as error:
                error.add_note(f"machine seed {seed + machines}, step {k}, {done} steps before")
                raise
            done += 1
        machine.carrier.release()
        machines += 1
    return machines


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**31))
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    machines = soak(options.steps, options.seed)
    print(f"{options.steps} steps on {machines} carriers, no divergence")


if __name__ == "__main__":
    main()
