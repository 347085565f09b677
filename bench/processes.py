"""Runs a task of `bench.tasks` in a fresh process with cache folders of its own."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
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
    command = [sys.executable, "-m", "bench.tasks", task, json.dumps(parameters)]
    try:
        process = _finished(command, environment, timeout)
    except subprocess.TimeoutExpired as error:
        raise ChildError(f"{task} {parameters}: longer than {timeout} s") from error
    for line in process.stdout.splitlines():
        if line.startswith(MARK):
            return {**json.loads(line.removeprefix(MARK)), "stderr": process.stderr}
    raise _failure(task, parameters, process.returncode, process.stderr)


def _finished(command: list[str], environment: dict, timeout: float):
    return subprocess.run(
        command,
        cwd=ROOT,
        env={"HF_HUB_OFFLINE": "1", **os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=timeout,
    )


def stream(task: str, environment: dict, timeout: float = 600, **parameters) -> Iterator[dict]:
    """What the task gives, each as it comes; `timeout`: of the wait for a next one."""
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "bench.tasks", task, json.dumps(parameters)],
            cwd=ROOT,
            env={"HF_HUB_OFFLINE": "1", **os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        try:
            while line := _line(process, timeout):
                if line.startswith(MARK):
                    yield json.loads(line.removeprefix(MARK))
            code = process.wait()
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
        if code:
            errors.seek(0)
            raise _failure(task, parameters, code, errors.read())


def _line(process: subprocess.Popen, timeout: float) -> str:
    """The next line; none where the process has ended, or is ended because it took too long."""
    timer = threading.Timer(timeout, process.kill)
    timer.start()
    try:
        return process.stdout.readline()
    finally:
        timer.cancel()


def _failure(task: str, parameters: dict, code: int, stderr: str) -> ChildError:
    words = "\n".join(stderr.strip().splitlines()[-12:])
    return ChildError(f"{task} {parameters}: exit code {code}\n{words}")
