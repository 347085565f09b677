"""fork, spawn, pickles, interrupts."""

import copy
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading

import braze
import pytest
import torch
from support import entries, same

X = torch.randn(4, 3)


@braze.compile
def decorated(x):
    return torch.relu(x + 1) * 2


def plain(x):
    return torch.sin(x) * 3


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)

    def forward(self, x):
        return self.linear(x).relu()


def in_child(work):
    """Run in a forked child with a limit; its exit code, 0 if `work` did not raise."""
    pid = os.fork()
    if pid == 0:
        signal.alarm(40)
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_fork_after_compile():
    decorated(X)

    def child():
        torch.set_num_threads(1)
        with torch.no_grad():
            same(decorated(X), torch.relu(X + 1) * 2)  # as compiled, but for the number of threads
            same(decorated(X[:2]), torch.relu(X[:2] + 1) * 2)  # compiles
            same(braze.compile(plain)(X), plain(X))

    assert in_child(child) == 0
    same(decorated(X), torch.relu(X + 1) * 2)


def test_fork_while_another_thread_compiles():
    """The child has no such thread: nothing that it held is held for ever."""
    compiling, go_on = threading.Event(), threading.Event()

    def backend(gm, example_inputs):
        compiling.set()
        go_on.wait(60)
        return gm.forward

    def child():
        torch.set_num_threads(1)
        with torch.no_grad():
            fast = braze.compile(plain)
            same(fast(X), plain(X))
            assert len(entries(fast)) == 1, "the child can compile"

    thread = threading.Thread(target=braze.compile(plain, backend=backend), args=(X,))
    thread.start()
    assert compiling.wait(20)
    try:
        assert in_child(child) == 0
    finally:
        go_on.set()
        thread.join()


def spawned(function, x, queue):
    torch.set_num_threads(1)
    with torch.no_grad():
        queue.put(function(x).tolist())  # a tensor would be shared memory of a process that ends


@pytest.mark.parametrize("function", [decorated, braze.compile(plain)], ids=["decorated", "plain"])
def test_spawn(function):
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=spawned, args=(function, X, queue))
    process.start()
    result = queue.get(timeout=100)
    process.join()
    same(torch.tensor(result), function(X))


def test_pickles_and_copies_keep_their_settings():
    fast = braze.compile(plain, fullgraph=True, recompile_limit=3, dynamic=False)
    for again in (pickle.loads(pickle.dumps(fast)), copy.deepcopy(fast)):
        same(again(X), plain(X))
        for n in range(1, 6):
            again(torch.ones(n))
        assert len(entries(again)) == 3
    net = Net()
    module = braze.compile(net, recompile_limit=2, dynamic=False)
    for again in (pickle.loads(pickle.dumps(module)), copy.deepcopy(module)):
        for n in range(1, 6):
            same(again(torch.ones(n, 3)), net(torch.ones(n, 3)))
        assert len(entries(again)) == 2


def test_deepcopy_of_a_model_that_holds_compiled_parts():
    class Outer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = braze.compile(Net())
            self.function = braze.compile(plain)

        def forward(self, x):
            return self.function(self.inner(x))

    outer = Outer()
    expected = outer(X)
    again = copy.deepcopy(outer)
    with torch.no_grad():
        outer.inner.linear.weight.zero_()
    same(again(X), expected)


INTERRUPTED = """
import os, signal, sys, threading, time, torch, braze
torch.set_grad_enabled(False)

def f(x):
    for i in range(300):
        x = torch.sin(x) * 0.5 + x.sum(-1, keepdim=True) * 0.001
    return x

x = torch.randn(13, 11)
expected = f(x)
fast = braze.compile(f)
delay = float(sys.argv[1])
threading.Thread(target=lambda: (time.sleep(delay), os.kill(os.getpid(), signal.SIGINT))).start()
interrupted = False
try:
    fast(x)
    time.sleep(max(0, delay))
    for _ in range(1000000):
        pass
except KeyboardInterrupt:
    interrupted = True
torch.testing.assert_close(fast(x), expected)
torch.testing.assert_close(f(x), expected)
assert interrupted or delay > 5
print("ok")
"""


@pytest.mark.parametrize("delay", [0.01, 0.1, 0.5])
def test_interrupt_while_compiling(delay):
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, str(delay)],
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.stdout.strip() == "ok", done.stdout + done.stderr
