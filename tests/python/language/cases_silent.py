"""What torch.compile 2.13 gets wrong without a word."""

import collections
import functools
import weakref

import torch
from running import case


class Scale:
    def __init__(self):
        self.factor = 2

    def apply(self, x):
        return x * self.factor


scale = Scale()


def patch_method(k):
    if k == 2:
        Scale.apply = lambda self, x: x - self.factor


@case(before=patch_method)
def method_patched_on_its_class(x):
    return scale.apply(x)


class Hooked(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        return self.linear(x)


hooked = Hooked()


def add_hook(k):
    if k == 1:
        hooked.linear.register_forward_hook(lambda module, args, out: out * 100)
    if k == 2:
        hooked.register_forward_pre_hook(lambda module, args: (args[0] + 1,))


@case(make=lambda k: (torch.randn(2, 4),), before=add_hook)
def hook_added_after_the_first_call(x):
    return hooked(x)


recent = collections.deque(maxlen=2)


@case
def full_deque(x):
    recent.append(x.shape)
    recent.append(len(recent))
    return x + len(recent)


window = collections.deque([1, 2, 3], maxlen=3)


@case
def deque_that_loses_items(x):
    window.append(x)
    window.appendleft(4)
    return window[0] * window[1] if isinstance(window[1], torch.Tensor) else x + window[1]


def overlapping(k):
    base = torch.arange(8.0)
    return (base[:4], base[4:]) if k < 2 else (base[:4], base[2:6])


@case(make=overlapping)
def inputs_that_start_to_overlap(x, y):
    x.mul_(2)
    y.add_(1)
    return x + y


def make_manager():
    events = []

    class Manager:
        def __enter__(self):
            events.append("enter")
            return self

        def __exit__(self, *error):
            events.append("exit")

    return Manager, events


Manager, events = make_manager()


@case
def closure_list_written_by_a_context_manager(x):
    with Manager():
        events.append("inside")
        x = x * 2
    return x + len(events)


finished = []


def with_finally(x):
    try:
        yield x + 1
        yield x + 2
    finally:
        finished.append("done")


@case
def finally_of_a_generator(x):
    for value in with_finally(x):
        break
    return value


@case
def finally_of_a_closed_generator(x):
    generator = with_finally(x)
    first = next(generator)
    generator.close()
    return first, list(finished)


counted = []


@functools.lru_cache(maxsize=None)
def cached(n):
    counted.append(n)
    return n * 10


@case
def lru_cache_with_an_effect(x, n):
    return x + cached(n) + cached(n)


@functools.lru_cache(maxsize=2)
def cached_object(n):
    return [n]


@case
def lru_cache_gives_the_same_object(x, n):
    cached_object(n).append(len(cached_object(n)))
    return x, cached_object(n) is cached_object(n), cached_object.cache_info()


class Watched:
    reads = []

    def __getattribute__(self, name):
        if name == "reads":
            return object.__getattribute__(self, name)
        self.reads.append(name)
        return object.__getattribute__(self, name)

    def __init__(self):
        self.value = 3


watched = Watched()


@case
def getattribute(x):
    return x * watched.value + len(watched.reads)


seen = []


@case
def effect_before_an_operation_that_raises(x):
    seen.append(len(seen))
    y = x + 1
    seen.append("computed")
    return y @ torch.ones(7, 7)


class Box:
    pass


@case
def object_gone_after_del(x):
    box = Box()
    box.value = x
    reference = weakref.ref(box)
    del box
    return reference() is None, x + 1


gone = []


class Noisy:
    def __del__(self):
        gone.append("deleted")


@case
def finaliser_runs_at_del(x):
    noisy = Noisy()
    before = len(gone)
    del noisy
    return x + (len(gone) - before)


def inner(x):
    received = yield x * 2
    return received + 1


def outer(x):
    result = yield from inner(x)
    yield result * 3


@case
def value_of_yield_from(x):
    generator = outer(x)
    first = next(generator)
    return first, generator.send(x)


@case
def tensor_in_list_of_itself(x, y):
    return x in [x], x + y


@case
def tensor_in_tuple_behind_others(x, y):
    return x in (None, "a", x), [None, x].index(x), x + y


@case
def try_around_a_failing_operation(x):
    try:
        y = x @ torch.ones(7, 7)
    except RuntimeError as error:
        y = x + len(str(error)) * 0 + 5
    return y


@case
def failing_operation_in_a_callee(x, log):
    def attempt(size):
        try:
            return x.view(size)
        except RuntimeError:
            log.append(size)
            return None

    return [attempt(size) for size in (1000, x.numel(), 77)]


@case
def effects_stay_when_an_exception_flies(x, log, d):
    log.append(1)
    d["c"] = x + 1
    raise ValueError("after the effects")


@case
def default_argument_that_grows(x):
    def collect(value, into=[]):
        into.append(value)
        return len(into)

    return x + collect(1) + collect(2)


history = []


def grows(value, into=history):
    into.append(value)
    return len(into)


@case
def default_from_outside_that_grows(x):
    return x * grows(x)
