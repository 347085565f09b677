"""Runs a task of `bench.tasks` in a fresh process with cache folders of its own."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.compilers import COMPILERS

ROOT = Path(__file__).resolve().parent.parent
MARK = "@@bench "


class ChildError(RuntimeError):
    """The process failed; the message ends with its last words."""


@contextlib.contextmanager
def empty_caches():
    """Environment variables that point every compiler's disk cache to a fresh folder."""
    with tempfile.TemporaryDirectory(prefix="bench-cache-") as folder:
        yield {
            variable: os.path.join(folder, compiler.name, variable.lower())
            for compiler in COMPILERS.values()
            for variable in compiler.cache_variables
        }


def run(task: str, environment: dict, timeout: float = 900, **parameters) -> dict:
    """The task's result, a dict, with what the process wrote on stderr under "stderr"."""
    process = subprocess.run(
        [sys.executable, "-m", "bench.tasks", task, json.dumps(parameters)],
        cwd=ROOT,
        env={"HF_HUB_OFFLINE": "1", **os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    for line in process.stdout.splitlines():
        if line.startswith(MARK):
            return {**json.loads(line.removeprefix(MARK)), "stderr": process.stderr}
    words = process.stderr.strip().splitlines()[-12:]
    raise ChildError(f"{task} {parameters}: exit code {process.returncode}\n" + "\n".join(words))
