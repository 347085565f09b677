"""Coroutines and asynchronous generators: awaited, looped over, cancelled, thrown into, closed."""

import asyncio
import contextlib
import contextvars
import inspect

import braze
import pytest
import torch
from resuming import check
from showing import described, outcome, same

X = torch.tensor([0.5, -1.0, 2.0])


async def part(x, n):
    y = x * n
    await asyncio.sleep(0)
    return y + 1


async def ticks(x, n):
    try:
        for k in range(n):
            got = yield x * k
            x = x if got is None else x + got
            await asyncio.sleep(0)
    except ValueError as error:
        yield x.sum()
        yield str(error)
    finally:
        await asyncio.sleep(0)


def run(make, *args):
    return asyncio.run(make(*args))


def nodes(fast):
    return sum(e["nodes"] for e in fast._entries())


def test_awaits_in_turn_are_compiled():
    async def f(x):
        a = await part(x, 2)
        b = await part(a * 3, 4)
        return a.sin() + b

    fast = check(f, lambda make: run(make, X))
    assert nodes(fast) >= 4
    # Coroutines that it awaits are compiled with it.
    assert any("part" in e["function"] and e["nodes"] for e in fast._entries())


def test_gather_and_task_groups():
    async def f(x):
        made = await asyncio.gather(*(part(x, k) for k in range(4)))
        total = sum(made)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(part(total, k)) for k in range(2)]
        return total + tasks[0].result() * tasks[1].result()

    fast = check(f, lambda make: run(make, X))
    assert nodes(fast) > 0


def test_failing_task_group():
    async def fails(x):
        await asyncio.sleep(0)
        raise ValueError(float(x.sum()))

    async def f(x):
        seen = []
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(fails(x))
                group.create_task(part(x, 3))
        except* ValueError as errors:
            seen += [repr(e) for e in errors.exceptions]
        return seen, x + len(seen)

    check(f, lambda make: run(make, X))


def test_asynchronous_loops_and_comprehensions():
    async def f(x, n):
        y = x
        async for v in ticks(x, n):
            if float(v.sum()) > 100:
                break
            y = y + v
        else:
            y = y * 2
        listed = [v + 1 async for v in ticks(y, 3) if v is not None]
        return y, listed, [await part(v, 2) for v in listed]

    for n in (0, 3):
        check(f, lambda make: run(make, X, n))


def test_context_managers():
    log = []

    @contextlib.asynccontextmanager
    async def scaled(x):
        log.append("in")
        try:
            yield x * 2
        except KeyError as error:
            log.append(repr(error))
        finally:
            await asyncio.sleep(0)
            log.append("out")

    async def f(x, fails):
        async with scaled(x) as y, scaled(y) as z:
            y = y + z
            if fails:
                raise KeyError("k")
            z = z - y
        return y

    def use(make):
        log.clear()
        return run(make, X, False), run(make, X, True), list(log)

    check(f, use)


def test_asynchronous_generator_by_hand():
    async def use_all(make):
        seen = []
        made = make(X, 9)
        seen.append(await anext(made))
        seen.append(await made.asend(X))
        seen.append(await made.athrow(ValueError("thrown")))
        seen.append([v async for v in made])
        closed = make(X, 3)
        seen.append(await anext(closed))
        await closed.aclose()
        seen.append([v async for v in closed])
        fresh = make(X, 3)
        await fresh.aclose()
        left = make(X, 3)
        await anext(left)
        return seen  # `left` is closed by the loop

    fast = check(ticks, lambda make: run(use_all, make))
    assert nodes(fast) > 0


def test_cancelled_timed_out_shielded():
    async def f(x, log):
        try:
            y = x * 2
            await asyncio.sleep(5)
        except asyncio.CancelledError:
            log.append(y + 1)
            raise
        finally:
            log.append(x + 2)
        return y

    async def use(make):
        log = []
        task = asyncio.ensure_future(make(X, log))
        await asyncio.sleep(0)
        task.cancel("why")
        ended = await asyncio.gather(task, return_exceptions=True)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(make(X, log), 0.001)
        return log, repr(ended[0])

    check(f, lambda make: run(use, make))


