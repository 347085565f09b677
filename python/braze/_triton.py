"""Compiling of Triton for the run time (`src/runtime/cuda/triton.h`), by Triton's own compiler.

It runs in processes of its own (`_triton_process.py`), several side by side, as it holds the GIL
for most of the tenths of a second that a kernel takes it; this process never imports Triton.
"""

import base64
import functools
import importlib.metadata
import importlib.util
import json
import os
import subprocess
import sys
import tempfile

from . import _C

LEAST = (3, 5)
LIMIT = 600  # seconds
_PROGRAM = os.path.join(os.path.dirname(__file__), "_triton_process.py")


def _version():
    """The version of the package, without importing it; None: there is none."""
    if importlib.util.find_spec("triton") is None:
        return None
    for name in ("triton", "pytorch-triton"):
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            pass
    import triton

    return triton.__version__


def why_not(version):
    """Why kernels cannot be in Triton of this version; empty: they can."""
    if version is None:
        return "the package triton is not installed: pip install triton"
    parts = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if parts < LEAST:
        return f"triton {version} is older than {'.'.join(map(str, LEAST))}: update it"
    return ""


@functools.cache
def install():
    """Hands the compiler to the run time; False where there is none, which is told once."""
    version = _version()
    why = why_not(version)
    if why:
        print(f"braze: kernels on GPUs are CUDA C++ and not Triton: {why}", file=sys.stderr)
        return False
    _C.compile_triton(version, compile_sources)
    return True


def compile_sources(sources, folder):
    """`sources`: (name, text, flags) of each kernel. Gives (shared bytes, pointers, cubin) of each.

    A kernel's pointers are those that it takes behind its arguments. The sources are kept in
    `folder`, as Triton's compiler and profilers look for their lines; in a temporary one if empty.
    """
    with tempfile.TemporaryDirectory(prefix="braze-triton-") as own:
        jobs = [
            (_written(folder or own, own, name, text), name, flags) for name, text, flags in sources
        ]
        processes = max(1, min(len(jobs), os.cpu_count() or 1, 8))
        parts = [jobs[i::processes] for i in range(processes)]
        running = [_start(part, os.path.join(own, str(i))) for i, part in enumerate(parts)]
        results = [None] * len(jobs)
        for i, (process, file) in enumerate(running):
            results[i::processes] = _finished(process, file)
    failed = next((result["error"] for result in results if "error" in result), None)
    if failed:
        raise RuntimeError(failed)
    return [
        (result["shared"], result["pointers"], base64.b64decode(result["cubin"]))
        for result in results
    ]


def _written(folder, temporary, name, text):
    """The path of a file with the text; another process may write the same one."""
    for place in (folder, temporary):
        path = os.path.join(place, f"{name}.py")
        try:
            os.makedirs(place, mode=0o700, exist_ok=True)
            handle, partial = tempfile.mkstemp(dir=place)
            with os.fdopen(handle, "w") as file:
                file.write(text)
            os.replace(partial, path)
            return path
        except OSError:
            if place == temporary:
                raise
    raise AssertionError


def _start(jobs, file):
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(path for path in sys.path if path))
    environment.pop("TRITON_INTERPRET", None)
    with open(file + ".jobs", "w") as out:
        json.dump(jobs, out)
    process = subprocess.Popen(
        [sys.executable, _PROGRAM, file + ".jobs", file],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    return process, file


def _finished(process, file):
    try:
        _, said = process.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise RuntimeError(f"its compiler has not ended within {LIMIT} s") from None
    if process.returncode != 0:
        raise RuntimeError(said.decode(errors="replace").strip()[-2000:] or "its compiler died")
    with open(file) as results:
        return json.load(results)
