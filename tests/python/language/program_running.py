"""Runs a random program plainly and compiled, and compares all that its calls show."""

import contextlib
import gc
import io
import linecache
import random
import types

import braze
import numpy
import torch
from program_libraries import STATE
from programs import program
from snapshot import Snapshot, assert_equal
from torch.utils.hooks import RemovableHandle

CALLS = 7


def arguments(number, box, child):
    """Of one call: twice the same, other values, an alias, other sizes."""
    grid = torch.arange(6.0).reshape(2, 3)
    shared = torch.ones(2, 3)
    later = (grid, torch.full((2, 3), 2.0), 3, [4, 1, 2], {"a": 3, "c": 2}, child(2))
    first = (grid - 2, shared, 2, [1, 2, 3], {"a": 1, "b": 2}, box(1))
    return [
        first,
        first,
        later,
        (shared, shared, 2, [1, 2, 3], {"a": 1, "b": 2}, box(1)),
        (grid - 2, torch.ones(3), 0, [], {}, box(0)),
        (torch.arange(8.0).reshape(4, 2), torch.ones(4, 2), 5, [1, 2], {"b": 2}, box(1)),
        later,
    ][number]


def without_frames(error):
    """Tracebacks would hold the frames that hold the exceptions, until the collector comes by."""
    chain = [error]
    while chain:
        one = chain.pop()
        if one.__traceback__ is not None:
            one.__traceback__ = None
            chain += [e for e in (one.__cause__, one.__context__) if e is not None]
    return error


def drive(generator, seed):
    """What a generator yields under random requests, and how it ends."""
    requests, seen = random.Random(seed), []
    for _ in range(12):
        request = requests.choices(("next", "send", "throw", "close"), (70, 20, 6, 4))[0]
        try:
            if request == "next":
                seen.append(next(generator))
            elif request == "send":
                seen.append(generator.send(None if not seen else 4))
            elif request == "throw":
                seen.append(generator.throw(ValueError("thrown")))
            else:
                generator.close()
        except StopIteration as stop:
            return ["ended", seen, stop.value]
        except Exception as error:
            return ["raised", seen, without_frames(error)]
    return ["left", seen, generator]


def end_generators(result):
    """Ends what `drive` left, now: what its blocks draw and log does not hang on who drops it when.
    One that catches GeneratorExit in a loop has to be closed in each round of it."""
    if isinstance(result, list) and result and result[0] == "left":
        for _ in range(100):
            with contextlib.redirect_stdout(io.StringIO()):
                try:
                    result[2].close()
                    return
                except Exception:
                    pass


def drive_coroutine(coroutine, requests, seen, turns):
    """The same for what is awaited; what it gives in the end, or its exception."""
    for _ in range(turns):
        request = requests.choices(("send", "throw", "close"), (90, 6, 3))[0]
        try:
            if request == "send":
                seen.append(coroutine.send(None if requests.random() < 0.7 or not seen else 4))
            elif request == "throw":
                seen.append(coroutine.throw(ValueError("thrown")))
            else:
                coroutine.close()
        except StopIteration as stop:
            return "ended", stop.value
        except (Exception, StopAsyncIteration) as error:
            return "raised", without_frames(error)
    coroutine.close()
    return "left", None


def drive_async(made, seed):
    requests, seen = random.Random(seed), []
    if isinstance(made, types.CoroutineType):
        return [*drive_coroutine(made, requests, seen, 12), seen]
    ends = []
    for _ in range(8):
        turn = requests.choices(("anext", "asend", "athrow", "aclose"), (70, 20, 6, 3))[0]
        if turn == "asend":
            turn = made.asend(4 if seen else None)
        elif turn == "athrow":
            turn = made.athrow(ValueError("thrown"))
        else:
            turn = made.__anext__() if turn == "anext" else made.aclose()
        ends.append(drive_coroutine(turn, requests, seen, 6))
    return [ends, seen]


class Run:
    """A program in a namespace of its own."""

    def __init__(self, source, name, wrap):
        linecache.cache[name] = (len(source), None, source.splitlines(True), name)
        self.space = {"__name__": "program", "braze": braze}
        exec(compile(source, name, "exec"), self.space)
        self.f = wrap(self.space["f"])

    def call(self, number):
        """What one call shows of itself."""
        given = arguments(number, self.space["Box"], self.space["Child"])
        RemovableHandle.next_id = 1000 * number  # both runs count on one class
        for seed in (torch.manual_seed, random.seed, numpy.random.seed):
            seed(number)
        printed = io.StringIO()
        # What only cycles hold goes behind the call, and not whenever the collector comes by: what
        # has outlived one of its rounds would be left to a later one.
        gc.disable()
        with contextlib.redirect_stdout(printed), torch.no_grad():
            try:
                result = self.f(*given)
                if isinstance(result, types.GeneratorType):
                    result = drive(result, number)
                elif isinstance(result, (types.CoroutineType, types.AsyncGeneratorType)):
                    result = drive_async(result, number)
            except Exception as error:
                result = without_frames(error)
        gc.collect(1)
        gc.enable()
        state = [self.space[name] for name in ("LOG", "TOTAL", "SCALE")]
        state += [self.space[name] for name in STATE if name in self.space]
        drawn = [torch.rand(1), random.random(), numpy.random.rand()]
        shown = [result, printed.getvalue(), given, state, drawn]
        snapshot = Snapshot(shown, "program", exact="LAYER" in self.space)
        end_generators(result)
        return snapshot


def difference(source, name="program", **options):
    """What the first call that differs says; None if none does."""
    plain = Run(source, f"<{name}>", lambda f: f)
    fast = Run(source, f"<compiled {name}>", lambda f: braze.compile(f, backend="aten", **options))
    for number in range(CALLS):
        expected, actual = plain.call(number), fast.call(number)
        try:
            assert_equal(actual, expected)
        except AssertionError as error:
            return f"call {number}: {error}"
    return None


def compare(seed, kind, wide=False, **options):
    found = difference(program(seed, kind, wide), f"program {seed}", **options)
    assert found is None, f"program({seed}, {kind!r}, {wide!r}), {found}"
