"""Runs programs in children of one process that has imported torch and braze, and nothing more.

A line of JSON in: {"source", "environment", "limit"}. One out: {"verdict", "text"}: "ok", "exit 3",
"SIGSEGV", "hangs"; what the program printed. Programs end as any does: the interpreter is taken apart.
"""

import gc
import json
import os
import random
import resource  # noqa: F401
import signal
import subprocess  # noqa: F401
import sys
import tempfile
import threading
import time
import warnings

# Handlers of a fork that come behind those of what is imported below, and let other threads run.
HANDLERS = []
os.register_at_fork(before=lambda: [handler() for handler in HANDLERS])

import braze  # noqa: E402
import torch  # noqa: E402

torch.set_num_threads(1)
torch.set_grad_enabled(False)
# As from Python 3.12 on, of every fork while other threads run, which is what is tested here.
warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)


def f(x):
    for _ in range(4):
        x = torch.sin(x) * 0.9 + x.sum(-1, keepdim=True) * 0.01
    return x


def breaks(x):
    y = torch.relu(x)
    if y.sum() > 1e9:
        return y
    return torch.tanh(y) * 2


X = torch.randn(13, 11, generator=torch.Generator().manual_seed(1))
W, WB = f(X), breaks(X)


def same(a, b):
    assert a.shape == b.shape and a.dtype == b.dtype, (a, b)
    assert bool(((a - b).abs() <= 1e-4 + 1e-4 * b.abs()).all()), (a - b).abs().max()


same(X, X)


def once(function=f, x=X):
    """Compiles and calls twice; the kinds of what was made."""
    fast = braze.compile(function)
    want = function(x)
    same(fast(x), want)
    same(fast(x), want)
    return [entry["kind"] for entry in fast._entries()]


def when_capturing(thread, function):
    """Calls `function` in the midst of the first capture of `thread`: all collect garbage."""

    def collected(phase, info):
        if threading.current_thread() is thread and phase == "start":
            gc.callbacks.remove(collected)
            function()

    gc.disable()  # of its own accord
    gc.callbacks.append(collected)


def child(work, limit=20):
    """The process number of a forked child that ends with 0 if `work` did not raise."""
    pid = os.fork()
    if pid == 0:
        signal.alarm(limit)
        code = 1
        try:
            work()
            code = 0
        except BaseException as error:
            print("child:", type(error).__name__, error, flush=True)
        finally:
            os._exit(code)
    return pid


def reap(pids):
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
    assert not any(codes), f"children ended with {codes}"


def verdict_of(pid, limit):
    end = time.monotonic() + limit
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            return "ok" if code == 0 else f"exit {code}" if code > 0 else signal.Signals(-code).name
        time.sleep(0.002)
    os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return "hangs"


def serve():
    """The program that this process is to run, in a child; None in the parent, at the end."""
    for line in sys.stdin:
        request = json.loads(line)
        output = tempfile.TemporaryFile()
        pid = os.fork()
        if pid == 0:
            os.setpgid(0, 0)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
            for name, value in request["environment"].items():
                os.environ[name] = value
            braze._C.reload_options()
            return request["source"]
        verdict = verdict_of(pid, request["limit"])
        output.seek(0)
        text = output.read().decode("utf-8", "replace")
        print(json.dumps({"verdict": verdict, "text": text}), flush=True)
    return None


if __name__ == "__main__":
    program = serve()
    if program is not None:
        names = {**globals(), "random": random, "threading": threading}
        exec(compile(program, "<program>", "exec"), names)