def test_producer_and_consumer():
    async def f(x):
        queue = asyncio.Queue(1)

        async def produce():
            for k in range(4):
                await queue.put(x + k)
            await queue.put(None)

        task = asyncio.create_task(produce())
        total = x * 0
        while (item := await queue.get()) is not None:
            total = total + item * 2
        await task
        return total

    check(f, lambda make: run(make, X))


def test_exceptions_keep_their_tracebacks():
    async def fails(x):
        await asyncio.sleep(0)
        return x.sum() + torch.ones(2) @ torch.ones(3)

    async def f(x):
        y = x * 2
        try:
            await fails(y)
        except RuntimeError as error:
            raise ValueError("outer") from error

    check(f, lambda make: run(make, X))

    async def stops(x):
        y = x + 1
        raise StopIteration(float(y.sum()))

    check(stops, lambda make: run(make, X))

    async def stops_too(x):
        yield x + 1
        raise StopAsyncIteration

    async def use(make):
        return [v async for v in make(X)]

    check(stops_too, lambda make: run(use, make))


def test_states_and_what_is_awaited():
    class Give:
        def __await__(self):
            got = yield 1
            return got

    async def f(x):
        y = x * 2
        got = await Give()
        return y + got

    for make in (f, braze.compile(f)):
        made = make(X)
        assert inspect.iscoroutine(made) and made.cr_await is None
        assert inspect.getcoroutinestate(made) == "CORO_CREATED"
        assert made.send(None) == 1
        assert inspect.getcoroutinestate(made) == "CORO_SUSPENDED"
        assert made.cr_await.__name__ == "__await__" and made.cr_frame.f_locals["y"].sum() == 3
        with pytest.raises(StopIteration) as stop:
            made.send(X)
        assert same(stop.value.value, X * 3)
        assert inspect.getcoroutinestate(made) == "CORO_CLOSED"
        with pytest.raises(RuntimeError, match="cannot reuse already awaited"):
            made.send(None)


def test_context_variables():
    variable = contextvars.ContextVar("variable", default=1)

    async def f(x, n):
        variable.set(n)
        y = x * variable.get()
        await asyncio.sleep(0)
        return y * variable.get()

    async def both(make):
        return await asyncio.gather(make(X, 2), make(X, 3)), variable.get()

    check(f, lambda make: run(both, make))


def test_often():
    """CPython specialises what runs often."""

    async def f(x, n):
        total = x * 0
        async for v in ticks(x, n):
            total = total + v
            for k in range(3):
                total = await part(total, k % 2 + 1)
        return total, float(total.sum())

    compiled, whole = braze.compile(f), braze.compile(ticks)
    for k in range(60):
        assert same(outcome(run, f, X, k % 4), outcome(run, compiled, X, k % 4))

    async def collect(make):
        return [v async for v in make(X, 5)]

    expected = run(collect, ticks)
    for _ in range(60):
        assert same(run(collect, whole), expected)


def test_never_awaited():
    fast = braze.compile(part)
    for _ in range(2):
        with pytest.warns(RuntimeWarning, match="coroutine 'part' was never awaited"):
            fast(X, 1)


def test_compiled_awaits_compiled():
    inner, steps = braze.compile(part), braze.compile(ticks)

    def program(part, ticks):
        async def f(x):
            out = [await part(x, 2)]
            async for v in ticks(x, 3):
                out.append(await part(v, 3))
            with contextlib.suppress(TypeError):
                await part(x, None)
            try:
                await part(x, "text")
            except TypeError as error:
                out.append(described(error)[0])
            return out

        return f

    expected = run(program(part, ticks), X)
    compiled = braze.compile(program(inner, steps))
    for _ in range(3):
        assert same(run(compiled, X), expected)
