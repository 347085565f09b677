"""Before and after a capture every object that the garbage collector knows refers to the same
objects."""

import gc
import types

import pytest
import torch
from capturing import capture

from bench.zoo import ZOO


@pytest.fixture(autouse=True, scope="module")
def _frozen():
    """In place of that of all other tests: these look at every object that the collector knows."""


class Recorder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Linear(4, 4) for _ in range(3)])
        self.register_buffer("seen", torch.zeros(4))
        self.history, self.table, self.names = [1], {"a": 1}, {"x"}
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        self.history.append(x.shape)
        self.table["last"] = x
        self.names.add("y")
        self.seen.add_(1)
        self.cache = {"x": x}
        for layer in self.layers:
            x = torch.relu(layer(x))
        values = sorted((k * 2 for k in range(3)), key=lambda k: -k)
        try:
            raise ValueError(values)
        except ValueError as error:
            x = x + len(error.args)
        return {"out": x, "values": values}


class Point:
    def __init__(self, value):
        self.value = value

    def __repr__(self):
        return f"Point({self.value})"


points = [Point(1), Point(2)]


def objects_and_classes(x):
    class Local(Point):
        scale = 3

        def apply(self, v):
            return v * self.scale + self.value

    local = Local(points[0].value)
    points[1].value = repr(local)
    points.append(local.value)
    print("shape", x.shape)
    return local.apply(x), [p for p in points if isinstance(p, Point)][0].value


def breaks_in_the_middle(x):
    y = x + 1
    points[0].value = y
    points.append(y)
    if y.sum() > 0:
        return y * 2
    return y


def generators(x):
    def g():
        try:
            yield x
        finally:
            points.append("closed")

    for value in g():
        return value + 1


def heap():
    objects = gc.get_objects()
    own = id(objects)
    # Dicts of numbers and strings are not tracked by the collector.
    seen = {id(o) for o in objects}
    for o in list(objects):
        if not isinstance(o, types.FrameType):
            dicts = [r for r in gc.get_referents(o) if type(r) is dict and id(r) not in seen]
            seen.update(map(id, dicts))
            objects.extend(dicts)
    return {
        id(o): (o, *digest(o))
        for o in objects
        if id(o) != own and not isinstance(o, types.FrameType)
    }


def digest(o):
    """Number and identity of its referents; the ids of all would be a heap of their own."""
    referents = gc.get_referents(o)
    return len(referents), hash(tuple(map(id, referents)))


def changed(before):
    found = []
    for o, count, which in before.values():
        now = digest(o)
        if now != (count, which) and not isinstance(o, types.FrameType) and o is not before:
            found.append(f"{type(o).__name__}: {count} referents, now {now[0]}")
    return found


@pytest.mark.parametrize(
    "fn",
    [Recorder(), objects_and_classes, breaks_in_the_middle, generators],
    ids=lambda f: str(f)[:20],
)
def test_referents_stay(fn):
    check_referents(fn, torch.ones(2, 4))


@pytest.mark.parametrize("name", ["bert", "gpt2_cache", "t5", "resnet"])
def test_referents_of_models_stay(name):
    pytest.importorskip("transformers", reason="the models come from transformers")
    check_referents(ZOO[name].build(), **ZOO[name].arguments(ZOO[name].sizes[0]))


def check_referents(fn, *args, **kwargs):
    for _ in range(2):  # lazy imports, tables of operators and memos of the library
        capture(fn, *args, **kwargs)
    # Other threads of the test runner change their own objects now and then, not every time.
    for _ in range(3):
        gc.collect()
        gc.disable()
        try:
            before = heap()
            capture(fn, *args, **kwargs)
            found = changed(before)
        finally:
            gc.enable()
        if not found:
            return
    raise AssertionError(found)


def test_a_change_is_seen():
    gc.collect()
    gc.disable()  # it would go through the whole heap again and again
    try:
        before = heap()
        points[0].planted = object()
        found = changed(before)
    finally:
        gc.enable()
    del points[0].planted
    assert found
