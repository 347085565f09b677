"""Runs referents.py in a process of its own: it looks at every object of the process, which after
thousands of other tests are too many."""

import os
import subprocess
import sys
from pathlib import Path


def test_referents():
    cases = Path(__file__).with_name("referents.py")
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(cases)],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "9 passed" in run.stdout or "skipped" in run.stdout
