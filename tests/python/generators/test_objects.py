"""What made a generator is no matter to it: it is CPython's own object, with its own frame."""

import asyncio
import gc
import inspect
import operator
import sys
import threading
import types
import weakref

import braze
import pytest
import torch
from showing import described, outcome, same

X = torch.tensor([0.5, -1.0, 2.0])


def steps(x, n=3):
    """Its doc."""
    for k in range(n):
        got = yield x * k + 1
        x = x if got is None else got
    return x.sum()


fast = braze.compile(steps)


def test_type_and_names():
    made = fast(X)
    assert type(made) is types.GeneratorType and inspect.isgenerator(made)
    assert made.__name__ == "steps" and made.__qualname__ == "steps"
    assert fast.__doc__ == "Its doc." and made.gi_code.co_name == "steps"
    assert "generator object steps" in repr(made)
    assert iter(made) is made


def test_states_and_locals():
    made, plain = fast(X), steps(X)
    for _ in range(4):
        for read in (inspect.getgeneratorstate, lambda g: g.gi_running, lambda g: g.gi_suspended):
            assert read(made) == read(plain)
        assert same(inspect.getgeneratorlocals(made), inspect.getgeneratorlocals(plain))
        assert made.gi_frame.f_lineno == plain.gi_frame.f_lineno
        assert made.gi_frame.f_back is None and made.gi_yieldfrom is None
        assert made.gi_frame.f_globals is globals()
        if next(made, None) is None or next(plain, None) is None:
            break
    list(plain)
    assert made.gi_frame is None and inspect.getgeneratorstate(made) == "GEN_CLOSED"


def test_frame_while_it_runs():
    seen = []

    def f(x):
        for k in range(2):
            y = x + k
            frame = sys._getframe()
            seen.append((frame is box[0].gi_frame, frame.f_back.f_code.co_name, frame.f_lineno))
            seen.append((box[0].gi_running, inspect.stack()[1].function))
            yield y * 2

    def use(make):
        seen.clear()
        box[:] = [make(X)]
        return list(box[0]), [s for s in seen]

    box = []
    compiled = braze.compile(f)
    for _ in range(3):
        assert same(outcome(use, f), outcome(use, compiled))
    box.clear()


def test_weak_references_and_collection():
    class Watched:
        pass

    def f(x, held):
        me = yield x + 1
        yield held is not None and me is not None and x * 2
        yield x * 3

    compiled = braze.compile(f)
    for rounds in (0, 1, 2):
        held = Watched()
        watch = weakref.ref(held)
        made = compiled(X, held)
        ends = weakref.ref(made)
        del held
        for k in range(rounds):
            made.send(made if k else None)  # a cycle through its own frame
        del made
        gc.collect()
        assert ends() is None and watch() is None


def test_objects_live_as_long_as_in_eager():
    class Noted:
        def __init__(self, log, name):
            self.log, self.name = log, name

        def __del__(self):
            self.log.append(self.name)

    def f(x, log):
        a = Noted(log, "a")
        y = x + 1
        yield y
        b = Noted(log, "b")
        del a
        yield y * 2
        log.append("end")
        yield b.name

    def use(make):
        log = []
        for _ in make(X, log):
            log.append("got")
        made = make(X, log)
        next(made)
        del made
        return log

    compiled = braze.compile(f)
    for _ in range(3):
        assert outcome(use, f) == outcome(use, compiled)


def test_many_ways_to_resume():
    for _ in range(3):
        made, plain = fast(X, 9), steps(X, 9)
        for resume in (
            next,
            lambda g: g.send(None),
            lambda g: g.__next__(),
            lambda g: operator.methodcaller("send", X)(g),
            lambda g: next(zip(g)),
            lambda g: next(map(abs, g)),
            lambda g: [y for y, _ in zip(g, [1])],
            lambda g: next(y for y in g),
        ):
            assert same(resume(made), resume(plain))


def test_resumed_by_other_threads():
    made, plain = fast(X, 40), steps(X, 40)
    out = []

    def worker():
        for _ in range(10):
            out.append(next(made))

    for _ in range(4):
        thread = threading.Thread(target=worker)
        thread.start()
        thread.join()
    assert same(out, list(plain))


