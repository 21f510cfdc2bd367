"""``prepare`` killed at every file operation, and its memory. Oracle: the old folder, the new one, /proc."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent


def run(script: str, *args: str) -> list[list]:
    done = subprocess.run(
        [sys.executable, str(HERE / script), *args], capture_output=True, text=True, cwd=HERE
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize(("before", "step"), [("old", "exchange"), ("old", "files"), ("fresh", "exchange")])
def test_a_killed_run_leaves_the_old_folder_or_the_new_one(tmp_path, before, step):
    rows = run("kill_points.py", str(tmp_path / "w"), before, step)
    allowed = {"old", "new"} if before == "old" else {"absent", "new"}
    assert all(found in allowed for _, _, found, _ in rows), rows
    assert all(after == "new" for *_, after in rows)
    killed = [found for _, was_killed, found, _ in rows if was_killed]
    assert rows[-1][1] is False and rows[-1][2] == "new"
    # Both sides of the switch were seen: before it and after it.
    assert len(killed) > 20 and set(killed) == allowed


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_memory_stays_at_a_few_weights(tmp_path):
    baseline, peak, largest = run(
        "memory.py", str(tmp_path), os.environ.get("TILEFOUNDRY_PREPARE_WEIGHTS", "100")
    )[-1]
    print(
        f"prepare: RssAnon {baseline / 2**20:.0f} MB before, {peak / 2**20:.0f} MB at most, weight {largest / 2**20} MB"
    )
    assert peak <= baseline + 3 * largest + (64 << 20)
