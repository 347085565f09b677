"""Native code that looks into its arguments: it sees what the function has changed so far, what it
reads is guarded, and what it is given to call changes nothing while tracing."""

import collections
import copy
import functools
import itertools
import json
import operator
import warnings

import braze
import pytest
import torch


class Box:
    def __init__(self, value):
        self.value = value


maps, lists = [{}, {"a": 1, "b": 2}], [[1], [0, 5]]
queue = collections.deque([[1], [2, 3]])
nested = [[[1]], [[2], [3]]]
first, second = Box(1), Box(5)
boxes = [first, second]
modules = (collections, copy, functools, itertools, json, operator, torch)


def reset():
    maps[:], lists[:] = [{}, {"a": 1, "b": 2}], [[1], [0, 5]]
    queue.clear()
    queue.extend([[1], [2, 3]])
    nested[:] = [[[1]], [[2], [3]]]
    boxes[:] = [first, second]
    first.__dict__ = {"value": 1}
    second.__dict__ = {"value": 5}


def state():
    return repr((maps, lists, queue, nested, vars(first), vars(second)))


def outcome(fn, x):
    try:
        return repr(fn(x)), state()
    except Exception as error:
        return type(error), str(error), state()


def function(lines):
    body = "".join(f"    {line}\n" for line in lines.splitlines())
    scope = dict(globals())
    exec(f"def f(x):\n    r = []\n    d = {{}}\n{body}    return d, r, x * 2\n", scope)
    return scope["f"]


CHANGES = "maps[0]['c'] = 3\nlists[0].append(9)\nfirst.value = 2\n"

LOOKS = [
    "for m in map(dict.fromkeys, reversed(maps)): d |= m",
    "for m in map(len, maps): r.append(m)",
    "for m in filter(None, maps): r.append(str(m))",
    "for m in zip(maps, maps): r.append(str(m))",
    "for m in map(dict.items, maps): r.append(list(m))",
    "for m in map(str, [maps]): r.append(m)",
    "for m in map(operator.attrgetter('value'), boxes): r.append(m)",
    "for m in map(getattr, boxes, ['value']): r.append(m)",
    "for m in map(functools.partial(operator.add, [1]), lists): r.append(m)",
    "for m in itertools.chain.from_iterable(lists): r.append(m)",
    "for m in itertools.chain(*lists): r.append(m)",
    "for k, m in itertools.groupby(lists, len): r.append((k, len(list(m))))",
    "for m in itertools.accumulate(lists): r.append(m)",
    "for m in itertools.starmap(operator.add, zip(lists, lists)): r.append(m)",
    "for m in itertools.filterfalse(None, maps): r.append(m)",
    "for m in itertools.takewhile(len, maps): r.append(len(m))",
    "for m in itertools.compress(lists, maps): r.append(len(m))",
    "it = map(len, maps); r.append(next(it)); r.append(list(it))",
    "made = []; it = map(len, made); made.append(lists[0]); r.append(next(it))",
    "a, b = map(len, maps); r.append((a, b))",
    "a, *b = map(len, maps); r.append((a, b))",
    "r.extend(map(len, maps))",
    "r += map(len, maps)",
    "r[:] = map(len, maps)",
    "r.append([*map(len, maps)])",
    "r.append({*map(len, lists)})",
    "r.append(1 in map(len, maps))",
    "r.append(','.join(map(str, maps)))",
    "r.append(list(map(operator.itemgetter(-1), lists)))",
    "r.append(any(map(operator.methodcaller('__contains__', 'c'), maps)))",
    "r.append(sum(map(len, lists)))",
    "r.append(str(maps))",
    "r.append(f'{maps} {lists}')",
    "r.append('%s' % (maps,))",
    "r.append('{}'.format(maps))",
    "r.append(json.dumps(maps))",
    "r.append(copy.deepcopy(maps))",
    "r.append(str({'k': maps}.items()))",
    "r.append(maps == [{'c': 3}, {'a': 1, 'b': 2}])",
    "r.append(lists < [[1, 3]])",
    "r.append((1, lists) == (1, [[1, 9], [0, 5]]))",
    "r.append(operator.eq(lists, [[1, 9], [0, 5]]))",
    "r.append([1, 9] in lists)",
    "r.append(lists.count([1, 9]))",
    "r.append(lists.index([1, 9]))",
    "r.append(sum(lists, []))",
    "r.append(all(maps))",
    "r.append(sorted(lists))",
    "r.append(functools.reduce(operator.add, lists))",
    "r.append(dict(zip('ab', map(tuple, lists))))",
    "r.append([len(q) for q in lists + lists])",
]


@pytest.mark.parametrize("looks", LOOKS)
def test_changes_made_so_far_are_seen(looks):
    fn = function(CHANGES + looks)
    reset()
    expected, x = outcome(fn, torch.ones(4)), torch.ones(4)
    fast = braze.compile(fn)
    for _ in range(3):
        reset()
        assert outcome(fast, x) == expected