def test_many_threads_at_once():
    failures = []

    def worker(n):
        with torch.no_grad():
            for k in range(60):
                if not same(list(fast(X + n, k % 5)), list(steps(X + n, k % 5))):
                    failures.append((n, k))

    threads = [threading.Thread(target=worker, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def traced_lines(make, install):
    events = []

    def trace(frame, event, arg):
        if frame.f_code.co_name == "steps" and event != "opcode":
            events.append((event, frame.f_lineno))
        return trace

    made = make(X)
    next(made)
    before = sys.gettrace() if install is sys.settrace else sys.getprofile()
    install(trace)
    try:
        next(made)
    finally:
        install(before)
    next(made)
    return events


@pytest.mark.parametrize("install", [sys.settrace, sys.setprofile])
def test_tracing_sees_every_line(install):
    for _ in range(2):
        assert traced_lines(fast, install) == traced_lines(steps, install)


def test_while_another_thread_captures():
    """The hook of a trace is the interpreter's: generators then go on in eager."""
    stop = threading.Event()

    def captures():
        n = 0
        with torch.no_grad():
            while not stop.is_set():
                n += 1
                braze.compile(lambda x, n=n: (x + n).sin() * n)(X)

    thread = threading.Thread(target=captures)
    thread.start()
    try:
        for _ in range(100):
            assert same(list(fast(X, 4)), list(steps(X, 4)))
    finally:
        stop.set()
        thread.join()


def test_in_a_compiled_function():
    def total(x):
        made = fast(x)
        return sum(made) + x, next(fast(x))

    def consume(x, made):
        return [y * 2 for y in made], x + 1

    whole, outside = braze.compile(total), braze.compile(consume)
    for _ in range(3):
        assert same(whole(X), total(X))
        assert same(outside(X, fast(X)), consume(X, steps(X)))


def test_new_code_and_reset():
    def f(x):
        yield x + 1

    def g(x):
        yield x - 1
        yield x

    compiled = braze.compile(f)
    waiting = compiled(X)
    assert same(list(compiled(X)), [X + 1])
    f.__code__ = g.__code__
    assert same(list(compiled(X)), [X - 1, X])
    braze.reset() if hasattr(braze, "reset") else compiled.reset()
    assert same(list(compiled(X)), [X - 1, X]) and same(list(waiting), [X + 1])


def test_generator_outlives_what_made_it():
    made = braze.compile(lambda x: ((yield x + 1), (yield x + 2)))(X)
    gc.collect()
    assert same(list(made), [X + 1, X + 2])


def test_idle_generators_are_left_to_cpython():
    def f(n):
        while True:
            n = n * 3 % 1001
            yield n

    compiled = braze.compile(f)
    made = compiled(7)
    for _ in range(200):
        next(made)
    assert same([next(made) for _ in range(5)], [v for v, _ in zip(skip(f(7), 200), range(5))])
    assert len(compiled._entries()) < 10


def skip(made, count):
    for _ in range(count):
        next(made)
    return made


def test_keyboard_interrupt_between_yields():
    import signal

    def f(x):
        try:
            yield x + 1
            signal.raise_signal(signal.SIGINT)
            yield x * 2
        except KeyboardInterrupt:
            yield x * 3

    for make in (f, braze.compile(f)) * 2:
        assert same(list(make(X)), [X + 1, X * 3])


def test_recursion_limit_in_a_generator():
    def f(x, depth):
        yield deep(x, depth)

    def deep(x, depth):
        return x if depth == 0 else deep(x, depth - 1) + 1

    compiled = braze.compile(f)
    for _ in range(2):
        assert same(list(compiled(X, 5)), [X + 5])
        with pytest.raises(RecursionError):
            list(compiled(X, 10**6))


def test_event_loops():
    async def part(x, n):
        await asyncio.sleep(0)
        return x * n

    async def ticks(x):
        for k in range(3):
            await asyncio.sleep(0)
            yield x + k

    async def program(x):
        out = await asyncio.gather(part(x, 1), part(x, 2))
        async for y in ticks(x):
            out.append(y.sin())
        out += [y async for y in ticks(x * 2)]
        try:
            async with asyncio.timeout(0.01):
                await asyncio.sleep(5)
        except TimeoutError as error:
            out.append(described(error)[0])
        return out

    compiled = braze.compile(program)
    part, ticks = braze.compile(part), braze.compile(ticks)
    expected = asyncio.run(program(X))
    for _ in range(3):
        assert same(asyncio.run(compiled(X)), expected)


def test_cancelled_and_never_awaited():
    log = []

    async def f(x):
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            log.append(x * 2)
            raise

    async def use(make):
        task = asyncio.ensure_future(make(X))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return task.cancelled()

    compiled = braze.compile(f)
    for _ in range(2):
        assert asyncio.run(use(compiled))
    assert same(log, [X * 2, X * 2])
    with pytest.warns(RuntimeWarning, match="never awaited"):
        del_me = compiled(X)
        del del_me
        gc.collect()
