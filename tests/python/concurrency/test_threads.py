"""Threads that call and compile, together and while another compiles."""

import threading

import braze
import torch
import workload
from support import same

X = torch.randn(4, 3)


def test_eight_threads_call_and_compile_twenty_functions():
    compiled = [braze.compile(function) for function in workload.FUNCTIONS]
    wrong, calls = workload.run_threads(compiled, 4)
    assert not wrong, wrong[0]
    assert calls >= 200


def test_reset_while_others_call():
    compiled = [braze.compile(function) for function in workload.FUNCTIONS]
    done = threading.Event()

    def resetting():
        while not done.wait(0.05):
            braze.reset()

    thread = threading.Thread(target=resetting)
    thread.start()
    wrong, _ = workload.run_threads(compiled, 1.5, threads=4)
    done.set()
    thread.join()
    assert not wrong, wrong[0]


def test_a_thread_calls_while_another_compiles():
    """It does not wait: what is compiled runs, what is not runs in eager."""
    compiling, go_on = threading.Event(), threading.Event()

    def backend(gm, example_inputs):
        compiling.set()
        released.append(go_on.wait(20))
        return gm.forward

    released = []
    slow = braze.compile(lambda x: x + 1, backend=backend)
    ready = braze.compile(lambda x: x * 2)
    ready(X)
    results = []
    thread = threading.Thread(target=lambda: results.append(slow(X)))
    thread.start()
    assert compiling.wait(20)
    same(ready(X), X * 2)
    same(slow(X), X + 1)
    same(braze.compile(lambda x: x - 1)(X), X - 1)
    go_on.set()
    thread.join()
    assert released == [True]
    same(results[0], X + 1)


def test_no_dead_lock_between_compiles_and_locks_of_the_program():
    """One thread compiles code that takes a lock, another holds it and compiles too."""
    lock = threading.Lock()

    def f(x):
        with lock:
            return x * 2

    def g(x):
        return x + 1

    def work(seed):
        for n in range(30):
            x = torch.randn(n % 5 + 1)
            same(braze.compile(f)(x), x * 2)
            with lock:
                same(braze.compile(g)(x), x + 1)

    threads = [threading.Thread(target=work, args=(i,), daemon=True) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()


def test_compiled_in_eager_in_compiled():
    @braze.compile
    def innermost(x):
        return x * 2

    @braze.disable
    def middle(x):
        return innermost(x) + 1

    @braze.compile
    def outer(x):
        return middle(x - 1) * 3

    for _ in range(3):
        same(outer(X), ((X - 1) * 2 + 1) * 3)


def test_recursion_through_compiled_and_eager():
    @braze.disable
    def eager(x, n):
        return compiled(x, n - 1) + 1

    @braze.compile
    def compiled(x, n):
        return x * 2 if n == 0 else eager(x, n) * 1

    for n in (0, 1, 5, 20):
        same(compiled(X, n), X * 2 + n)


def test_a_function_that_compiles_inside():
    @braze.compile
    def f(x):
        return braze.compile(lambda y: y * 2)(x) + 1

    for _ in range(3):
        same(f(X), X * 2 + 1)


def test_a_backend_that_calls_compiled_code():
    inner = braze.compile(lambda x: x * 2)

    def backend(gm, example_inputs):
        same(inner(X), X * 2)
        same(braze.compile(lambda x: x + 5)(X), X + 5)
        return gm.forward

    same(braze.compile(lambda x: x - 1, backend=backend)(X), X - 1)