READS = [
    "list(map(operator.attrgetter('value'), boxes))",
    "sorted(boxes, key=operator.attrgetter('value'))[0].value",
    "max(boxes, key=operator.attrgetter('value')).value",
    "list(map(getattr, boxes, ['value', 'value']))",
    "list(map(vars, boxes))",
    "dict(map(operator.attrgetter('value', 'value'), boxes))",
    "list(map(functools.partial(getattr, first), ['value']))",
    "len(list(filter(operator.attrgetter('value'), boxes)))",
    "str(queue)",
    "list(map(len, queue))",
    "[1] in queue",
    "queue.count([1])",
    "sum(queue, [])",
    "[[2], [3]] in nested",
    "nested.count([[2], [3]])",
    "str({1: nested}.items())",
    "list(map(str, nested))",
]


@pytest.mark.parametrize("reads", READS)
def test_what_is_read_is_guarded(reads):
    fn = function(f"r.append({reads})")
    fast, x = braze.compile(fn), torch.ones(4)
    reset()
    changes = [
        lambda: None,
        lambda: setattr(first, "value", 7),
        lambda: queue[0].append(4),
        lambda: nested[1][0].append(4),
        lambda: setattr(first, "value", 0),
        reset,
    ]
    for change in changes:
        change()
        assert outcome(fast, x) == outcome(fn, x)


CALLS = [
    "list(map(setattr, [first], ['value'], [3]))",
    "list(map(delattr, [first], ['value']))",
    "list(map(first.__setattr__, ['value'], [6]))",
    "list(map(object.__setattr__, [first], ['value'], [6]))",
    "list(map(functools.partial(setattr, first, 'value'), [9]))",
    "list(map(list.append, lists, [7, 8]))",
    "[m for m in map(list.append, lists, [7, 8])]",
    "list(map(list.pop, lists))",
    "any(map(list.sort, lists))",
    "list(map(dict.update, maps, [{'z': 1}]))",
    "list(map(operator.setitem, maps, ['b'], [3]))",
    "list(map(operator.methodcaller('append', 3), lists))",
    "list(map(functools.partial(list.append, lists[0]), [5]))",
    "list(filter(functools.partial(list.append, lists[0]), [5]))",
    "max([3, 1], key=functools.partial(list.index, lists[0]))",
    "sorted([3, 1], key=lists[0].append)",
    "functools.reduce(operator.iadd, [[5]], lists[0])",
    "list(itertools.accumulate([lists[0], [5]], operator.iadd))",
    "list(itertools.starmap(list.append, [(lists[0], 4)]))",
    "list(map(next, [iter(lists)]))",
]


@pytest.mark.parametrize("calls", CALLS)
def test_what_is_called_leaves_no_trace(calls):
    fn = function(f"r.append({calls})")
    reset()
    expected, x = outcome(fn, torch.ones(4)), torch.ones(4)
    fast = braze.compile(fn)
    for _ in range(3):
        reset()
        assert outcome(fast, x) == expected


class Scale:
    def __init__(self):
        self.by, self.numbers = 1, [1, 5, 7]
        self.method = self.times
        self.native = self.numbers.__getitem__
        self.partial = functools.partial(self)

    def times(self, number):
        return number * self.by

    __call__ = times


def set_attribute(scale):
    scale.by += 3


def set_item(scale):
    scale.numbers[1] += 2
    scale.numbers.append(3)


CALLED = ["method", "native", "partial"]


@pytest.mark.parametrize("name", CALLED)
def test_what_a_callable_from_outside_holds_is_guarded(name):
    def fn(x, scale):
        called = getattr(scale, name)
        return x + 1, list(map(called, [1, 2])), sorted([2, 1], key=called)

    fast = braze.compile(fn)
    x, ours, theirs = torch.ones(2), Scale(), Scale()
    for change in [None, set_attribute, set_item] * 2:
        for scale in (ours, theirs) if change else ():
            change(scale)
        assert repr(fast(x, ours)) == repr(fn(x, theirs))


def test_what_a_partial_from_outside_holds_is_guarded():
    class Holder:
        def __init__(self):
            self.partial = functools.partial(operator.add, 1)

    def fn(x, holder):
        outer = functools.partial(holder.partial)
        return x + 1, list(map(holder.partial, [1, 2])), outer(5), type(outer.func).__name__

    def set_parts(holder):
        holder.partial.__setstate__((operator.mul, (7,), {}, None))

    def set_attribute(holder):
        holder.partial.mark = 1

    def replace(holder):
        holder.partial = functools.partial(max, 3)

    fast, x, ours, theirs = braze.compile(fn), torch.ones(2), Holder(), Holder()
    for change in [None, set_parts, set_attribute, replace, None]:
        for holder in (ours, theirs):
            if change:
                change(holder)
        assert repr(fast(x, ours)) == repr(fn(x, theirs))


def test_warnings_that_come_to_raise():
    def fn(x):
        try:
            warnings.warn("careful", stacklevel=1)
        except UserWarning:
            return x + 1
        return x + 2

    fast, x = braze.compile(fn), torch.ones(2)
    for action in ("ignore", "ignore", "error", "ignore"):
        with warnings.catch_warnings():
            warnings.simplefilter(action)
            assert torch.equal(fast(x), fn(x))
